"""A point that moves by its action, a planner that draws straight lines, a controller that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.envs.base import PlanningEnv, VectorEnv
from vhdiffuser.envs.environment import Environment, Geometry
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Instance

SPEED = 0.1

SPEC = EnvSpec(
    name="toy",
    observation_dim=2,
    action_dim=2,
    state_dims=(0, 1),
    state_names=("x", "y"),
    goal_dims=(0, 1),
    velocity_dims=None,
    control_dt=0.1,
    epsilon=0.05,
    T_max=60,
    L_min=2,
)

WALLS = np.array([[-1.0, 0.0, -0.2, 1.2], [1.0, 2.0, -0.2, 1.2]])
"""To the left and to the right of the unit square."""


class ToyEnv(PlanningEnv):
    """p <- p + action, at most `SPEED` a step; a push can be set to come at some step."""

    def __init__(self, push_at: int = -1, stuck: bool = False) -> None:
        self.spec = SPEC
        self._push_at, self._stuck = push_at, stuck
        self._place, self._steps = np.zeros(2), 0

    def reset(self, instance: Instance) -> np.ndarray:
        self._place, self._steps = np.array(instance.start, np.float64), 0
        return self._place.astype(np.float32)

    def step(self, action: np.ndarray) -> np.ndarray:
        self._steps += 1
        if not self._stuck:
            self._place = self._place + np.clip(action, -SPEED, SPEED)
        if self._steps == self._push_at:
            self._place = self._place + np.array([0.0, 0.5])
        return self._place.astype(np.float32)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        start, goal = rng.uniform(0, 1, (2, 2)).astype(np.float32)
        return Instance(start, goal, int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        for name, point in (("start", instance.start), ("goal", instance.goal)):
            if np.shape(point) != (2,) or not (np.abs(point - 0.5) <= 0.5).all():
                raise VhdError(f"toy: {name} {np.asarray(point).tolist()} is outside the unit square.")

    def render(self, width: int = 480, height: int = 480) -> np.ndarray:
        return np.full((height, width, 3), int(255 * np.clip(self._place[0], 0, 1)), np.uint8)


ENVIRONMENT = Environment(
    SPEC,
    simulator=ToyEnv,
    geometry=Geometry(walls=WALLS),
    controller="toy",
    horizons=(6, 12, 30),
    step_budget=40,
    instances="uniform in the unit square",
)


def make_stuck_env() -> ToyEnv:
    """A simulator whose point never moves."""
    return ToyEnv(stuck=True)


def make_pushed_env() -> ToyEnv:
    """A simulator that pushes its point aside at step 4."""
    return ToyEnv(push_at=4)


class ToyVector(VectorEnv):
    """Pushed points that can be copied."""

    savable = True

    def __init__(self, slots: int) -> None:
        self.spec, self.envs = ToyEnv().spec, [make_pushed_env() for _ in range(slots)]

    def reset(self, slots, instances):
        return np.stack([self.envs[slot].reset(each) for slot, each in zip(slots, instances, strict=True)])

    def step(self, slots, actions):
        return np.stack([self.envs[slot].step(action) for slot, action in zip(slots, actions, strict=True)])

    def save(self, slot):
        return np.array([*self.envs[slot]._place, self.envs[slot]._steps])

    def load(self, slot, state):
        self.envs[slot]._place, self.envs[slot]._steps = state[:2].copy(), int(state[2])


class CopyableEnv(ToyEnv):
    """Makes such points."""

    def vector(self, slots, threads, reset=None):
        return ToyVector(slots)


class ToyController(Controller):
    """Moves to the plan's next state."""

    def act(self, observations: np.ndarray, plans: Sequence[Plan], indices: np.ndarray) -> np.ndarray:
        return (reference_states(plans, indices) - observations).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        return {"name": "toy"}


@dataclass
class ToyPlanner:
    """Straight lines of L_hat = steps at full speed + 1 states; remembers what it was asked for."""

    miss: np.ndarray = field(default_factory=lambda: np.zeros(2, np.float32))
    """Added to every goal: a planner that aims beside it."""
    noise: float = 0.0
    """Size of the seeded noise on the inner states of a plan."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    spec: EnvSpec = SPEC
    normalizer: Normalizer = field(default_factory=lambda: Normalizer(-np.ones(2, np.float32), np.ones(2, np.float32)))

    def predict_lengths(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        steps = np.ceil(np.abs(goals - starts).max(axis=1) / SPEED - 1e-4)
        return np.clip(steps + 1, SPEC.L_min, SPEC.T_max).astype(np.int64)

    def plan_batch(
        self, starts: np.ndarray, goals: np.ndarray, lengths: np.ndarray | None = None, *, seeds: np.ndarray
    ) -> list[Plan]:
        lengths = self.predict_lengths(starts, goals) if lengths is None else lengths
        self.calls.append({"lengths": list(lengths), "seeds": list(seeds)})
        plans = []
        for start, goal, length, seed in zip(starts, goals, lengths, seeds, strict=True):
            states = np.linspace(start, goal + self.miss, int(length)).astype(np.float32)
            states[1:-1] += self.noise * np.random.default_rng(int(seed)).standard_normal((int(length) - 2, 2))
            plans.append(Plan(states, goal))
        return plans


def instance(start: tuple[float, float], goal: tuple[float, float]) -> Instance:
    """An instance from plain numbers."""
    return Instance(np.array(start, np.float32), np.array(goal, np.float32), 0)
