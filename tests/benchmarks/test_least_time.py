"""The lower bound of the steps that a ball needs."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vhdiffuser.benchmark.geodesic import Geodesic

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"
ROOM = np.array([[0.0, 4.0, -1.0, 0.0], [0.0, 4.0, 4.0, 5.0], [-1.0, 0.0, -1.0, 5.0], [4.0, 5.0, -1.0, 5.0]])
PARTITION = np.array([[1.9, 2.1, 0.0, 3.0]])


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module("least_time")


def test_fewest_steps_are_those_of_full_force_up_to_the_top_speed(script: ModuleType) -> None:
    steps = script.least_steps(np.array([0.0, 0.1, 0.3, 0.6, 10.0]), np.zeros(5), top=1.0, gain=0.1)
    # After n steps of full force the ball has moved by 0.1 (1 + ... + n); at top speed, by 1 a step.
    assert steps.tolist() == [0, 1, 2, 3, 15]
    assert script.least_steps(np.array([3.0]), np.array([1.0]), top=1.0, gain=0.1).tolist() == [3]


def test_distances_are_in_the_maximum_norm_around_walls_and_never_too_long(script: ModuleType) -> None:
    start, goal = np.array([[1.0, 1.0]]), np.array([[3.0, 2.0]])
    room = Geodesic(ROOM, spacing=0.05, clearance=0.1)
    assert script.chessboard_distance(room, start, goal)[0] == pytest.approx(2.0 - 2 * 0.05)
    divided = Geodesic(np.concatenate([ROOM, PARTITION]), spacing=0.05, clearance=0.1)
    # Up to y = 3.1 to pass the partition, between x = 1.8 and 2.2, and down again.
    around = script.chessboard_distance(divided, start, goal)[0]
    assert 3.3 <= around <= 2.1 + 0.4 + 1.1
