"""Environments by where they are, on the command line: `vhd bench my_robot.py:make`, `--env package.module:make`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vhdiffuser.benchmark.sweep import Sweep, SweepConfig
from vhdiffuser.cli import _with_references as with_references
from vhdiffuser.cli import run
from vhdiffuser.envs.registry import environments, get_environment, reference_of, register
from vhdiffuser.weights.places import find_model

ROBOT = """
from dataclasses import replace
from toy_point import ENVIRONMENT, SPEC
import vhdiffuser

def make():
    return replace(ENVIRONMENT, spec=replace(SPEC, name="robot"))

def with_units():
    return replace(ENVIRONMENT, spec=replace(SPEC, name="robot", state_names=("x [m]", "y [m]")))

def maze():
    return vhdiffuser.make_maze("######\\n#OOOO#\\n######", name="corridor")
"""


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "robot_of_this_test.py").write_text(ROBOT)
    monkeypatch.chdir(tmp_path)
    return "robot_of_this_test.py"


@pytest.mark.parametrize("option", ["--env {}:make", "--env={}:make", "{}:make"])
def test_a_command_without_a_name_lists_it(robot: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["envs", "--json", *option.format(robot).split()]) == 0
    assert [item["name"] for item in json.loads(capsys.readouterr().out)][-1] == "robot"


@pytest.mark.parametrize("option", ["{}:maze", "--env {}:maze"])
def test_where_a_name_is_wanted_the_reference_stands_for_it(robot: str, option: str, capsys) -> None:
    build = ["data", "get", *option.format(robot).split(), "--source", "build", "--size", "500", "--workers", "1"]
    assert run([*build, "--quiet", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["name"], facts["transitions"], facts["T_max"]) == ("corridor", 500, 128)
    assert run(["data", "info", "corridor", "--json"]) == 0, "from then on its name will do"


@pytest.mark.parametrize("command", ["models", "recipes", "envs", "report", "serve", "completion"])
def test_a_command_without_an_environment_of_its_own_takes_one_all_the_same(robot: str, command: str) -> None:
    assert with_references(command, ["--env", f"{robot}:make", "--json"]) == ["--json"]
    assert "robot" in environments()


def test_where_a_command_has_its_own_option_or_a_subcommand_the_name_stands_there(robot: str) -> None:
    given = ["--env", f"{robot}:make"]
    assert with_references("leaderboard", ["results", *given]) == ["results", "--envs", "robot"]
    assert with_references("demo", ["weights", *given]) == ["weights", "--env", "robot"]
    assert with_references("models", ["export", *given]) == ["export", "robot"]
    assert with_references("recipes", ["show", *given]) == ["show", "robot"]


def test_commands_for_other_processes_keep_the_reference(robot: str, vhd_home: Path, capsys) -> None:
    reference = f"{robot}:make"
    for option in ([], ["--workers", "2"]):
        assert run(["reproduce", "--env", reference, "--dry-run", "--json", "--quiet", *option]) == 0
        commands = [entry["command"].split() for entry in json.loads(capsys.readouterr().out)]
        assert {word for command in commands for word in command if "robot" in word} == {reference}
    assert reference_of("robot") == reference
    for kind in ("planner", "length"):
        path = find_model("robot", kind)
        path.parent.mkdir(parents=True)
        path.touch()
    tasks = Sweep(SweepConfig(("robot",), {"planning.gamma": (1.1, 1.2)}), Path("sweep")).tasks()
    assert [task.arguments[-1] for task in tasks.values()] == [reference, reference]
    register(get_environment("robot"), replace=True)
    assert reference_of("robot") == "robot", "the one of this program is no longer the file's"
    assert reference_of("maze2d-umaze") == "maze2d-umaze"


def test_units_in_brackets_are_printed_as_they_are(robot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["envs", f"{robot}:with_units"]) == 0
    assert "x [m] y [m]" in capsys.readouterr().out


def test_what_leads_nowhere_is_one_line(robot: str, capsys: pytest.CaptureFixture[str]) -> None:
    for reference, message in (
        ("no_such.py:make", "no_such.py: no such file."),
        (f"{robot}:fly", "has no 'fly'"),
        ("no_package.robots:make", "No module named 'no_package'"),
    ):
        assert run(["bench", reference]) == 1
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.err.count("\n") == 1


def test_a_command_whose_own_option_it_is_still_gets_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import-diffuser", "state_1.pt", "--env", "maze2d-large"]) == 1
    assert "no data for maze2d-large yet" in capsys.readouterr().err, "it was understood"
