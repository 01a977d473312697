"""How fast data moves, and that a planner's file keeps it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from toy_point import SPEC

from vhdiffuser.data.motion import FastestMotion, fastest_motion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.errors import DataError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import Episodes


def test_the_fastest_motion_is_read_from_the_data_and_over_no_end() -> None:
    rest, moving = np.zeros((11, 2)), np.stack([0.2 * np.arange(12), np.zeros(12)], axis=1)
    states = np.concatenate([rest[:-1], moving])
    jump = np.concatenate([[[50.0, 50.0]], np.full((30, 2), 50.0)])
    episodes = Episodes.from_parts([(s, np.zeros((len(s) - 1, 2))) for s in (states, jump)])
    found = fastest_motion(episodes, SPEC)
    assert found.speed == pytest.approx(0.2)
    assert found.acceleration == pytest.approx(0.02), "from rest to 0.2 a step in 10 steps"
    still = Episodes.from_parts([(np.zeros((40, 2)), np.zeros((39, 2)))])
    assert fastest_motion(still, SPEC).acceleration == np.inf


@pytest.mark.parametrize("motion", [FastestMotion(0.2, 0.02), FastestMotion(0.2, np.inf)])
def test_a_header_gives_it_back(motion: FastestMotion) -> None:
    assert FastestMotion.from_notes(json.loads(json.dumps(motion.to_notes(), allow_nan=False))) == motion
    assert FastestMotion.from_notes({"minutes": 1.0}) is None


def planner_notes(states: np.ndarray) -> dict[str, object]:
    episodes = Episodes.from_parts([(states, np.zeros((len(states) - 1, 2)))])
    config = PlannerConfig(dim=8, stride=1, horizon=4)
    return PlannerTask(episodes, SPEC, config, Normalizer.fit(episodes.observations), "toy").header().notes


def test_a_planner_s_header_says_how_fast_its_data_was() -> None:
    moving = np.stack([0.2 * np.arange(40), np.zeros(40)], axis=1)
    assert planner_notes(moving) == {"fastest_speed": pytest.approx(0.2), "fastest_acceleration": None}
    assert planner_notes(moving[:8]) == {}, "too short to tell, but not too short to train on"
    with pytest.raises(DataError, match="speed cannot be measured"):
        fastest_motion(Episodes.from_parts([(moving[:8], np.zeros((7, 2)))]), SPEC)
