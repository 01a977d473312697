"""Every test has its own cache folder, so that none reads or harms the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def vhd_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("VHD_HOME", str(folder))
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
