"""Evaluation of an inverse dynamics model: action errors on held-out data, and tracking of held-out paths.

Paths are windows of episodes that training never saw. The simulator is set to the recorded state, and the
recorded future is the plan: unchanged (`exact`), shifted sideways by some epsilons (`beside`), or read from some
steps further on (`behind`), as for a robot that drifts or lags. Situations that never occur in the benchmark are
left out: an ant that has fallen, a gripper that holds the cube.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vhdiffuser.control.dynamics_task import action_error, held_out_actions
from vhdiffuser.control.inverse_dynamics import InverseDynamicsController
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.execution.tracking import follow
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Episodes, FloatArray, ImageArray, Instance


@dataclass(frozen=True)
class Condition:
    """Initial offset between plan and robot."""

    name: str
    """As printed."""
    beside: float = 0.0
    """Epsilons (infinity norm, normalised) by which the plan is shifted, in a random direction."""
    behind: int = 0
    """Control steps by which the robot lags."""


CONDITIONS = (
    Condition("exact"),
    Condition("beside 1 eps", beside=1.0),
    Condition("beside 2 eps", beside=2.0),
    Condition("behind 5", behind=5),
    Condition("behind 10", behind=10),
)


@dataclass(frozen=True)
class TrackedCondition:
    """Tracking of all windows under one condition. Distances are in the environment's units."""

    condition: str
    """Its name."""
    paths: int
    """Windows followed."""
    mean_distance: float
    """Mean straight-line distance between robot and plan, over all steps and windows."""
    p95_distance: float
    """Its 95th percentile."""
    mean_final_distance: float
    """Mean distance at the last index."""
    within_epsilon: float
    """Share of windows within epsilon of the plan's end at the last index."""
    reached: float
    """Share of windows that come within epsilon of the plan's end at any index."""
    falls: float
    """Share of windows in which the robot has fallen at the end."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)


def action_errors(
    controller: InverseDynamicsController, episodes: Episodes, rng: np.random.Generator, samples: int = 4096
) -> dict[str, Any]:
    """MAE, RMS error and R^2 on held-out actions: over all dimensions, and for each."""
    predicted, actual = held_out_actions(controller, episodes, rng, samples)
    dims = [action_error(predicted[:, dim], actual[:, dim]) for dim in range(actual.shape[1])]
    return {"samples": len(actual), **action_error(predicted, actual), "dimensions": dims}


def held_out_windows(
    controller: InverseDynamicsController,
    environment: Environment,
    episodes: Episodes,
    rng: np.random.Generator,
    n: int,
    length: int,
) -> FloatArray:
    """(n, length, o) observations: random windows of held-out episodes without a fall or a grasp."""
    if n < 1 or length < 2:
        raise VhdError(f"needs at least 1 window of at least 2 states, got {n} of {length}.")
    _, held = episodes.split(controller.config.held_out)
    last = np.repeat(held.ends - 1, np.diff(held.ends, prepend=0))
    first = np.arange(len(last))
    # Falls and grasps before each row: a window without one has the same count at both ends.
    before = np.concatenate([[0], np.cumsum(environment.is_hindered(held.observations))])
    end = np.minimum(first + length, len(last))
    usable = np.flatnonzero((first + length - 1 <= last) & (before[end] == before[first]))
    if len(usable) == 0:
        raise DataError(
            f"{controller.spec.name}: no held-out episode has {length} consecutive states without fall or grasp; the "
            f"longest has {int(np.diff(held.ends, prepend=0).max())} states. Ask for fewer steps, or get more data."
        )
    begins = rng.choice(usable, size=n, replace=len(usable) < n)
    return held.observations[begins[:, None] + np.arange(length)]


def shifts(spec: EnvSpec, scale: FloatArray, rng: np.random.Generator, n: int) -> FloatArray:
    """(n, d) shifts of the goal dimensions in random directions, one epsilon long (infinity norm, normalised)."""
    direction = rng.standard_normal((n, spec.goal_dim))
    direction *= spec.epsilon / np.abs(direction).max(axis=1, keepdims=True)
    moves = np.zeros((n, spec.state_dim))
    moves[:, list(spec.goal_dims)] = direction * scale[list(spec.goal_dims)]
    return moves


def evaluate_tracking(
    controller: InverseDynamicsController,
    environment: Environment,
    simulators: Simulators,
    episodes: Episodes,
    rng: np.random.Generator,
    n: int = 200,
    steps: int = 100,
    conditions: tuple[Condition, ...] = CONDITIONS,
    on_done: Callable[[int], None] | None = None,
) -> list[TrackedCondition]:
    """Follow the same n held-out windows of `steps` steps under each condition.

    `simulators` must start at recorded observations, as `RecordedStart` does; `on_done` receives the number of
    runs done so far.
    """
    spec = controller.spec
    scale = controller.normalizer.select(spec.state_dims).scale  # (d,)
    latest = max(condition.behind for condition in conditions)
    windows = held_out_windows(controller, environment, episodes, rng, n, steps + 1 + latest)
    states, moves = spec.planning_state(windows), shifts(spec, scale, rng, n)  # (n, T, d), (n, d)
    results = []
    for order, condition in enumerate(conditions):
        planned = states[:, condition.behind : condition.behind + steps + 1] + condition.beside * moves[:, None]
        plans = [Plan(own.astype(np.float32), spec.goal_of(own[-1]).astype(np.float32)) for own in planned]
        instances = [Instance(window[0], plan.goal, 0) for window, plan in zip(windows, plans, strict=True)]

        def tell(done: int, before: int = order * n) -> None:
            if on_done is not None:
                on_done(before + done)

        tracked = follow(controller, simulators, spec, scale, instances, plans, tell)
        results.append(
            TrackedCondition(
                condition=condition.name,
                paths=n,
                mean_distance=float(tracked.distance.mean()),
                p95_distance=float(np.quantile(tracked.distance, 0.95)),
                mean_final_distance=float(tracked.distance[-1].mean()),
                within_epsilon=float((tracked.to_end[-1] <= spec.epsilon).mean()),
                reached=float((tracked.to_end <= spec.epsilon).any(axis=0).mean()),
                falls=float(environment.has_fallen(tracked.last).mean()),
            )
        )
    return results


class RecordedStart(PlanningEnv):
    """An environment that starts at a recorded observation: an instance's `start` is one, (o,)."""

    def __init__(self, environment: Environment) -> None:
        if environment.restore is None:
            raise VhdError(f"{environment.name}: its simulator cannot be set to a recorded observation (`restore`).")
        self.env, self.spec, self._restore = environment.make(), environment.spec, environment.restore

    def reset(self, instance: Instance) -> FloatArray:
        """Set the simulator to the recorded observation."""
        return self._restore(self.env, instance.start, instance.goal)

    def step(self, action: FloatArray) -> FloatArray:
        """The environment's own."""
        return self.env.step(action)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Not available: starts come from data."""
        raise VhdError("recorded starts come from data and are not drawn.")

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` unless the start is a full observation."""
        if np.shape(instance.start) != (self.spec.observation_dim,):
            raise VhdError(
                f"{self.spec.name}: a recorded start has {self.spec.observation_dim} numbers, "
                f"got shape {np.shape(instance.start)}."
            )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The environment's own."""
        return self.env.render(width, height)
