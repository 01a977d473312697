from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from toy_point import SPEC, ToyEnv, instance

from vhdiffuser.errors import VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.types import Instance

CASES = [instance((0.1 * number, 0.0), (1.0, 1.0)) for number in range(5)]


class FailingEnv(ToyEnv):
    """A simulator that breaks in its second step, or takes its process with it."""

    def __init__(self, kill: bool) -> None:
        super().__init__()
        self._kill = kill

    def step(self, action: np.ndarray) -> np.ndarray:
        observation = super().step(action)
        if self._steps == 2:
            if self._kill:
                os._exit(1)
            raise RuntimeError("the arm fell off")
        return observation


def test_observations_come_back_in_the_callers_order() -> None:
    actions = np.array([[0.01 * row, 0.0] for row in range(5)], np.float32)
    order = [3, 0, 4, 1, 2]
    answers = []
    for workers in (1, 2):
        with Simulators(ToyEnv, slots=5, workers=workers) as simulators:
            first = simulators.reset(order, [CASES[slot] for slot in order])
            np.testing.assert_array_equal(first[:, 0], np.array([0.1 * slot for slot in order], np.float32))
            answers.append(simulators.step(order[:3], actions[:3]))
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_allclose(answers[0][:, 0], [0.3, 0.01, 0.42], atol=1e-6)


@pytest.mark.parametrize(("kill", "message"), [(False, "arm fell off"), (True, "ended unexpectedly")])
def test_a_broken_simulator_is_reported(kill: bool, message: str) -> None:
    with Simulators(partial(FailingEnv, kill), slots=2, workers=2) as simulators:
        simulators.reset([0, 1], CASES[:2])
        simulators.step([0, 1], np.zeros((2, 2)))
        with pytest.raises(VhdError, match=message):
            simulators.step([0, 1], np.zeros((2, 2)))


class ThreadsEnv(ToyEnv):
    """Observes how many threads numpy's and torch's libraries may use in its process."""

    def __init__(self) -> None:
        super().__init__()
        self.spec = replace(SPEC, observation_dim=5)

    def reset(self, case: Instance) -> np.ndarray:
        import torch

        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        return np.array([torch.get_num_threads(), *(os.environ.get(name, -1) for name in names), os.getpid()], float)


@pytest.mark.slow
def test_workers_start_with_one_thread_each_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with Simulators(ThreadsEnv, slots=2, workers=2) as simulators:
        *threads, processes = simulators.reset([0, 1], CASES[:2]).T
    np.testing.assert_array_equal(threads, 1)
    assert len({os.getpid(), *processes}) == 3, "each slot in a process of its own"
    assert dict(os.environ) == before


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(VhdError, match="at least one"):
        Simulators(ToyEnv, slots=0)
