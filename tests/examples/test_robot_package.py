"""The example package is installed as a user would install it, and every command knows its robot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhdiffuser

PACKAGE = Path(__file__).resolve().parents[2] / "examples/my_robot_package"
SMALL = ("--dim", "8", "--dim-mults", "1", "2", "--batch-size", "16", "--diffusion-steps", "16")
LOOP = ("--updates", "5", "--warmup", "2", "--threads", "1")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder into which the package is installed, offline and from a copy: a build leaves files behind."""
    shutil.copytree(PACKAGE, tmp_path / "package")
    offline = ("--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check", "--quiet")
    target = ("--target", str(tmp_path / "site"), str(tmp_path / "package"))
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, *target], check=True)
    return tmp_path / "site"


class Shell:
    """Runs `vhd` as a process, with the installed package on the path and our package where this test has it."""

    def __init__(self, site: Path, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        ours = str(Path(vhdiffuser.__file__).parents[1])
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([ours, str(site)]),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "VHD_PRECISION": "fp32",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).with_name("vhd")), *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **pipes)

    def text(self, *arguments: str) -> str:
        process = self.start(*arguments)
        printed, errors = process.communicate(timeout=120)
        assert process.returncode == 0, f"vhd {' '.join(arguments)}: {errors[-3000:]}"
        return printed

    def json(self, *arguments: str) -> Any:
        return json.loads(self.text(*arguments, "--json"))


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}api/{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_every_command_works_with_a_robot_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs the extra 'web'")
    shell = Shell(installed, tmp_path / "work")

    (robot,) = [line for line in shell.text("envs").splitlines() if line.startswith("my-robot ")]
    assert "my_robot_pursuit, 0.1 s" in robot

    dry = shell.json("reproduce", "my-robot", "--workers", "0", "--dry-run", "--quiet")
    commands = [entry["command"] for entry in dry]
    assert commands[:3] == ["vhd data get my-robot", "vhd train length my-robot", "vhd train planner my-robot"]
    assert not any("dynamics" in command for command in commands), "its controller needs no model"

    data = ("data", "get", "my-robot", "--source", "build", "--size", "1500", "--workers", "1", "--quiet")
    assert shell.json(*data)["transitions"] == 1500
    shell.text("train", "length", "my-robot", *LOOP, "--length.batch", "64", "--quiet")
    shell.text("train", "planner", "my-robot", *LOOP, *SMALL, "--quiet")

    bench = ("bench", "my-robot", "--methods", "vhd", "--n", "2", "--workers", "1", "--quiet")
    assert [(cell["protocol"], cell["n"]) for cell in shell.json(*bench)] == [("ss", 2), ("rp", 2)]
    (length,) = shell.json("eval-length", "my-robot", "--pairs", "50", "--out", "length", "--quiet")
    assert length["environment"] == "my-robot"
    assert {path.name for path in (shell.folder / "length").iterdir()} == {
        "scatter.png",
        "calibration.png",
        "fields.png",
    }
    failures = shell.json("failures", "my-robot", "--workers", "1", "--out", "failures", "--quiet")
    assert failures["same_weights"]
    assert sum(failures["kinds"].values()) == failures["failures"] > 0, "5 updates do not plan"
    shell.text("report", "results")
    assert "my-robot" in (shell.folder / "results/report.md").read_text(encoding="utf-8")

    shell.text("models", "export", "my-robot", "--out", "models/my-robot", "--quiet")
    demo = shell.json("demo", "models/my-robot", "--n", "1", "--workers", "1", "--quiet")
    assert demo["environment"] == "my-robot"
    assert (shell.folder / demo["picture"]).is_file()

    server = shell.start("serve", "--source", "trained", "--port", "0", "--no-browser", "--json", "--quiet")
    try:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        assert told["models"] == ["my-robot"]
        entries = {entry["name"]: entry["ready"] for entry in ask(told["address"], "environments")}
        assert entries["my-robot"]
        pair = {"environment": "my-robot", "start": [0.5, 0.5], "goal": [5.5, 4.5]}
        plan = ask(told["address"], "plan", pair)["plan"]
        assert np.allclose(plan["states"][0][:2], pair["start"], atol=1e-3)
        assert np.allclose(plan["states"][-1][:2], pair["goal"], atol=1e-3)
    finally:
        server.terminate()
        server.communicate(timeout=30)


def test_its_controller_drives_its_cart_along_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that turns a corner, at 0.6 m/s: the cart ends where the path does, and never strays far."""
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    from my_robot.cart import SPEC, Cart  # type: ignore[import-not-found]
    from my_robot.steering import PursuitController  # type: ignore[import-not-found]

    from vhdiffuser.trajectories import Plan
    from vhdiffuser.types import Instance

    corner = np.concatenate([np.linspace([0.5, 0.5], [3.2, 0.5], 46), np.linspace([3.2, 0.5], [3.2, 3.2], 46)[1:]])
    states = np.pad(corner, ((0, 0), (0, 2))).astype(np.float32)
    plan, cart = Plan(states, states[-1, :2]), Cart()
    observation = cart.reset(Instance(states[0], states[-1, :2], 0))
    assert observation.shape == (SPEC.observation_dim,)
    strayed = []
    for index in range(len(states) + 10):
        action = PursuitController().act(observation[None], [plan], np.array([index]))[0]
        observation = cart.step(action)
        strayed.append(np.linalg.norm(corner - observation[:2], axis=1).min())
    assert np.linalg.norm(observation[:2] - corner[-1]) < 0.1
    assert max(strayed) < 0.2
