"""Every test has its own cache folder, so that none harms the user's; what needs an absent extra is skipped."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


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


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def d4rl_samples() -> Path:
    if not (SHARED / "maze2d-umaze-sparse-v1.20k.hdf5").exists():
        pytest.skip("the D4RL samples are not beside this checkout (they are not ours to ship)")
    return SHARED
