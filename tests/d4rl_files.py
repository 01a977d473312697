"""Small files of D4RL's layout, with its peculiarities."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from vhdiffuser.envs.maze2d.building import stream
from vhdiffuser.envs.maze2d.maze import UMAZE, Maze


def write_hdf5(path: Path, **fields: np.ndarray) -> Path:
    """A file of these fields; `infos__qpos` is `infos/qpos`."""
    with h5py.File(path, "w") as file:
        for key, value in fields.items():
            file[key.replace("__", "/")] = value
    return path


def d4rl_file(
    path: Path, maze: Maze = UMAZE, rows: int = 3000, **changes: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """A file of D4RL's layout: a new target at each timeout, and the observation before it repeated after it.

    Returns the states as they really were, and the rows at which the target changed.
    """
    states, actions, changes_at = stream(maze, 300, rows, np.random.default_rng(0))
    states, timeouts = states[:-1], np.isin(np.arange(rows), changes_at)
    observations = states.copy()
    for row in changes_at[changes_at < rows - 1]:
        observations[row + 1] = observations[row]  # D4RL's generator keeps its old one, twice if need be
    fields = {
        "observations": observations,
        "actions": actions,
        "infos__goal": np.zeros((rows, 2), np.float32),
        "infos__qpos": states[:, :2],
        "infos__qvel": states[:, 2:],
        "rewards": np.zeros(rows, np.float32),
        "terminals": np.zeros(rows, bool),
        "timeouts": timeouts,
        **changes,
    }
    write_hdf5(path, **{key: value for key, value in fields.items() if value is not None})
    return states, changes_at
