"""`vhd demo` and `vhdiffuser.execute`, with models of a few updates: mechanics, not quality."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pictures import BLUE, RED, WALL, YELLOW, picture, pixels_of
from toy_point import ENVIRONMENT, ToyController, ToyEnv, ToyPlanner

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.errors import UnknownNameError, VhdError


@pytest.fixture(scope="module")
def weights(trained_umaze, tmp_path_factory) -> Path:
    """A folder of exported toy weights."""
    folder = tmp_path_factory.mktemp("weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(trained_umaze))
        assert run(["models", "export", "maze2d-umaze", "--out", str(folder), "--results", str(folder), "--quiet"]) == 0
    return folder


@pytest.mark.slow
def test_demo_prints_both_protocols_beside_the_paper_and_draws(weights, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["demo", str(weights), "--n", "2", "--workers", "1", "--quiet", "--out", "pictures"]
    capsys.readouterr()
    assert run(command) == 0
    text = capsys.readouterr().out
    assert "maze2d-umaze: 2 random instances" in text
    assert all(figure in text for figure in ("97.1", "112.7", "100.0", "140.0")), "Table II's row of VHD"
    shown = picture(tmp_path / "pictures/demo-maze2d-umaze.png")
    assert all(len(pixels_of(shown, colour)) > 20 for colour in (WALL, BLUE, YELLOW, RED))
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(cell["protocol"], cell["n"]) for cell in answer["results"]] == [("ss", 2), ("rp", 2)]
    assert answer["results"][0]["paper_success_rate"] == pytest.approx(0.971)
    assert {path.name for path in tmp_path.iterdir()} <= {"pictures", "home"}, "rows of a demo are not kept"


def test_demo_without_weights_says_what_to_do(vhd_home, capsys):
    assert run(["demo", "maze9d", "--quiet"]) == 1
    assert "maze2d-large" in capsys.readouterr().err
    vhdiffuser.register(vhdiffuser.make_maze(["####", "#OO#", "####"], name="maze9d"))
    assert run(["demo", "maze9d", "--quiet"]) == 1
    assert "vhd train planner maze9d" in capsys.readouterr().err


def test_a_folder_of_weights_plans_from_the_command_line(weights, tmp_path, capsys):
    command = ["plan", str(weights), "--start", "1", "1", "--goal", "3", "1", "--out", str(tmp_path / "plan.png")]
    assert run(command) == 0
    assert (tmp_path / "plan.png").exists()


def test_an_environments_name_is_not_mistaken_for_a_folder(weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maze9d").mkdir()
    with pytest.raises(UnknownNameError, match="unknown planner"):
        vhdiffuser.load_planner("maze9d")


def test_load_plan_execute_in_a_few_lines(weights):
    planner = vhdiffuser.load_planner(weights)
    plan = planner.plan([1, 1, 0, 0], [3, 1], 40)
    rollout = vhdiffuser.execute(planner, [1, 1, 0, 0], [3, 1], "ss")
    assert plan.length == 40
    assert rollout.observations.shape == (rollout.steps + 1, 4)
    assert rollout.replans == 0
    assert rollout.steps <= rollout.plans[0][1].length
    with pytest.raises(VhdError, match="inside a wall"):
        vhdiffuser.execute(planner, [1, 1, 0, 0], [1.8, 0.8])


def test_execute_drives_a_simulator_of_ones_own():
    planner = ToyPlanner()
    with pytest.raises(VhdError, match="toy has no registered simulator: pass `env`"):
        vhdiffuser.execute(planner, [0.1, 0.1], [0.9, 0.5])
    vhdiffuser.register(ENVIRONMENT)
    rollout = vhdiffuser.execute(planner, [0.1, 0.1], [0.9, 0.5], env=ToyEnv(), controller=ToyController())
    assert rollout.success
    assert rollout.steps == 8
    np.testing.assert_allclose(rollout.observations[-1], [0.9, 0.5], atol=0.1)
    stuck = vhdiffuser.execute(planner, [0.1, 0.1], [0.9, 0.2], env=ToyEnv(stuck=True), controller=ToyController())
    assert (stuck.success, stuck.steps) == (False, 40), "it plans again until the step budget is spent"
    assert stuck.replans > 0
    with pytest.raises(UnknownNameError, match="ss, rp"):
        vhdiffuser.execute(planner, [0.1, 0.1], [0.9, 0.5], "once", env=ToyEnv(), controller=ToyController())
