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
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.results.rollout_files import load_rollout
from vhdiffuser.results.rows import read_folder

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


def test_warnings_are_one_plain_line_each(models, capsys):
    """gamma 9 clips every length; the velocity lies outside the data."""
    plan = ["plan", "maze2d-umaze", "--start", "1", "1", "40", "0", "--goal", "3", "1", "--gamma", "90", "--steps", "2"]
    for _ in range(2):  # a second command says it again
        assert run([*plan, "--execute", "rp"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == len(set(lines))
        assert all(line.startswith("vhd: warning: ") for line in lines)
        assert sum("1 of 1 predicted lengths clipped at T_max = 256 states" in line for line in lines) == 1
        assert any("vx = 40 is outside the training data" in line for line in lines)


def test_bench_counts_clipped_lengths_in_one_line(models, tmp_path, capsys):
    bench = [
        "bench",
        "maze2d-umaze",
        "--methods",
        "vhd",
        "--protocols",
        "ss",
        "--n",
        "3",
        "--workers",
        "1",
        "--keep",
        "0",
    ]
    assert run([*bench, "--steps", "2", "--gamma", "90", "--out", str(tmp_path)]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert told.count("clipped") == 1
    assert "3 of 3 predicted lengths were clipped at T_max = 256 states" in told
    assert "vhd: warning" not in told


def test_smoothing_is_an_option_that_plans_follow_and_rows_record(models, tmp_path, capsys):
    base = ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--length", "49", "--json"]
    states = []
    for option in ([], ["--smoothing", "12"], ["--smoothing", "0"]):
        assert run([*base, *option]) == 0
        states.append(np.array(json.loads(capsys.readouterr().out)["states"]))
    np.testing.assert_array_equal(states[0], states[1])
    assert np.abs(states[2] - states[1]).max() > 1e-2
    bench = ["bench", "maze2d-umaze", "--methods", "vhd", "--protocols", "ss", "--n", "2", "--workers", "1"]
    for option, recorded in ([], 12.0), (["--smoothing", "0"], 0.0):
        folder = tmp_path / f"rows-{recorded:g}"
        assert run([*bench, *option, "--keep", "0", "--quiet", "--out", str(folder)]) == 0
        assert read_folder(folder)[0].config["smoothing"] == recorded


def test_a_start_of_goal_dimensions_is_put_where_they_are(vhd_home, tmp_path, capsys):
    """A robot whose velocity comes first: the two numbers of --start are its position."""
    rng = np.random.default_rng(0)
    velocity = rng.normal(size=(300, 2)).astype(np.float32)
    place = np.cumsum(0.1 * velocity, axis=0) - 0.1 * velocity  # p[t+1] - p[t] = 0.1 v[t]
    data = tmp_path / "cart.npz"
    np.savez(data, observations=np.hstack([velocity, place]), episode_ends=[150, 300])
    dims = ["--goal-dims", "2", "3", "--velocity-dims", "0", "1", "--control-dt", "0.1", "--t-max", "32"]
    assert run(["data", "import", "cart", str(data), *dims]) == 0
    assert run(["train", "planner", "cart", "--dim", "8", "--batch-size", "4", *TINY]) == 0
    assert run(["train", "length", "cart", *TINY]) == 0
    capsys.readouterr()
    assert run(["plan", "cart", "--start", "0.1", "0.2", "--goal", "0.3", "0.1", "--length", "12", "--json"]) == 0
    states = json.loads(capsys.readouterr().out)["states"]
    np.testing.assert_allclose(states[0], [0, 0, 0.1, 0.2], atol=1e-6)
    np.testing.assert_allclose(states[-1][2:], [0.3, 0.1], atol=1e-6)


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
        (["--start", "1", "--goal", "3", "1"], "a start needs 4 numbers (x, y, vx, vy)"),
        (["--start", "1", "1", "--goal", "3", "1", "2"], "goal"),
        (["--start", "1", "1", "--goal", "3", "1", "--length", "9999"], "out of range"),
        (["--start", "1", "1", "--goal", "3", "1", "--out", "plan.txt"], "must be .png"),
        (["--start", "1", "1", "--goal", "3", "1", "--gamma", "-1"], "gamma"),
        (["--start", "1", "1", "--goal", "3", "1", "--then", "1", "1"], "--then needs --execute"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "rp", "--after", "9"], "--after needs --then"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "rp", "--then", "1.8", "0.8"], "inside a wall"),
        (["--start", "1", "1", "--goal", "3", "1", "--execute", "ss", "--out", "plan.csv"], "holds a single plan"),
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
    path = tmp_path / "r/maze2d-umaze/vhd-ss-0.jsonl"
    before = path.read_text()
    assert run([*command, "--n", "6", "--protocols", "ss"]) == 0
    assert path.read_text().startswith(before), "what was done is kept"
    assert len(path.read_text().splitlines()) == 1 + 6
    capsys.readouterr()
    assert run([*command, "--n", "6", "--protocols", "ss", "--gamma", "2"]) == 1
    assert "gamma" in capsys.readouterr().err
    assert list((tmp_path / "r").rglob("*.gif"))
    assert run(["report", str(tmp_path / "r")]) == 0
    assert "| maze2d-umaze | VHD (SS) | reset | 6 |" in (tmp_path / "r/report.md").read_text()


def test_bench_says_which_command_makes_missing_weights(models, tmp_path, capsys):
    assert run(["bench", "maze2d-umaze", "--methods", "fh-h2", "--n", "2", "--out", str(tmp_path)]) == 1
    assert "vhd train planner maze2d-umaze --horizon 128" in capsys.readouterr().err
    assert run(["bench", "maze2d-umaze", "--methods", "best", "--n", "2", "--out", str(tmp_path)]) == 1
    assert "fh-lp" in capsys.readouterr().err


def test_bench_runs_the_methods_that_are_there_and_says_which_are_not(models, tmp_path, capsys):
    command = [
        "bench",
        "maze2d-umaze",
        "--protocols",
        "ss",
        "--steps",
        "2",
        "--n",
        "2",
        "--keep",
        "0",
        "--workers",
        "1",
    ]
    assert run([*command, "--json", "--out", str(tmp_path / "r")]) == 0
    printed = capsys.readouterr()
    assert [row["method"] for row in json.loads(printed.out)] == ["vhd", "fh-h1"]
    said = " ".join(printed.err.split())
    assert "skipping fh-h2" in said
    assert "vhd train planner maze2d-umaze --horizon 128" in said
    assert run([*command, "--json", "--quiet", "--out", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().err == ""


def test_bench_on_a_fresh_install_runs_what_ships(tmp_path, capsys):
    command = [
        "bench",
        "maze2d-umaze",
        "--protocols",
        "ss",
        "--steps",
        "2",
        "--n",
        "2",
        "--keep",
        "0",
        "--workers",
        "1",
    ]
    assert run([*command, "--json", "--out", str(tmp_path / "r")]) == 0
    printed = capsys.readouterr()
    assert [row["method"] for row in json.loads(printed.out)] == ["vhd"]
    assert all(f"skipping {name}" in printed.err for name in ("fh-lp", "fh-h1", "fh-h2", "fh-h3"))
    assert run([*command, "--weights", "trained", "--out", str(tmp_path / "t")]) == 1, "nothing was trained"
    assert "method 'vhd' needs the planner model" in " ".join(capsys.readouterr().err.split())


def test_bench_pools_the_seeds_asked_for(models, tmp_path, capsys):
    command = [
        "bench",
        "maze2d-umaze",
        "--methods",
        "vhd",
        "--protocols",
        "ss",
        "--steps",
        "2",
        "--keep",
        "0",
        "--quiet",
    ]
    command += ["--n", "3", "--workers", "1", "--out", str(tmp_path), "--seeds"]
    assert run([*command, "7", "--json"]) == 0
    assert run([*command, "7", "8", "--json"]) == 0
    one, both = (json.loads(line) for line in capsys.readouterr().out.replace("]\n[", "]\0[").split("\0"))
    assert (one[0]["seeds"], one[0]["n"], both[0]["seeds"], both[0]["n"]) == ([7], 3, [7, 8], 6)
    assert {path.name for path in (tmp_path / "maze2d-umaze").glob("*.jsonl")} == {"vhd-ss-7.jsonl", "vhd-ss-8.jsonl"}
    assert run([*command, "7", "8"]) == 0
    assert "SR % by seed   7: " in capsys.readouterr().out
    assert run([*command, "7", "7"]) == 1
    assert "is repeated" in capsys.readouterr().err


@pytest.mark.ogbench
def test_bench_takes_whole_observations_of_the_ant(tmp_path, capsys):
    env = get_environment("antmaze-medium").make()
    body = env.reset(env.sample_instance(np.random.default_rng(0)))
    np.savez(tmp_path / "mine.npz", start_state=[body], goal_pos=[body[:2] + 0.1])
    command = [
        "bench",
        "antmaze-medium",
        "--methods",
        "vhd",
        "--protocols",
        "ss",
        "--workers",
        "1",
        "--quiet",
        "--json",
    ]
    assert run([*command, "--instances", str(tmp_path / "mine.npz"), "--out", str(tmp_path / "r")]) == 0
    assert json.loads(capsys.readouterr().out)[0]["distribution"] == "pairs"
    kept = load_rollout(tmp_path / "r/antmaze-medium/rollouts/vhd-ss-pairs-0-0.npz")
    np.testing.assert_array_equal(kept.instance.start, body)
    np.testing.assert_allclose(kept.states[0], body[:2], atol=1e-6)


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
