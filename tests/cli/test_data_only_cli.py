"""Data without a simulator: what can be done with it, and what is said of the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pictures import picture

from vhdiffuser.cli import run
from vhdiffuser.envs.recorded import planning_of
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.planner.load import load_planner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.report.plan_figures import draw_plans
from vhdiffuser.web.library import Library
from vhdiffuser.web.scene import checked_instance, describe, random_instance
from vhdiffuser.weights.places import run_folder

FAST = ["--updates", "3", "--warmup", "1", "--threads", "1", "--quiet"]


@pytest.fixture
def log(vhd_home: Path, tmp_path: Path) -> str:
    """A log of 40 straight drives in a square, with networks of three updates: the name it was imported under."""
    rng = np.random.default_rng(0)
    drives = []
    for _ in range(40):
        start, end = rng.uniform(0, 4, (2, 2))
        drives.append(start + np.linspace(0, 1, 60)[:, None] * (end - start))
    ends = np.cumsum([len(drive) for drive in drives])
    np.savez(tmp_path / "log.npz", observations=np.concatenate(drives), episode_ends=ends)
    assert run(["data", "import", "log", str(tmp_path / "log.npz"), "--t-max", "48"]) == 0
    assert run(["train", "length", "log", *FAST]) == 0
    assert run(["train", "planner", "log", "--dim", "8", "--diffusion-steps", "8", *FAST]) == 0
    return "log"


def test_a_log_is_an_environment_that_plans_and_is_evaluated(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    environment = get_environment(log)
    assert environment.simulator is None
    assert environment.held_out == 0.05
    capsys.readouterr()
    assert run(["eval-length", log, "--pairs", "50", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["truth"].startswith("steps taken by held-out episodes")
    assert row["pairs"] == 50
    assert run(["eval-plans", log, "--n", "5", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["environment"], answer["held_out"], answer["pairs"]) == (log, True, 5)
    assert answer["length_ratio_p10"] <= answer["length_ratio_median"] <= answer["length_ratio_p90"]
    assert run(["reproduce", log, "--dry-run"]) == 0
    commands = ["calibrate log --weights trained --workers 1", "eval-length log", "eval-plans log"]
    printed = capsys.readouterr().out.split("\n")[:3]
    assert all(line.startswith(f"$ vhd {command}") for line, command in zip(printed, commands, strict=True))
    assert "calibrate log" in printed[2], "plans are evaluated at calibrated lengths"


def test_plans_of_a_log_are_composed_and_smoothed_in_proportion_to_the_longest(log: str) -> None:
    planner = load_planner(log, source="trained")
    assert (planner.options.piece, planner.options.smoothing) == (18, 1.5)  # 3/8 and 1/32 of T_max 48
    assert planner.plan([0.5, 0.5], [3.5, 3.5], 40).route is not None, "training the lengths left a route graph"
    spec = planner.spec
    assert planning_of(replace(spec, T_max=128, goal_dims=(0, 1))) == {"smoothing": 4.0, "piece": 48}
    assert planning_of(replace(spec, goal_dims=(0,)))["piece"] == 0, "a route in one dimension only goes straight on"
    assert get_recipe(log, "paper").planning.piece == 0, "the paper's plans are drawn whole"


def test_a_piece_has_at_least_four_knots_whatever_the_stride(log: str) -> None:
    fast = ["--dim", "8", "--diffusion-steps", "8", "--stride", "6", "--name", "coarse", *FAST]
    assert run(["train", "planner", log, *fast]) == 0
    folder = run_folder(log, "coarse")
    assert Planner.load(folder / "model.safetensors").options.piece == 24


def test_the_picture_of_a_plan_shows_the_log(log: str, tmp_path: Path) -> None:
    bare, shown = tmp_path / "bare.png", tmp_path / "plan.png"
    draw_plans([load_planner(log, source="trained").plan([1, 1], [3, 3])], bare)
    assert run(["plan", log, "--start", "1", "1", "--goal", "3", "3", "--out", str(shown)]) == 0
    grey = [
        int(((np.ptp(p, axis=-1) < 5) & (p[..., 0] > 100) & (p[..., 0] < 240)).sum())
        for p in map(picture, (bare, shown))
    ]
    assert grey[1] > grey[0] + 1000, "the dots of 2,400 states"


def test_a_log_is_calibrated_on_its_held_out_episodes(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["calibrate", log, "--n", "60", "--quiet", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["made"]["source"] == "held-out episodes"
    assert Path(answer["written"]).name == "calibration.json"
    pair = ["--start", "1", "1", "--goal", "2", "2"]
    lengths = {}
    for risk in ("0.5", "0.2"):
        assert run(["plan", log, *pair, "--risk", risk, "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        lengths[risk] = plan["horizon"]["length"]
        assert plan["horizon"]["probability"] is not None
    assert lengths["0.5"] <= lengths["0.2"]
    assert run(["calibrate", log, "--check", "--quiet"]) == 1
    assert "only calibrations from executions can be checked" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "bench", "failures"])
def test_what_needs_a_simulator_says_so_and_what_works_without(
    log: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, log]) == 1
    said = capsys.readouterr().err
    assert "no simulator" in said
    assert "vhd eval-plans" in said
    assert not any(f"`vhd {name} {log}" in said for name in ("bench", "demo", "failures")), "no circle"


def test_the_page_shows_a_log(log: str) -> None:
    library = Library.of_weights()  # what ships, and for what ships with nothing, what was trained
    assert dict(library.listing())[log].to_plan == ()
    loaded = library.get(log)
    scene = describe(loaded, ())
    assert not scene.executes
    assert scene.walls == []
    assert scene.views[0].right_range[0] >= 0
    assert scene.views[0].up_range[1] <= 4
    pair = random_instance(loaded, 3)
    instance = checked_instance(loaded, pair.start, pair.goal)
    plan = loaded.planner.plan(instance.start, instance.goal)
    np.testing.assert_allclose(plan.states[-1], instance.goal, atol=1e-6)


@pytest.mark.slow
def test_a_maze_of_one_s_own_is_known_by_its_name_from_then_on(
    vhd_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map.txt").write_text("#####\n#  G#\n# ###\n#   #\n#####\n")
    build = ["data", "build", "hook", "--maze", str(tmp_path / "map.txt"), "--size", "3000", "--quiet"]
    assert run(build) == 0
    assert run(["train", "length", "hook", *FAST]) == 0
    assert run(["train", "planner", "hook", "--dim", "8", *FAST]) == 0
    rows = ["--n", "2", "--workers", "1", "--keep", "1", "--out", str(tmp_path / "results"), "--quiet"]
    capsys.readouterr()
    assert run(["bench", "hook", "--methods", "vhd", "--json", *rows]) == 0
    assert [cell["protocol"] for cell in json.loads(capsys.readouterr().out)] == ["ss", "rp"]
    assert run(["eval-length", "hook", "--pairs", "20"]) == 0
    assert run(["failures", "hook", "--rows", str(tmp_path / "results"), "--quiet"]) == 0
    assert run(["demo", "hook", "--n", "1", "--workers", "1", "--out", str(tmp_path), "--quiet"]) == 0
    assert len(get_environment("hook").geometry.walls) == 5 * 5 - 7
    capsys.readouterr()
    assert run(build) == 1
    assert "--replace" in capsys.readouterr().err
    assert run(["data", "build", "maze2d-umaze", "--maze", str(tmp_path / "map.txt")]) == 1
    assert "choose another name" in capsys.readouterr().err
    assert run(["data", "build", "other", "--maze", str(tmp_path / "none.txt")]) == 1
    assert "not a readable text file" in capsys.readouterr().err
