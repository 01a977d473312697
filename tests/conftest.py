"""Every test has its own cache folder and begins with one torch thread; what needs an absent extra is skipped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from vhdiffuser.control.base import CONTROLLERS
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.envs import registry


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("ogbench") is None:
        for item in items:
            if item.get_closest_marker("ogbench"):
                item.add_marker(pytest.mark.skip(reason="needs the extra 'ogbench'"))


@pytest.fixture(autouse=True)
def vhd_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("VHD_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers, and the files that it imports, are forgotten after it."""
    ids = set(gymnasium.registry)
    for kept in (registry._environments, CONTROLLERS, SAMPLERS):
        monkeypatch.setattr(kept, "_values", dict(kept._values))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in set(gymnasium.registry) - ids:
        if name.startswith("vhdiffuser/"):
            gymnasium.registry.pop(name)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """The networks of tests are slower on two threads than on one, and many times so where others use the cores.

    Commands that are tested as processes of their own choose for themselves, as for a user.
    """
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def trained_umaze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with a little umaze data, a planner and a Length Predictor of three updates; to be copied."""
    from vhdiffuser.cli import run

    home, env = tmp_path_factory.mktemp("trained"), "maze2d-umaze"
    loop = ["--threads", "1", "--quiet", "--updates", "3", "--log-every", "1", "--warmup", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(home))
        assert run(["data", "get", env, "--source", "build", "--size", "5000", "--quiet"]) == 0
        assert run(["train", "planner", env, "--dim", "8", "--batch-size", "4", *loop]) == 0
        assert run(["train", "length", env, *loop]) == 0
    return home


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
