"""Data for point mazes with custom maps, available by name to all commands."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path

from vhdiffuser.data.build import BuildConfig, forget_chunks
from vhdiffuser.data.store import Dataset, require_new, save_dataset, writing_dataset
from vhdiffuser.envs.datasets import OnProgress, build_dataset
from vhdiffuser.envs.maze2d.environments import make_maze
from vhdiffuser.envs.maze2d.maze import Maze
from vhdiffuser.envs.registry import environments
from vhdiffuser.errors import DataError


def build_maze(
    name: str,
    maze: Maze,
    config: BuildConfig,
    *,
    epsilon: float | None = None,
    T_max: int | None = None,
    replace: bool = False,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """Build and save a maze's data together with its map. `epsilon` and `T_max` as in `make_maze`."""
    if name in environments():
        raise DataError(f"'{name}' is a registered environment: choose another name for your maze.")
    require_new(name, replace)
    environment = make_maze(maze, name, epsilon=epsilon, T_max=T_max)
    with writing_dataset(name):
        dataset = build_dataset(environment, config, on_progress)
        dataset = changed(dataset, details={**dataset.details, "maze": list(maze.rows)})
        save_dataset(dataset)
        forget_chunks(dataset, environment.builder)
    return dataset


def read_maze(path: Path) -> Maze:
    """Read a maze from a text file."""
    try:
        return Maze.of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable text file ({error}).") from error
