"""A library of one maze whose planner draws straight lines: the whole way from request to rollout, in milliseconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import nn

from vhdiffuser.control.base import Controller, make_controller
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.base import Skeleton
from vhdiffuser.envs.maze2d.maze import UMAZE
from vhdiffuser.envs.maze2d.simulator import Maze2dEnv
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import planner_digests
from vhdiffuser.planner.planner import Planner
from vhdiffuser.web.library import Entry, Library, Loaded, Missing, SimulatorPool

ENVIRONMENT = get_environment("maze2d-umaze")
SPEC = ENVIRONMENT.spec
NORMALIZER = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
CONFIG = PlannerConfig(dim=8, prediction="sample", diffusion_steps=32)
OPTIONS = PlanningOptions(steps=4, gamma=1.0)
STEPS_PER_UNIT = 60.0

FREE = {"environment": "maze2d-umaze", "start": [1.0, 1.0], "goal": [1.0, 2.5]}
"""A corridor: the straight line is the way."""
BEHIND_WALL = {"environment": "maze2d-umaze", "start": [1.0, 1.0], "goal": [3.0, 1.0]}
"""The straight line leads through a wall: the ball cannot follow."""


class StraightLines(nn.Module):
    """tau^0 between the ends that are known, at constant speed."""

    def forward(self, tau: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        first, last = tau[:, :1, :2], tau[:, -1:, :2]
        share = torch.linspace(0, 1, tau.shape[1])[None, :, None]
        scale = torch.from_numpy(NORMALIZER.scale)
        seconds = (tau.shape[1] - 1) * CONFIG.stride * SPEC.control_dt
        speed = (last - first) * scale[:2] / seconds / scale[2:]
        return torch.cat([first + share * (last - first), speed.expand(-1, tau.shape[1], -1)], dim=2)


class Ruler:
    """A Length Predictor that measures the straight line."""

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return STEPS_PER_UNIT * np.linalg.norm(starts[..., :2] - goals, axis=-1)


class SlowController(Controller):
    """Takes its time at every step: an execution that lasts until it is ended."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def act(self, observations, plans, indices):
        self.begun.set()
        time.sleep(0.1)
        return np.zeros((len(observations), 2), np.float32)

    def describe(self):
        return {"name": "slow"}


class MastEnv(Maze2dEnv):
    """The ball carries a mast of height 1, to be drawn in space."""

    def skeleton(self, observations):
        foot = np.concatenate([observations[:, :2], np.zeros((len(observations), 1))], axis=1)
        return Skeleton(np.stack([foot, foot + np.array([0, 0, 1])], axis=1), ((0, 1, 0.05),))


def calibrated(planner: Planner) -> Planner:
    """Fails at 20, 5 and 2 % of horizons of 1, 1.25 and 1.5 times the predicted length, whatever the distance."""
    failure = np.array([[0.9, 0.2, 0.05, 0.02]] * 2)
    shares = np.full_like(failure, 0.8)
    made = {"models": planner_digests(planner)}
    multiples = np.array([0.8, 1.0, 1.25, 1.5])
    planner.calibration = Calibration(np.array([10.0, 100.0]), multiples, failure, shares, shares + 0.15, made)
    return planner


def load_toy(controller: Controller | None = None) -> Loaded:
    env = MastEnv(SPEC, UMAZE)
    planner = Planner(StraightLines(), CONFIG, SPEC, NORMALIZER, Ruler(), options=OPTIONS, outside="ignore")
    return Loaded(
        environment=ENVIRONMENT,
        env=env,
        planner=calibrated(planner),
        fixed={64: Planner(StraightLines(), CONFIG, SPEC, NORMALIZER, options=OPTIONS, outside="ignore")},
        controller=controller or make_controller(ENVIRONMENT.controller, SPEC),
        pool=SimulatorPool(partial(MastEnv, SPEC, UMAZE), env),
    )


def load_data_only() -> Loaded:
    """Without a simulator and a calibration, with a gamma beyond the others'."""
    toy = load_toy()
    spec = replace(SPEC, name="toy-data")
    planner = Planner(
        StraightLines(), CONFIG, spec, NORMALIZER, Ruler(), options=replace(OPTIONS, gamma=2.4), outside="ignore"
    )
    environment = replace(ENVIRONMENT, spec=spec, simulator=None)
    return replace(toy, environment=environment, planner=planner, fixed={}, controller=None, pool=None)


def page_library() -> Library:
    """The toy maze, one environment without weights, and one without a simulator."""
    missing = Missing(to_plan=("vhd train planner maze2d-large",))
    return Library(
        [
            Entry(SPEC.name, Missing, load_toy),
            Entry("maze2d-large", lambda: missing, load_toy),
            Entry("toy-data", Missing, load_data_only),
        ]
    )


def toy_library(controller: Controller | None = None) -> Library:
    """The toy maze, and one environment without weights."""

    def fail() -> Loaded:
        raise AssertionError("an environment without weights must not be loaded")

    return Library(
        [
            Entry(SPEC.name, Missing, partial(load_toy, controller)),
            Entry("maze2d-large", lambda: Missing(to_plan=("vhd train planner maze2d-large",)), fail),
        ]
    )


@contextmanager
def served(library: Library) -> Iterator[str]:
    """The address of a server in a thread of this process."""
    import uvicorn

    from vhdiffuser.web.app import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(library), port=0, log_config=None, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(timeout=60)
