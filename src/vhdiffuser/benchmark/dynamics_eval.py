"""Evaluation of an inverse dynamics model: action errors on held-out data, and tracking of held-out paths.

Paths are windows of episodes unseen in training. The simulator is set to the recorded state, and the recorded future is
the plan: unchanged (`exact`), shifted sideways by some epsilons (`beside`), or read a few steps ahead (`behind`), as
for a robot that drifts or lags. Situations that never occur in the benchmark are excluded: a fallen ant, a gripper
holding the cube.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from vhdiffuser.control.dynamics_task import action_error, held_out_actions
from vhdiffuser.control.inverse_dynamics import InverseDynamicsController
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.recorded import RecordedStart, recorded_windows
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.execution.tracking import follow
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Episodes, FloatArray, Instance
from vhdiffuser.weights.format import load_model
from vhdiffuser.weights.places import Source, find_model


@dataclass(frozen=True)
class Condition:
    """Initial offset between plan and robot."""

    name: str
    """Name, as printed."""
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
    """Name of the condition."""
    paths: int
    """Number of windows followed."""
    mean_distance: float
    """Mean Euclidean distance between robot and plan, over all steps and windows."""
    p95_distance: float
    """95th percentile of that distance."""
    mean_final_distance: float
    """Mean distance at the last index."""
    within_epsilon: float
    """Fraction of windows within epsilon of the plan's end at the last index."""
    reached: float
    """Fraction of windows that come within epsilon of the plan's end at any index."""
    falls: float
    """Fraction of windows in which the robot has fallen at the end."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)


def action_errors(
    controller: InverseDynamicsController, episodes: Episodes, rng: np.random.Generator, samples: int = 4096
) -> dict[str, Any]:
    """MAE, RMS error and R^2 on held-out actions, overall and per dimension."""
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
    return recorded_windows(environment, episodes.split(controller.config.held_out)[1], rng, n, length)


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

    `simulators` must start at recorded observations, as `RecordedStart` does; `on_done` is called with the number of
    runs done.
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


def evaluate_dynamics(
    environment: Environment,
    source: Source = "auto",
    *,
    n: int = 200,
    steps: int | None = None,
    samples: int = 4096,
    seed: int = 0,
    workers: int = 1,
    on_done: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Evaluate an environment's inverse dynamics model; returns a JSON-serialisable dict.

    Tracking (`tracking`, `steps`) is left out if the simulator cannot be set to a recorded state. `held_out_data` says
    whether the model was trained on the current dataset, so that held-out episodes were unseen. `on_done` is called
    with the number of windows tracked and the total.
    """
    spec = environment.spec
    if not environment.learns_control:
        raise VhdError(f"{spec.name}: its controller is '{environment.controller}', which is not trained.")
    path = find_model(spec.name, "dynamics", source)
    by_path = environment.controller == "path_following"
    controller, header = InverseDynamicsController.load(path, by_path=by_path), load_model(path, "dynamics")[1]
    dataset = load_dataset(spec.name)
    answer: dict[str, Any] = {
        "environment": spec.name,
        "model": str(path),
        "updates": header.updates,
        "held_out_data": dataset.fingerprint() == header.data_fingerprint,
        "actions": action_errors(controller, dataset.episodes, np.random.default_rng(seed), samples),
    }
    if environment.simulator is None or environment.restore is None:
        return answer
    steps = environment.window_steps if steps is None else steps
    recorded, total = partial(RecordedStart, environment), n * len(CONDITIONS)
    with Simulators(recorded, min(environment.simulators, n), workers, recorded()) as simulators:
        tracked = evaluate_tracking(
            controller,
            environment,
            simulators,
            dataset.episodes,
            np.random.default_rng(seed),
            n,
            steps,
            on_done=lambda done: None if on_done is None else on_done(done, total),
        )
    return {**answer, "steps": steps, "tracking": [condition.to_json() for condition in tracked]}
