from __future__ import annotations

import numpy as np
import pytest
from toy_point import SPEC, ToyController, ToyEnv, make_stuck_env

from vhdiffuser.errors import DataError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.execution.tracking import evaluate_tracking
from vhdiffuser.types import Episodes


def walks() -> Episodes:
    line = np.linspace(0, 2, 41, dtype=np.float32)  # 0.05 a step
    states = np.stack([line, 0 * line], axis=1)
    return Episodes.from_parts([(states, np.diff(states, axis=0))] * 3)


def report(make_env):
    return evaluate_tracking(
        ToyController(), Simulators(make_env, 4), SPEC, np.ones(2), walks(), np.random.default_rng(0), 10, 20, 5
    )


def test_a_perfect_follower_has_no_error() -> None:
    result = report(ToyEnv)
    assert result.mean_error < 1e-5
    assert result.reached == result.reached_later == 1.0


def test_one_that_never_moves_is_as_far_off_as_the_path_is_long() -> None:
    result = report(make_stuck_env)
    assert result.final_error == pytest.approx(20 * 0.05, abs=1e-5)
    assert result.mean_error == pytest.approx(0.05 * 10.5, abs=1e-5)
    assert result.reached_later == 0.0


def test_too_long_paths_are_refused() -> None:
    with pytest.raises(DataError, match="longest has 41"):
        evaluate_tracking(
            ToyController(), Simulators(ToyEnv, 1), SPEC, np.ones(2), walks(), np.random.default_rng(0), 1, 50
        )
