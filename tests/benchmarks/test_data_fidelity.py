"""The script that compares regenerated data with D4RL's: what it reads of a file, and when it is content."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from d4rl_files import d4rl_file, write_hdf5

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
    with pytest.raises(DataError, match="umaze, medium, large"):
        script.official_statistics(tmp_path / "mine.hdf5")


def test_path_lengths_are_counted_in_cells(script: ModuleType, tmp_path: Path) -> None:
    """Targets at cells (1, 1), (3, 1), (3, 1) and (3, 3): through the whole U, no way at all, along its foot."""
    places = np.concatenate([np.linspace(a, b, 31) for a, b in (((1, 1), (3, 1)), ((3, 1), (3, 1)), ((3, 1), (3, 3)))])
    states = np.concatenate([places, np.zeros_like(places)], axis=1).astype(np.float32)
    marks = np.isin(np.arange(len(states)), [0, 30, 61, 92])
    path = write_hdf5(tmp_path / "umaze.hdf5", observations=states, actions=states[:, 2:], timeouts=marks)
    _, statistics, mix = script.official_statistics(path)
    assert mix == {6: 1, 0: 1, 2: 1}
    assert statistics["segment"] == pytest.approx(92 / 3)


def test_the_verdict_is_the_exit_code(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "maze2d-umaze-sparse-v1.hdf5"
    states, _ = d4rl_file(path, rows=5001)
    d4rl_file(path.with_name("fast-umaze.hdf5"), rows=5001, infos__qvel=1.3 * states[:, 2:])
    fast = states * np.float32([1, 1, 1.3, 1.3])
    actions = np.random.default_rng(0).normal(0, 0.7, (5000, 2))
    save_dataset(Dataset(get_spec("maze2d-umaze"), Episodes.from_parts([(fast, actions)]), "build"))
    for name, verdict in (("fast-umaze.hdf5", "ok"), (path.name, "MISSED"), (None, "MISSED")):
        code = call(script, monkeypatch, *(("--official", str(tmp_path / name)) if name else ()))
        lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
        assert lines["std"].endswith(verdict), name
        assert verdict == "ok" or code == 1


def test_without_data_it_says_how_to_get_it(script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert call(script, monkeypatch) == 0
    assert "vhd data get maze2d-umaze" in capsys.readouterr().out
