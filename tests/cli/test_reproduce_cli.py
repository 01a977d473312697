"""`vhd reproduce`: which commands, in which order, and what is left out because it is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vhdiffuser import cli
from vhdiffuser.benchmark.reproduction import Reproduction
from vhdiffuser.cli import parse, reproduce, run
from vhdiffuser.cli.reproduce import Reproduce
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.weights.places import find_model


@pytest.mark.parametrize("environment", list(environments()))
def test_from_nothing_it_gets_data_trains_everything_benches_and_reports(vhd_home: Path, environment: str) -> None:
    known = get_environment(environment)
    commands = Reproduction().commands(known)
    assert commands[0] == ["data", "get", environment]
    assert commands[-1] == ["report", "results"]
    planners = [command for command in commands if command[:2] == ["train", "planner"]]
    assert [command[3:] for command in planners] == [[], *(["--horizon", str(horizon)] for horizon in known.horizons)]
    assert (["train", "dynamics", environment] in commands) == known.learns_control
    benches = [command for command in commands if command[0] == "bench"]
    assert all(" ".join(command).count("--seeds 100 101 102 ") == 1 for command in benches)
    assert [command[-2:] for command in benches].count(["--distribution", "uniform"]) == 1
    for command in commands:
        parse(command[0], command[1:])  # each is a command line that vhd takes


def test_what_is_there_is_not_made_again_and_baselines_are_an_option(vhd_home: Path) -> None:
    for kind in ("planner", "length"):
        path = find_model("maze2d-umaze", kind, "trained")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    commands = Reproduction(baselines=False).commands(get_environment("maze2d-umaze"))
    assert [command[0] for command in commands] == ["data", "calibrate", *["bench"] * 5, "report"]


def test_a_dry_run_prints_and_makes_nothing(vhd_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "maze2d-umaze", "--workers", "0", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "$ vhd train planner maze2d-umaze --horizon 64" in printed
    assert not list(vhd_home.rglob("*.safetensors"))


def test_a_dry_run_of_a_graph_names_few_needs_and_counts_many(vhd_home, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "maze2d-umaze", "--workers", "2", "--dry-run"]) == 0
    lines = capsys.readouterr().out.replace("\n", " ").split("$ vhd ")[1:]
    report = next(line for line in lines if line.startswith("report "))
    assert "other commands)" in " ".join(report.split())
    assert max(map(len, lines)) < 300, "each command is one readable line"


def test_a_dry_run_as_json_lists_the_same_commands_and_nothing_else(vhd_home, capsys) -> None:
    assert run(["reproduce", "maze2d-umaze", "--workers", "0", "--dry-run", "--json", "--quiet"]) == 0
    printed = capsys.readouterr()
    expected = [f"vhd {' '.join(command)}" for command in Reproduction().commands(get_environment("maze2d-umaze"))]
    assert json.loads(printed.out) == [{"command": command, "done": False} for command in expected]
    assert not printed.err
    assert run(["reproduce", "maze2d-umaze", "--workers", "0", "--dry-run", "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(expected), "what was asked for is no remark"


@pytest.fixture
def pretended(monkeypatch):
    """Commands that answer at once; the exit code of the benchmark can be set."""
    calls, codes = [], {"bench": 0}

    def pretend(arguments: list[str]) -> int:
        calls.append(arguments)
        print(json.dumps({"ran": arguments[0]}) if "--json" in arguments else f"{arguments[0]} done")
        return codes.get(arguments[0], 0)

    monkeypatch.setattr(cli, "run", pretend)
    return calls, codes


def test_json_tells_what_each_command_did_and_how_long(vhd_home, pretended, capsys) -> None:
    calls, _ = pretended
    Reproduce("maze2d-umaze", workers=0, baselines=False, json=True, quiet=True).run()
    record = json.loads(capsys.readouterr().out)
    assert [entry["result"] for entry in record] == [{"ran": call[0]} for call in calls]
    assert all(entry["done"] and entry["seconds"] >= 0 for entry in record)
    for call in calls:
        assert "--json" in call
        parse(call[0], call[1:])  # each of them knows the options that are handed on


@pytest.mark.parametrize(("cores", "gpu", "expected"), [(1, False, 0), (2, False, 2), (8, False, 8), (8, True, 0)])
def test_by_default_a_machine_without_a_gpu_runs_one_command_per_core(monkeypatch, cores, gpu, expected) -> None:
    monkeypatch.setattr(reproduce, "available_cores", lambda: cores)
    monkeypatch.setattr(reproduce, "is_cpu", lambda name: not gpu)
    asked: list[int] = []
    monkeypatch.setattr(Reproduce, "_run_in_turn", lambda self, commands: asked.append(0))
    monkeypatch.setattr(Reproduce, "_run_graph", lambda self, steps, workers: asked.append(workers))
    Reproduce("maze2d-umaze").run()
    Reproduce("maze2d-umaze", workers=3).run()
    assert asked == [expected, 3]


def test_in_turn_commands_print_for_themselves(vhd_home, pretended, capsys) -> None:
    calls, _ = pretended
    Reproduce("maze2d-umaze", workers=0, baselines=False).run()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "$ vhd data get maze2d-umaze"
    assert lines[1] == "data done"
    assert not any(option in call for call in calls for option in ("--json", "--quiet"))


def test_a_failure_stops_it_and_json_still_tells_what_was_done(vhd_home, pretended, capsys) -> None:
    _, codes = pretended
    codes["bench"] = 1
    with pytest.raises(VhdError, match="ended with code 1"):
        Reproduce("maze2d-umaze", workers=0, baselines=False, json=True).run()
    record = json.loads(capsys.readouterr().out)
    assert [entry["done"] for entry in record] == [True, True, True, True, False]
    codes["bench"] = 130
    with pytest.raises(SystemExit) as stop:
        Reproduce("maze2d-umaze", workers=0, baselines=False).run()
    assert stop.value.code == 130, "Ctrl-C in a part is Ctrl-C in the whole"


def test_everything_as_a_graph_divides_benchmarks_and_waits_for_what_each_needs(vhd_home, capsys) -> None:
    command = ["reproduce", "all", "--workers", "2", "--seeds", "100", "101", "--dry-run", "--json", "--quiet"]
    assert run(command) == 0
    steps = {entry["command"].removeprefix("vhd "): entry["needs"] for entry in json.loads(capsys.readouterr().out)}
    known = set(steps) | {name.removesuffix(end) for name in steps for end in (" --threads 1", " --workers 1")}
    assert all(need in known for needs in steps.values() for need in needs)
    for name in environments():
        if get_environment(name).missing_extra is None:
            assert f"data get {name} --workers 1" in steps
    fixed = steps["train planner maze2d-umaze --horizon 64 --threads 1"]
    assert fixed == ["data get maze2d-umaze"]
    bench = "bench maze2d-umaze --weights trained --n 1000 --out results --methods {} --seeds 101 --workers 1"
    assert steps[bench.format("fh-h1")] == [
        "data get maze2d-umaze", "train length maze2d-umaze", "train planner maze2d-umaze --horizon 64",
    ]  # fmt: skip
    calibrate = "calibrate maze2d-umaze --weights trained"
    assert calibrate in steps[bench.format("vhd")]
    assert steps[f"{calibrate} --workers 1"] == [
        "data get maze2d-umaze", "train length maze2d-umaze", "train planner maze2d-umaze",
    ]  # fmt: skip
    assert "train planner maze2d-umaze" in steps[bench.format("vhd")]
    assert all(name in steps["report results"] for name in [bench.format("vhd").removesuffix(" --workers 1")])
    for step in steps:
        parse(step.split()[0], step.split()[1:])
