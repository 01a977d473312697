"""The weights that ship do what they are for, on a few fixed instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from vhdiffuser import load_planner
from vhdiffuser.control.base import make_controller
from vhdiffuser.envs.protocols import replan_on_deviation, single_shot
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Instance
from vhdiffuser.weights.places import shipped_environments, shipped_path


@dataclass(frozen=True)
class Expected:
    """What healthy weights make of the first `n` instances; new weights need new figures."""

    n: int
    single_shot: int
    """Goals reached by one plan each, at least."""
    replanned: int
    """Goals reached with replanning, at least."""
    length: float
    """Mean L_hat, to within 1 %."""
    steps: float
    """Mean executed steps with replanning, to within `steps_off`."""
    steps_off: float
    """Other processors round otherwise; an ant, which walks on contacts, is then soon elsewhere."""
    roughness: float
    """Mean roughness of the plans' knots, to within 10 %: other noise changes it by half of that."""


EXPECTED = {
    "maze2d-umaze": Expected(20, 19, 20, 89.5, 83.8, 0.03, 0.402),
    "maze2d-medium": Expected(20, 19, 20, 200.7, 193.9, 0.04, 0.555),
    "maze2d-large": Expected(20, 19, 20, 209.8, 197.5, 0.04, 0.481),
    "antmaze-medium": Expected(8, 6, 7, 263.5, 173.4, 0.3, 0.528),
    "cube": Expected(8, 7, 8, 26.4, 25.0, 0.04, 0.594),
    "pointmaze-giant-navigate": Expected(8, 8, 8, 395.8, 390.1, 0.06, 0.448),
    "pointmaze-giant-stitch": Expected(8, 8, 8, 400.8, 395.6, 0.06, 0.425),
    "pointmaze-medium-navigate": Expected(8, 8, 8, 138.4, 131.5, 0.06, 0.487),
    "pointmaze-large-navigate": Expected(8, 8, 8, 170.9, 164.2, 0.06, 0.547),
    "pointmaze-medium-stitch": Expected(8, 8, 8, 137.8, 131.6, 0.06, 0.513),
    "pointmaze-large-stitch": Expected(8, 8, 8, 174.0, 166.9, 0.06, 0.559),
    "antmaze-medium-navigate": Expected(8, 4, 7, 147.4, 138.8, 0.4, 0.525),
    "antmaze-large-stitch": Expected(8, 5, 7, 181.4, 158.6, 0.4, 0.555),
    "antmaze-medium-stitch": Expected(8, 2, 7, 146.9, 141.8, 0.4, 0.458),
    "antmaze-medium-explore": Expected(8, 6, 7, 174.6, 141.0, 0.4, 0.496),
    "antmaze-large-explore": Expected(8, 6, 7, 196.4, 147.8, 0.4, 0.641),
    "antmaze-giant-navigate": Expected(8, 4, 6, 435.2, 434.0, 0.3, 0.453),
    "antmaze-giant-stitch": Expected(8, 6, 7, 445.1, 393.9, 0.3, 0.467),
    "antmaze-large-navigate": Expected(8, 6, 7, 176.6, 151.8, 0.4, 0.573),
}


def roughness(spec: EnvSpec, plan: Plan) -> float:
    """How much the network's knots turn: the sum of their second differences over the length of the way."""
    assert plan.denoising is not None
    moves = np.diff(spec.goal_of(plan.denoising[-1].astype(np.float64)), axis=0)
    return float(np.linalg.norm(np.diff(moves, axis=0), axis=1).sum() / np.linalg.norm(moves, axis=1).sum())


def test_what_ships_is_known_and_tested() -> None:
    assert set(shipped_environments()) == set(EXPECTED) <= set(environments())


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(name, marks=() if name == "maze2d-umaze" else pytest.mark.slow)
        if name.startswith("maze2d")
        else pytest.param(name, marks=(pytest.mark.slow, pytest.mark.ogbench))
        for name in EXPECTED
    ],
)
def test_shipped_weights_reach_their_goals(environment: str) -> None:
    planner, expected = load_planner(environment, outside="ignore"), EXPECTED[environment]
    planner = planner.with_options(gamma=planner.saved_options.gamma)  # not the calibration's: it may be made again
    known, spec = get_environment(environment), planner.spec
    env = known.make()
    instances: list[Instance] = [
        env.sample_instance(np.random.default_rng([2024, number])) for number in range(expected.n)
    ]
    starts, goals = (np.stack([getattr(item, name) for item in instances]) for name in ("start", "goal"))
    assert planner.predict_lengths(starts, goals).mean() == pytest.approx(expected.length, rel=0.01)
    plans = planner.plan_batch(starts, goals, keep_denoising=True)
    assert np.mean([roughness(spec, plan) for plan in plans]) == pytest.approx(expected.roughness, rel=0.1)

    controller = make_controller(known.controller, spec, shipped_path(environment, "dynamics"))
    slots = 2 if environment == "cube" else expected.n  # an arm takes longer to make than to move
    with Simulators(known.simulator, slots) as simulators:
        once, replanned = (
            list(Executor(planner, controller, simulators, rule, seed=77).run(instances))
            for rule in (single_shot(), replan_on_deviation(known.step_budget))
        )
    missed = [
        [(item.number, item.final_distance) for item in part if not item.rollout.success] for part in (once, replanned)
    ]
    assert expected.n - len(missed[0]) >= expected.single_shot, missed
    assert expected.n - len(missed[1]) >= expected.replanned, missed
    steps = np.mean([item.rollout.steps for item in replanned])
    assert steps == pytest.approx(expected.steps, rel=expected.steps_off)
