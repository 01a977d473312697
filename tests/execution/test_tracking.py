from __future__ import annotations

import numpy as np
import pytest
from toy_point import SPEC, ToyController, ToyEnv, make_stuck_env

from vhdiffuser.errors import VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.execution.tracking import follow
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Instance

LINE = np.stack([0.05 * np.arange(21), np.zeros(21)], axis=1).astype(np.float32)  # 0.05 a step
SCALE = np.array([2.0, 1.0])


def track(make_env, shift: float = 0.0, count: int = 5, slots: int = 2):
    plans = [Plan(LINE + np.float32([0.0, shift]), LINE[-1] + np.float32([0.0, shift]))] * count
    return follow(
        ToyController(), Simulators(make_env, slots), SPEC, SCALE, [Instance(LINE[0], LINE[-1], 0)] * count, plans
    )


def test_a_perfect_follower_has_no_error() -> None:
    result = track(ToyEnv)
    assert result.distance.shape == result.error.shape == (20, 5)
    assert result.distance.max() < 1e-5
    np.testing.assert_allclose(result.last, np.broadcast_to(LINE[-1], (5, 2)), atol=1e-5)


def test_one_that_never_moves_is_as_far_off_as_the_path_is_long() -> None:
    result = track(make_stuck_env)
    np.testing.assert_allclose(result.distance[:, 0], 0.05 * np.arange(1, 21), atol=1e-6)
    np.testing.assert_allclose(result.error, result.distance / 2, atol=1e-6)
    np.testing.assert_allclose(result.to_end, 0.5, atol=1e-6)


def test_one_that_starts_beside_its_plan_comes_back_to_it() -> None:
    result = track(ToyEnv, shift=0.25)
    assert result.distance[0, 0] == pytest.approx(0.15)  # it makes 0.1 a step
    assert result.distance[3:].max() < 1e-5


def test_how_many_simulators_there_are_changes_nothing_and_is_told() -> None:
    done: list[int] = []
    plans, instances = [Plan(LINE, LINE[-1])] * 5, [Instance(LINE[0], LINE[-1], 0)] * 5
    follow(ToyController(), Simulators(ToyEnv, 2), SPEC, SCALE, instances, plans, done.append)
    assert done == [2, 4, 5]
    np.testing.assert_array_equal(track(ToyEnv, 0.1, slots=1).distance, track(ToyEnv, 0.1, slots=5).distance)


def test_plans_of_several_lengths_are_refused() -> None:
    plans, instances = [Plan(LINE, LINE[-1]), Plan(LINE[:9], LINE[8])], [Instance(LINE[0], LINE[-1], 0)] * 2
    with pytest.raises(VhdError, match="equal length"):
        follow(ToyController(), Simulators(ToyEnv, 1), SPEC, SCALE, instances, plans)
