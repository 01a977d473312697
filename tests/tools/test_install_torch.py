"""Which program is asked to install which build of torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import install_torch


class Programs:
    """pip and uv, pretended: what was run is kept in `ran`."""

    def __init__(self, brings: list[str], uv_works: bool = True) -> None:
        self.brings, self.uv_works, self.ran = brings, uv_works, []

    def __call__(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        program, rest = command[2], command[3:]
        self.ran.append(" ".join([program, *rest]))
        if "--dry-run" in rest:
            report = {"install": [{"metadata": {"name": name}} for name in ["torch", *self.brings]]}
            return subprocess.CompletedProcess(command, 0, json.dumps(report), "")
        if program == "uv" and not self.uv_works:
            return subprocess.CompletedProcess(command, 2, "", "error\n  cause: no such host\n")
        return subprocess.CompletedProcess(command, 0, "", "")

    @property
    def installed_by(self) -> str:
        return self.ran[-1].split()[0]


def install(monkeypatch: pytest.MonkeyPatch, build: str, programs: Programs) -> Programs:
    monkeypatch.setattr(subprocess, "run", programs)
    install_torch.install(build)
    return programs


@pytest.mark.parametrize(("build", "brings"), [("cpu", ["numpy"]), ("cuda", ["nvidia-cublas-cu12", "triton"])])
def test_pip_installs_what_it_has(monkeypatch, build, brings) -> None:
    programs = install(monkeypatch, build, Programs(brings))
    assert programs.installed_by == "pip"
    assert not [line for line in programs.ran if "uv" in line.split()]


@pytest.mark.parametrize(("build", "brings", "backend"), [("cpu", ["NVIDIA-nccl-cu13"], "cpu"), ("cuda", [], "auto")])
def test_uv_gets_the_build_that_pip_has_not(monkeypatch, build, brings, backend) -> None:
    programs = install(monkeypatch, build, Programs(brings))
    assert programs.installed_by == "uv"
    assert f"--torch-backend {backend}" in programs.ran[-1]
    assert "constraints.txt" in programs.ran[-1]


def test_where_the_cpu_build_cannot_be_reached_it_is_said_and_pips_is_taken(monkeypatch, capsys) -> None:
    programs = install(monkeypatch, "cpu", Programs(["triton"], uv_works=False))
    assert programs.installed_by == "pip"
    assert "--dry-run" not in programs.ran[-1]
    assert "cpu build could not be had (cause: no such host); installing pip's" in capsys.readouterr().err


def test_a_pip_that_fails_ends_it_with_its_words(monkeypatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "No matching distribution found")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: failed)
    with pytest.raises(SystemExit, match="No matching distribution found"):
        install_torch.install("cpu")
