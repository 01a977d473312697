"""What `vhd train planner` makes of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vhdiffuser.cli import run
from vhdiffuser.cli.train import PLANNER_LOOP, TrainPlanner
from vhdiffuser.training.loop import learning_rate


def test_the_paper_recipe_trains_as_diffuser_does() -> None:
    """Adam at a constant 2e-4, an average with decay 0.995."""
    loop = TrainPlanner("maze2d-umaze", recipe="paper")._loop()
    assert (loop.optimizer, loop.weight_decay, loop.ema, loop.updates) == ("adamw", 0.0, 0.995, 8000)
    rates = {learning_rate(loop, update, update / loop.updates) for update in (0, 1, 50, 4000, 8000)}
    assert rates == {2e-4}


def test_the_default_recipe_trains_with_muon_at_a_rate_that_rises_and_decays() -> None:
    loop = TrainPlanner("maze2d-umaze")._loop()
    assert (loop.optimizer, loop.weight_decay, loop.ema, loop.updates) == ("muon", 1e-4, 0.999, 8000)
    rates = [learning_rate(loop, update, update / loop.updates) for update in (0, 199, 4000, 8000)]
    assert rates == pytest.approx([1e-3 / 200, 1e-3, 1e-3 * (0.05 + 0.95 / 2), 0.05e-3], rel=2e-3)


def test_what_the_user_gives_is_kept() -> None:
    given = replace(PLANNER_LOOP, learning_rate=5e-4, updates=7)
    loop = TrainPlanner("maze2d-umaze", recipe="paper", loop=given)._loop()
    assert (loop.learning_rate, loop.updates, loop.optimizer) == (5e-4, 7, "adamw")


def test_choosing_crops_needs_a_trained_length_predictor(vhd_home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet"]) == 0
    assert run(["train", "planner", "maze2d-umaze", "--directness", "2", "--updates", "1"]) == 1
    assert "vhd train length maze2d-umaze" in capsys.readouterr().err
