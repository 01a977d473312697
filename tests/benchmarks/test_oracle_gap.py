"""The oracle gap: the best safe length of each pair by hand, what is executed, and the script on a few pairs."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield importlib.import_module("oracle_gap")


def test_the_oracle_takes_the_fewest_steps_per_arrival_among_safe_lengths(script):
    """Pair 0 needs length 90, pair 1 any, pair 2 has no safe length; failed executions are negative."""
    outcomes = script.Outcomes({
        (0, 80): [75, -80], (0, 90): [85, 85], (0, 100): [88, 88],
        (1, 80): [50, 50], (1, 90): [60, 60],
        (2, 80): [-80, -80], (2, 90): [70, -90],
    })  # fmt: skip
    grid = [[80, 90, 100], [80, 90], [80, 90]]
    assert [outcomes.oracle(pair, lengths, 0.01, 2) for pair, lengths in enumerate(grid)] == [90, 80, None]
    assert outcomes.oracle(0, grid[0], 0.5, 2) == 90, "80 takes 155 steps for one arrival"
    found = script.gap(outcomes, grid, [80, 90, 90], 0.01, 2)
    assert (found["pairs"], found["without_oracle"]) == (3, 1)
    assert found["oracle_steps_per_arrival"] == pytest.approx((85 + 50) / 2)
    assert found["own_steps_per_arrival"] == pytest.approx((75 + 80 + 60 + 60) / 3)
    assert found["gap"] == pytest.approx((275 / 3) / (270 / 4) - 1)
    assert found["own_success_rate"] == pytest.approx(4 / 6), "of all pairs"


def test_only_lengths_that_may_be_the_oracles_are_executed_in_full(script, monkeypatch):
    """Length L arrives after 0.9 L steps from 85 on: that is the oracle, and 80 and 100 are soon given up."""
    outcomes, grid, plans = script.Outcomes({}), [[70, 80, 85, 86, 90, 100, 110, 120]], 32
    while jobs := script.due(outcomes, grid, [{100}], plans):
        for pair, length, plan in jobs:
            taken = outcomes.steps.setdefault((pair, length), [])
            assert len(taken) == plan, "in the order of their plans"
            taken.append(int(0.9 * length) if length >= 85 else -length)
    counts = {length: outcomes.count(0, length) for length in grid[0]}
    assert outcomes.oracle(0, grid[0], 0.01, plans) == 85
    assert counts[85] == counts[86] == plans, "86 costs hardly more"
    assert counts[100] == plans, "the planner's own"
    assert counts[70] == counts[80] == counts[90] == script.FIRST
    assert counts[110] == counts[120] == 0


def test_outcomes_survive_a_file_and_others_are_refused(script, tmp_path):
    outcomes = script.Outcomes({(0, 80): [75, -80], (3, 640): [600]})
    outcomes.save(tmp_path / "a.npz", {"seed": 1})
    assert script.Outcomes.load(tmp_path / "a.npz", {"seed": 1}) == outcomes
    assert script.Outcomes.load(tmp_path / "a.npz", {"seed": 1, "options": {"wait": 0}}) == outcomes, "the default"
    for other in ({"seed": 2}, {"seed": 1, "options": {"wait": 40}}):
        with pytest.raises(SystemExit, match="other weights"):
            script.Outcomes.load(tmp_path / "a.npz", other)


@pytest.mark.slow
def test_more_plans_add_to_fewer_and_table_and_picture_are_written(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "MULTIPLES", [0.8, 1.2])

    def answer(plans: int) -> dict:
        arguments = ["oracle_gap.py", "maze2d-umaze", "--pairs", "2", "--plans", str(plans), "--out", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", [*arguments, "--seed", "94"])
        script.main()
        return json.loads(capsys.readouterr().out)

    def kept() -> np.ndarray:
        with np.load(tmp_path / "maze2d-umaze.npz") as file:
            return file["taken"]

    first, before = answer(2), kept()
    assert first["gamma 1.25"]["pairs"] == 2
    assert first["risk 0.05"]["oracle_steps_per_arrival"] <= first["gamma 1.25"]["own_steps_per_arrival"]
    assert answer(2) == first
    np.testing.assert_array_equal(kept(), before)
    assert answer(3)["executions"] > first["executions"]
    assert (tmp_path / "maze2d-umaze.png").is_file()
