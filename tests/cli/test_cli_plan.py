"""plan, bench, report and eval-length from the command line, with models of a few updates: mechanics, not quality."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
from pictures import BLUE, RED, WALL, YELLOW, picture, pixels_of

from vhdiffuser.cli import run

TINY = ["--threads", "1", "--quiet", "--updates", "3", "--log-every", "1", "--warmup", "1"]


@pytest.fixture(scope="module")
def trained(trained_umaze, tmp_path_factory) -> Path:
    """The same with a tiny baseline."""
    home = tmp_path_factory.mktemp("with-baseline")
    shutil.copytree(trained_umaze, home, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(home))
        fixed = ["--horizon", "64", "--dim", "8", "--batch-size", "4"]
        assert run(["train", "planner", "maze2d-umaze", *fixed, *TINY]) == 0
    return home


@pytest.fixture
def models(trained, vhd_home):
    shutil.copytree(trained, vhd_home)


def test_plan_in_every_format(models, tmp_path, capsys):
    base = ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--steps", "3"]
    assert run([*base, "--length", "50", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["length"] == len(plan["states"]) == 50
    np.testing.assert_allclose(plan["states"][0], [1, 1, 0, 0])
    np.testing.assert_allclose(plan["states"][-1][:2], [3, 1])
    for suffix in ("png", "json", "csv", "gif"):
        path = tmp_path / f"plan.{suffix}"
        assert run([*base, "--out", str(path)]) == 0
    shown = picture(tmp_path / "plan.png")
    assert all(len(pixels_of(shown, colour)) > 20 for colour in (WALL, YELLOW, RED)), "walls, start and goal"
    assert len(imageio.imread(tmp_path / "plan.gif", index=None)) > 3, "the reverse steps"
    lines = (tmp_path / "plan.csv").read_text().splitlines()
    assert lines[0] == "step,x,y,vx,vy"
    assert len(lines) - 1 == json.loads((tmp_path / "plan.json").read_text())["length"]


@pytest.mark.slow
def test_a_plan_is_followed_and_the_goal_moves(models, tmp_path, capsys):
    base = ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--steps", "3", "--execute"]
    assert run([*base, "ss", "--length", "40", "--then", "1", "2", "--after", "25", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, second = told["executions"]
    assert first["steps"] == 25
    assert not first["success"], "the goal moved before it was reached"
    assert [item["plans"][0]["length"] for item in told["executions"]] == [40, 40]
    np.testing.assert_allclose(second["goal"], [1, 2])
    np.testing.assert_allclose(second["states"][0], first["states"][-1], atol=1e-6)
    for suffix in ("png", "gif", "json"):
        path = tmp_path / f"film.{suffix}"
        assert run([*base, "ss", "--length", "40", "--out", str(path)]) == 0
    assert len(pixels_of(picture(tmp_path / "film.png"), BLUE)) > 20, "the executed path"
    assert len(imageio.imread(tmp_path / "film.gif", index=None)) > 10
    assert json.loads((tmp_path / "film.json").read_text())["executions"][0]["steps"] == 40
    assert "goal 3 1: not reached in 40 steps; plans: 40" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--start", "1.8", "0.8", "--goal", "3", "1"], "inside a wall"),
        (["--start", "1", "--goal", "3", "1"], "--start needs 4 numbers"),
        (["--start", "1", "1", "--goal", "3", "1", "2"], "goal"),
        (["--start", "1", "1", "--goal", "3", "1", "--length", "9999"], "out of range"),
        (["--start", "1", "1", "--goal", "3", "1", "--out", "plan.txt"], "must be .png"),
        (["--start", "1", "1", "--goal", "3", "1", "--gamma", "-1"], "gamma"),
        (["--start", "1", "1", "--goal", "3", "1", "--then", "1", "1"], "--then needs --execute"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "rp", "--after", "9"], "--after needs --then"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "rp", "--then", "1.8", "0.8"], "inside a wall"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "ss", "--out", "plan.csv"], "holds one plan"),
    ],
)
def test_bad_plans_are_refused(models, capsys, arguments, message):
    assert run(["plan", "maze2d-umaze", *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_bench_resumes_and_reports(models, tmp_path, capsys):
    command = ["bench", "maze2d-umaze", "--methods", "vhd", "fh-h1", "--steps", "2", "--out", str(tmp_path / "r")]
    command += ["--workers", "1", "--quiet", "--json", "--keep", "2", "--video", "top"]
    assert run([*command, "--n", "4", "--protocols", "ss"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert [(row["method"], row["protocol"], row["n"]) for row in first] == [("vhd", "ss", 4), ("fh-h1", "ss", 4)]
    keys = {"environment", "success_rate", "average_executed_steps", "planning_seconds", "simulation_seconds"}
    assert keys <= first[0].keys()
    path = tmp_path / "r/maze2d-umaze/vhd-ss.jsonl"
    before = path.read_text()
    assert run([*command, "--n", "6", "--protocols", "ss"]) == 0
    assert path.read_text().startswith(before), "what was done is kept"
    assert len(path.read_text().splitlines()) == 1 + 6
    capsys.readouterr()
    assert run([*command, "--n", "6", "--protocols", "ss", "--gamma", "2"]) == 1
    assert "gamma" in capsys.readouterr().err
    assert list((tmp_path / "r").rglob("*.gif"))
    assert run(["report", str(tmp_path / "r")]) == 0
    assert "| maze2d-umaze | VHD (SS) | 6 |" in (tmp_path / "r/report.md").read_text()


def test_bench_says_which_command_makes_missing_weights(models, tmp_path, capsys):
    assert run(["bench", "maze2d-umaze", "--methods", "fh-h2", "--n", "2", "--out", str(tmp_path)]) == 1
    assert "vhd train planner maze2d-umaze --horizon 128" in capsys.readouterr().err
    assert run(["bench", "maze2d-umaze", "--methods", "best", "--n", "2", "--out", str(tmp_path)]) == 1
    assert "fh-lp" in capsys.readouterr().err


@pytest.mark.slow
def test_bench_takes_own_instances(models, tmp_path, capsys):
    np.savez(tmp_path / "mine.npz", start_state=[[1, 1, 0, 0], [3, 1, 0, 0]], goal_pos=[[3, 1], [1, 1]])
    command = ["bench", "maze2d-umaze", "--methods", "vhd", "--protocols", "ss", "--steps", "2", "--json", "--quiet"]
    assert run([*command, "--instances", str(tmp_path / "mine.npz"), "--out", str(tmp_path / "r")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] == 2


def test_eval_length_prints_and_draws(models, tmp_path, capsys):
    command = ["eval-length", "maze2d-umaze", "--pairs", "40", "--goals", "1"]
    assert run([*command, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert {"spearman", "mean_abs_error_steps", "triangle_violations", "mean_f_gg_steps"} <= row.keys()
    assert run([*command, "--out", str(tmp_path / "figures")]) == 0
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"scatter.png", "calibration.png", "fields.png"}
