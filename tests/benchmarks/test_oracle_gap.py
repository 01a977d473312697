"""The oracle gap: the best safe length of each pair by hand, and the script from end to end on a few pairs."""

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


def test_the_oracle_takes_the_fewest_steps_among_safe_lengths(script):
    steps = np.array([[70.0, 80.0, 90.0], [50.0, 60.0, 70.0], [10.0, 20.0, 30.0]])
    arrived = np.array([[False, True, True], [True, True, True], [False, False, False]])
    found = script.gap(steps, arrived, np.array([88.0, 55.0, 30.0]), np.array([1.0, 1.0, 0.0]))
    assert found["oracle_steps"] == pytest.approx((80 + 50) / 2)
    assert found["gap"] == pytest.approx((88 + 55) / (80 + 50) - 1)
    assert (found["pairs"], found["without_safe_length"]) == (3, 1)
    assert found["own_success_rate"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_it_goes_on_where_it_was_and_writes_table_and_picture(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "MULTIPLES", [0.8, 1.2])
    arguments = ["oracle_gap.py", "maze2d-umaze", "--pairs", "2", "--plans", "2", "--workers", "1"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--out", str(tmp_path)])
    script.main()
    first = json.loads(capsys.readouterr().out)
    assert first["gamma-1.25"]["pairs"] == 2
    assert first["risk-0.05"]["oracle_steps"] <= first["gamma-1.25"]["own_steps"]
    rows = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    script.main()
    assert json.loads(capsys.readouterr().out) == first
    assert rows == {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    assert (tmp_path / "maze2d-umaze.png").is_file()
