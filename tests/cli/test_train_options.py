"""What `vhd train planner` makes of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vhdiffuser.cli import run
from vhdiffuser.cli.train import PAPER_LOOP, PLANNER_LOOP, TrainPlanner


def test_the_paper_recipe_trains_as_diffuser_does() -> None:
    loop = TrainPlanner("maze2d-umaze", recipe="paper")._loop()
    assert loop == replace(PLANNER_LOOP, **PAPER_LOOP)
    assert TrainPlanner("maze2d-umaze")._loop() == PLANNER_LOOP


def test_what_the_user_gives_is_kept() -> None:
    given = replace(PLANNER_LOOP, learning_rate=5e-4, updates=7)
    loop = TrainPlanner("maze2d-umaze", recipe="paper", loop=given)._loop()
    assert (loop.learning_rate, loop.updates, loop.optimizer) == (5e-4, 7, "adamw")


def test_choosing_crops_needs_a_trained_length_predictor(vhd_home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    assert run(["train", "planner", "maze2d-umaze", "--directness", "2", "--updates", "1"]) == 1
    assert "vhd train length maze2d-umaze" in capsys.readouterr().err
