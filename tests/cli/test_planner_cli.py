"""Anybody's planner on the command line: bench, failures, report and leaderboard; and in `evaluate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.errors import VhdError
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import read_results

PLANNER = """
import numpy as np

class Line:
    name = "line"
    candidates = 2

    def __init__(self, environment):
        self.environment = environment.name

    def plan(self, start, goal, seed):
        return np.linspace(start, [*goal, 0, 0], 60 + seed % 2)

    def describe(self):
        return {"made for": self.environment}

class Vhd(Line):
    name = "vhd"

def off(start, goal):
    return np.linspace(start + [0.1, 0, 0, 0], [*goal, 0, 0], 60)
"""
SIZE = ["--n", "6", "--seeds", "3", "--keep", "1", "--workers", "1", "--quiet"]


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "line_of_this_test.py").write_text(PLANNER)
    monkeypatch.chdir(tmp_path)
    return "line_of_this_test.py"


def test_a_planner_is_benchmarked_replayed_reported_and_ranked(
    planner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "maze2d-umaze", "--planner", f"{planner}:Line", *SIZE, "--out", "mine"]
    assert run([*command, "--json"]) == 0
    summaries = json.loads(capsys.readouterr().out)
    assert [(item["method"], item["protocol"], item["n"]) for item in summaries] == [
        ("line", "ss", 6),
        ("line", "rp", 6),
    ]
    file = read_results(result_path(Path("mine"), "maze2d-umaze", "line", "ss", 3))
    assert file.config["planner"]["reference"] == f"{planner}:Line"
    assert file.config["planner"]["settings"] == {"made for": "maze2d-umaze"}
    assert (file.config["candidates"], file.config["horizon"], file.config["controller"]["name"]) == (2, None, "pd")
    assert "gamma" not in file.config
    assert {row.predicted_length for row in file.rows} == {None}
    assert {row.planned_length for row in file.rows} == {60, 61}, "the seed reaches it"
    assert {row.start_gap for row in file.rows} == {0.0}
    failed = sum(not row.success for row in file.rows)
    assert 0 < failed < 6, "walls are in the way of some"

    assert run(["failures", "maze2d-umaze", "--planner", f"{planner}:Line", "--rows", "mine", "--json", "--quiet"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["method"], answer["failures"], answer["same_weights"]) == ("line", failed, True)
    assert answer["did_not_fail_again"] == []
    assert all(item["same_plan"] for item in answer["runs"])
    assert run(["failures", "maze2d-umaze", "--method", "line", "--rows", "mine", "--quiet"]) == 1
    assert f"pass --planner {planner}:Line" in capsys.readouterr().err

    assert run(["report", "mine"]) == 0
    report = Path("mine/report.md").read_text()
    assert "## Other planners" in report
    assert "| line (SS) | SR |" in report
    capsys.readouterr()
    assert run(["leaderboard", "mine", "--json"]) == 0
    assert [item["planner"] for item in json.loads(capsys.readouterr().out)] == ["line", "line"]

    # The same planner continues those rows; another of that name is refused.
    assert run([*command, "--n", "7"]) == 0
    (tmp_path / "other_of_this_test.py").write_text(PLANNER)
    assert run([*command, "--planner", "other_of_this_test.py:Line"]) == 1
    assert "contains results of another configuration (planner" in capsys.readouterr().err


def test_a_package_in_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/leaderboard.md promises; a console script does not look there by itself."""
    package = tmp_path / "robotics_of_a_stranger"
    package.mkdir()
    (package / "__init__.py").write_text("from .planners import straight\n")
    (package / "planners.py").write_text(
        "import numpy as np\n\n\ndef straight(start, goal):\n    return np.linspace(start, [*goal, 0, 0], 100)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    for module in ("robotics_of_a_stranger", "robotics_of_a_stranger.planners"):
        asked = ["bench", "maze2d-umaze", "--planner", f"{module}:straight", "--n", "2", "--protocols", "ss"]
        assert run([*asked, "--out", module]) == 0
        assert len(read_results(result_path(tmp_path / module, "maze2d-umaze", "straight", "ss", 0)).rows) == 2
    assert run(["bench", "maze2d-umaze", "--planner", "no_such_package:plan", "--n", "2"]) == 1
    assert "must be installed or lie in the current folder" in " ".join(capsys.readouterr().err.split())


def test_our_names_options_and_units_are_not_mixed_up(planner: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--planner", f"{planner}:Vhd"], "is the name of one of our methods"),
        (["--planner", f"{planner}:Line", f"{planner}:Line"], "two planners are named 'line'"),
        (["--planner", f"{planner}:Line", "--gamma", "1.2"], "--gamma: options of our own planners"),
        (["--planner", "Line"], "write file.py:name"),
    ):
        assert run(["bench", "maze2d-umaze", *arguments, *SIZE]) == 1
        assert said in capsys.readouterr().err


def test_evaluate_takes_it_too(planner: str, tmp_path: Path) -> None:
    (summary,) = vhdiffuser.evaluate(
        lambda start, goal: np.linspace(start, [*goal, 0, 0], 60), "maze2d-umaze", 5, protocols="ss", folder=tmp_path
    )
    assert (summary.method, summary.n) == ("lambda", 5)
    made = vhdiffuser.foreign_planner(f"{planner}:off", "maze2d-umaze")
    vhdiffuser.evaluate(made, n=5, protocols="ss", folder=tmp_path)
    rows = read_results(result_path(tmp_path, "maze2d-umaze", "off", "ss", 0)).rows
    scale = made.normalizer.scale[0]
    assert [row.start_gap for row in rows] == pytest.approx([0.1 / scale] * 5, rel=1e-3)
    with pytest.raises(VhdError, match="pass `env`"):
        vhdiffuser.evaluate(lambda start, goal: start)
    with pytest.raises(VhdError, match="was made for maze2d-umaze"):
        vhdiffuser.evaluate(made, "maze2d-large")
    with pytest.raises(VhdError, match="its own name"):
        vhdiffuser.evaluate(made, method="vhd")
    with pytest.raises(VhdError, match="evaluate needs a planner"):
        vhdiffuser.evaluate(7, "maze2d-umaze")  # type: ignore[arg-type]
