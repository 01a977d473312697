"""The trial of versions: its steps, its table, and what it says where something cannot be tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check_versions


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have been run; the compiled versions are torch's alone, pytest fails."""
    commands: list[list[str]] = []

    def run(command: list[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if "compile" in command:
            assert Path(command[command.index("--constraint") + 1]).read_text() == "numpy==2.1.0"
            Path(command[-1]).write_text("# made up\ntorch==2.6.0\n    # via vhdiffuser\n")
        failed = "pytest" in command
        return subprocess.CompletedProcess(command, int(failed), "F\n=== 1 failed, 2 passed in 3s ===\n", "")

    monkeypatch.setattr(check_versions, "_run", run)
    monkeypatch.setattr(check_versions, "find_python", lambda version: None if version == "3.14" else "python")
    return commands


@pytest.mark.parametrize(("versions", "resolution"), [("oldest", "lowest-direct"), ("newest", "highest")])
def test_versions_are_resolved_then_held_while_the_tests_run(ran, versions, resolution) -> None:
    trial = check_versions.attempt("3.10", versions, ("web",), ["numpy==2.1.0"], [], ["-x"])
    assert (trial.passed, trial.outcome, trial.installed) == (False, "1 failed, 2 passed in 3s", "torch 2.6.0")
    _, resolve, install, tools, tests = ran
    assert resolve[resolve.index("--resolution") + 1] == resolution
    assert install[-1] == tools[tools.index("--constraint") + 1] == resolve[-1]
    assert tools[-1] == ".[web,dev]"
    assert tests[-1] == "-x"
    assert not Path(resolve[-1]).parent.exists(), "the environment is deleted"


def test_a_python_that_is_not_there_is_not_tried(ran) -> None:
    trial = check_versions.attempt("3.14", "newest", (), [], [], [])
    assert not ran
    assert trial.passed is None
    assert check_versions.table([trial]).splitlines()[-1] == (
        "| 3.14 | newest | not tried | no such Python on this machine |  |"
    )
