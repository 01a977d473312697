"""`vhd reproduce`: which commands, in which order, and what is left out because it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from vhdiffuser.cli import parse, run
from vhdiffuser.cli.reproduce import UPDATES, Reproduce
from vhdiffuser.envs.registry import SPECS, get_spec
from vhdiffuser.models import find_model


@pytest.mark.parametrize("environment", list(SPECS))
def test_from_nothing_it_gets_data_trains_everything_benches_and_reports(vhd_home: Path, environment: str) -> None:
    spec = get_spec(environment)
    commands = Reproduce(environment).commands(spec)
    assert commands[0] == ["data", "get", environment]
    assert commands[-1] == ["report", "results"]
    planners = [command for command in commands if command[:2] == ["train", "planner"]]
    assert {tuple(command[3:5]) for command in planners} == {("--updates", str(UPDATES[environment]))}
    assert [command[6] for command in planners[1:]] == [str(horizon) for horizon in spec.horizons]
    assert (["train", "dynamics", environment] in commands) == (spec.controller == "inverse_dynamics")
    for command in commands:
        parse(command[0], command[1:])  # each is a command line that vhd takes


def test_what_is_there_is_not_made_again_and_baselines_are_an_option(vhd_home: Path) -> None:
    for kind in ("planner", "length"):
        path = find_model("maze2d-umaze", kind, "trained")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    commands = Reproduce("maze2d-umaze", baselines=False).commands(get_spec("maze2d-umaze"))
    assert [command[0] for command in commands] == ["data", "bench", "bench", "report"]


def test_a_dry_run_prints_and_makes_nothing(vhd_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "maze2d-umaze", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "$ vhd train planner maze2d-umaze --updates 2500 --horizon 64" in printed
    assert not list(vhd_home.rglob("*.safetensors"))
