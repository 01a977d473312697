"""Datasets by name: built once, found again, never mixed up."""

from __future__ import annotations

import numpy as np
import pytest

import vhdiffuser
from vhdiffuser.data.build import BuildConfig
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs import datasets
from vhdiffuser.envs.datasets import get_dataset
from vhdiffuser.envs.importing import save_import
from vhdiffuser.envs.maze2d.maze import Maze
from vhdiffuser.envs.maze2d.own_maze import build_maze
from vhdiffuser.errors import DataError, UnknownNameError, VhdWarning


def test_get_builds_tells_and_finds_again() -> None:
    told: list[tuple[str, int, int, str]] = []
    built = vhdiffuser.get_dataset(
        "maze2d-umaze", "build", size=1000, workers=1, on_progress=lambda *told_now: told.append(told_now)
    )
    assert built.episodes.transitions == 1000
    assert told[-1] == ("building maze2d-umaze", 1000, 1000, "transitions")
    assert not (dataset_path("maze2d-umaze").parent / "building").exists(), "its chunks are deleted"
    told.clear()
    again = get_dataset("maze2d-umaze", on_progress=lambda *told_now: told.append(told_now))
    assert again.fingerprint() == built.fingerprint()
    assert not told


def test_a_cached_dataset_that_is_not_what_was_asked_for_is_refused() -> None:
    get_dataset("maze2d-umaze", "build", size=1000, workers=1)
    for wish in ({"size": 2000}, {"seed": 1}, {"source": "official"}):
        with pytest.raises(DataError, match="another maze2d-umaze dataset .maze2d-umaze: 1,000 transitions"):
            get_dataset("maze2d-umaze", **wish)
    other = get_dataset("maze2d-umaze", size=2000, workers=1, replace=True)
    assert other.episodes.transitions == 2000
    with pytest.raises(UnknownNameError, match="unknown source of data 'moon'. Known: auto, official, build"):
        get_dataset("maze2d-umaze", "moon")  # type: ignore[arg-type]


def test_auto_warns_and_builds_where_nothing_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object) -> None:
        raise DataError("the.host: not reached")

    monkeypatch.setattr(datasets, "get_official", unreachable)
    monkeypatch.setattr(datasets, "build_dataset", lambda environment, config, tell: (_ for _ in ()).throw(KeyError))
    with pytest.warns(VhdWarning, match="the.host: not reached.; building it instead"), pytest.raises(KeyError):
        get_dataset("maze2d-umaze")
    with pytest.raises(DataError, match="not reached. Try again later, or use --source build"):
        get_dataset("maze2d-umaze", "official")


def test_mazes_and_imports_do_not_overwrite(tmp_path) -> None:
    corridor = Maze.of(["#######", "#OOOOO#", "#######"])
    config = BuildConfig(size=400, workers=1)
    built = build_maze("corridor", corridor, config)
    assert built.details["maze"] == list(corridor.rows)
    assert vhdiffuser.load_dataset("corridor").fingerprint() == built.fingerprint()
    with pytest.raises(DataError, match="'maze2d-umaze' is a registered environment"):
        build_maze("maze2d-umaze", corridor, config)
    path = tmp_path / "log.npz"
    np.savez(path, observations=np.random.default_rng(0).normal(size=(60, 2)), episode_ends=[30, 60])
    for make in (lambda: build_maze("corridor", corridor, config), lambda: save_import("corridor", path)):
        with pytest.raises(DataError, match="a dataset 'corridor' already exists. Pass --replace"):
            make()
    assert save_import("corridor", path, replace=True).episodes.transitions == 58
