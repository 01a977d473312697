"""OGBench's antmaze-medium as an environment."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from vhdiffuser.data.build import Builder, ChunkMaker
from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import OGBENCH_HOSTS, read_ogbench, read_ogbench_file
from vhdiffuser.envs.antmaze.maze import CLEARANCE, MEDIUM, TORSO_RADIUS, free_centre, map_of, wall_boxes
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment, Geometry
from vhdiffuser.envs.protocols import Protocol, euclidean_hit, replan_on_deviation
from vhdiffuser.streams import stream
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, Instance

OGBENCH_TOLERANCE = 0.5
"""OGBench calls a goal reached at this Euclidean distance in metres."""
OGBENCH_TASKS = 5
OGBENCH_STEPS = 1000


def fallen(observations: FloatArray) -> BoolArray:
    """(..., o) -> (...,) whether the torso's own up points down. Nothing ends its episode then, and it stays there.

    Observations 3 to 6 are the torso's unit quaternion (w, x, y, z), of which the up axis has the
    height 1 - 2 (x^2 + y^2).
    """
    return 1 - 2 * np.square(observations[..., 4:6]).sum(axis=-1) < 0


def ogbench_instances(env: Any, n: int, seed: int) -> list[Instance]:
    """OGBench's tasks 1 to 5 in turn, each time with fresh noise."""
    streams = (stream("ogbench tasks", seed, number) for number in range(-(-n // OGBENCH_TASKS)))
    rounds = [env.ogbench_tasks(np.random.default_rng(each)) for each in streams]
    return [instance for tasks_once in rounds for instance in tasks_once][:n]


def _simulator(spec: EnvSpec) -> PlanningEnv:
    from vhdiffuser.envs.antmaze.simulator import AntMazeEnv

    return AntMazeEnv(spec)


def _chunk_maker() -> ChunkMaker:
    from vhdiffuser.envs.antmaze.building import build_chunk

    return build_chunk


def _restore(env: Any, observation: FloatArray, goal: FloatArray) -> FloatArray:
    """The observation is all there is to know of the ant. A recorded path may end beside a wall: none is refused."""
    env.physics.restore(observation)
    return env.physics.observation().astype(np.float32)


_SPEC = EnvSpec(
    name="antmaze-medium",
    observation_dim=29,
    action_dim=8,
    state_dims=(0, 1),
    state_names=("x", "y"),
    goal_dims=(0, 1),
    velocity_dims=None,
    control_dt=0.1,
    epsilon=0.05,
    T_max=640,
    L_min=16,
)

ENVIRONMENTS = (
    Environment(
        spec=_SPEC,
        simulator=partial(_simulator, _SPEC),
        geometry=Geometry(
            walls=wall_boxes(map_of(MEDIUM)), radius=TORSO_RADIUS, clearance=CLEARANCE, cell=free_centre, unit="m"
        ),
        horizons=(256, 384, 512),
        step_budget=2000,
        instances="the ant reset in a random free cell +- 1, goal in a random free cell +- 1 (OGBench's noise)",
        protocols={
            # Executed with replan-on-deviation, since OGBench leaves control to the method.
            "ogbench": Protocol(
                instances=ogbench_instances,
                rule=partial(replan_on_deviation, OGBENCH_STEPS),
                hit=euclidean_hit(_SPEC, OGBENCH_TOLERANCE),
                tasks=OGBENCH_TASKS,
            )
        },
        official=OfficialFiles(
            ("antmaze-medium-navigate-v0.npz", "antmaze-medium-navigate-v0-val.npz"), OGBENCH_HOSTS, read_ogbench
        ),
        builder=Builder(_chunk_maker, chunk=10_000, transitions=1_000_000),
        reader=read_ogbench_file,
        fallen=fallen,
        restore=_restore,
        simulators=128,
        recipes={
            # The ant's data circles about, and an ant on its way is often held up at corners: its planner learns
            # from direct crops, and its plans leave it time. It knows one gait, covers 0.15 m a step when it walks
            # straight (upper quartile of the data over 24 steps) and cannot walk as slowly as a plan with a margin
            # asks, so its controller follows the path at its own pace.
            "default": {
                "planner": {"directness": 2.2},
                "planner_loop": {"updates": 17_000},
                "planning": {"smoothing": 4.0, "stretch": 1.5, "gamma": 2.4},
                "dynamics": {"pace": 0.15},
            }
        },
        goal_radius=OGBENCH_TOLERANCE,
        episode_steps=OGBENCH_STEPS,
        extra="ogbench",
        extra_module="ogbench",
    ),
)
"""Table I of the paper, and what it leaves open."""
