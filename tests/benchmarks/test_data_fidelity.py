"""The script that compares regenerated data with D4RL's: what it reads of a file, and when it is content."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from d4rl_files import d4rl_file

from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError
from vhdiffuser.types import Episodes

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("data_fidelity")


def call(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", [script.__name__, *options])
    monkeypatch.setattr(script, "segments", partial(script.segments, steps=5000))
    return script.main()


def test_an_official_file_is_measured(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "maze2d-umaze-sparse-v1.hdf5"
    states, changes = d4rl_file(path)
    maze, statistics, mix = script.official_statistics(path)
    assert maze == "umaze"
    np.testing.assert_allclose(statistics["mean"], states.mean(0, dtype=np.float64), atol=1e-6)
    np.testing.assert_allclose(statistics["std"], states.std(0, dtype=np.float64), atol=1e-6)
    np.testing.assert_allclose(statistics["speed quartiles"][1], np.median(np.hypot(*states[:, 2:].T)), atol=1e-6)
    assert statistics["segment"] == pytest.approx((changes[-1] - changes[0]) / (len(changes) - 1))
    assert sum(mix.values()) == len(changes) - 1
    assert max(mix) <= 6, "cells of the umaze are at most 6 apart"
    with pytest.raises(DataError, match="umaze, medium, large"):
        script.official_statistics(tmp_path / "mine.hdf5")


def test_path_lengths_are_counted_in_cells(script: ModuleType) -> None:
    ends = [(1, 1), (3, 1), (3, 1), (3, 3)]  # through the whole U, not at all, along its foot
    assert script.steps_apart("umaze", ends).tolist() == [6, 0, 2]


def test_the_verdict_is_the_exit_code(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "maze2d-umaze-sparse-v1.hdf5"
    states, _ = d4rl_file(path, rows=5001)
    for scale, verdict in ((1.0, "ok"), (1.1, "MISSED")):
        parts = [(scale * states, np.random.default_rng(0).normal(0, 0.7, (5000, 2)))]
        save_dataset(Dataset(get_spec("maze2d-umaze"), Episodes.from_parts(parts), "build"))
        call(script, monkeypatch, "--official", str(path))
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
        assert lines["mean"].endswith(verdict)
        assert lines["std"].endswith(verdict)
    assert call(script, monkeypatch) == 1, "a few thousand steps have not the published statistics"
    assert "MISSED" in capsys.readouterr().out


def test_without_data_it_says_how_to_get_it(script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert call(script, monkeypatch) == 0
    assert "vhd data get maze2d-umaze" in capsys.readouterr().out
