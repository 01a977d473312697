"""Readers of data files: D4RL's HDF5, OGBench's npz, Minari, and a user's own npz or HDF5.

A user's own file holds, row by row and episode after episode,

    observations  (N, o)            required
    actions       (N, m)            optional; row t leads from row t to row t+1
    and where episodes end, as one of
    episode_ends  (E,) integers     index one past the last row of each episode
    terminals / timeouts  (N,)      true on the last row of an episode (either one or both)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError, needs_extra
from vhdiffuser.types import Episodes, FloatArray, IntArray

OGBENCH_HOSTS = (
    "https://rail.eecs.berkeley.edu/datasets/ogbench/",
    "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main/",
)
"""Where OGBench's files are, and a mirror of them."""
MAZE2D_LARGEST_STEP = 0.2
"""maze2d moves at most 0.06 per step; anything above this is a reset, not motion."""


def read_d4rl_maze2d(path: Path) -> Episodes:
    """D4RL's maze2d: one physical stream, whose `timeouts` mark new targets, not resets.

    D4RL repeats an observation after each change of target while the ball moves on;
    `infos/qpos` and `infos/qvel` hold its true state, so they are used if present.
    """
    fields = _read_hdf5(path, required=("observations", "actions"), optional=("infos/qpos", "infos/qvel"))
    states, actions = fields["observations"], fields["actions"]
    _require_columns(path, "observations", states, 4)
    _require_columns(path, "actions", actions, 2)
    if "infos/qpos" in fields and "infos/qvel" in fields:
        states = np.concatenate([fields["infos/qpos"], fields["infos/qvel"]], axis=1)
        _require_columns(path, "infos/qpos with infos/qvel", states, 4)
    jumps = np.flatnonzero(np.abs(np.diff(states[:, :2], axis=0)).max(axis=1) > MAZE2D_LARGEST_STEP)
    return _episodes(path, states, actions, np.append(jumps + 1, len(states)))


def read_ogbench(paths: list[Path]) -> Episodes:
    """OGBench's npz files (train, then val), concatenated."""
    parts = []
    for path in paths:
        fields = _read_npz(path, required=("observations", "actions", "terminals"))
        ends = np.flatnonzero(fields["terminals"]) + 1
        episodes = _episodes(path, fields["observations"], fields["actions"], ends)
        parts += [episodes.episode(number) for number in range(len(episodes))]
    return Episodes.from_parts(parts)


def read_ogbench_file(path: Path) -> Episodes:
    """An OGBench file, with its validation file if that is in the same folder."""
    validation = path.with_name(path.stem + "-val" + path.suffix)
    return read_ogbench([path, validation] if validation.exists() else [path])


def read_own(path: Path) -> Episodes:
    """A user's own `.npz` or `.hdf5`/`.h5` in the layout at the top of this file."""
    optional = ("actions", "episode_ends", "terminals", "timeouts")
    readers: dict[str, Callable[..., dict[str, npt.NDArray[Any]]]] = {
        ".npz": _read_npz,
        ".hdf5": _read_hdf5,
        ".h5": _read_hdf5,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown file type. Allowed: {', '.join(readers)}.")
    fields = reader(path, required=("observations",), optional=optional)
    states = fields["observations"]
    actions = fields.get("actions", np.zeros((len(states), 0), np.float32))
    if "episode_ends" in fields:
        ends = fields["episode_ends"].astype(np.int64)
    else:
        marks = [fields[key].astype(bool) for key in ("terminals", "timeouts") if key in fields]
        if not marks:
            raise DataError(
                f"{path}: nothing says where episodes end. Add 'episode_ends' (index one past the last row of each), "
                "or 'terminals'/'timeouts' (true on last rows)."
            )
        if any(len(mark) != len(states) for mark in marks):
            raise DataError(f"{path}: 'terminals'/'timeouts' must have as many rows as 'observations' ({len(states)}).")
        ends = np.flatnonzero(np.logical_or.reduce(marks)) + 1
        if len(ends) == 0 or ends[-1] != len(states):
            ends = np.append(ends, len(states))
    return _episodes(path, states, actions, ends)


def read_minari(dataset_id: str) -> Episodes:
    """A Minari dataset by id, from Minari's local cache or downloaded by Minari."""
    with needs_extra("minari", "reading Minari datasets"):
        import minari
    try:
        dataset = minari.load_dataset(dataset_id, download=True)
    except Exception as error:  # Minari raises whatever its storage or the network raised
        raise DataError(f"Minari dataset '{dataset_id}' could not be loaded ({error}).") from error
    parts = []
    for episode in dataset.iterate_episodes():
        states = episode.observations
        if isinstance(states, dict):  # goal environments keep the state under this key
            states = states.get("observation")
        if not isinstance(states, np.ndarray) or states.ndim != 2 or np.asarray(episode.actions).ndim != 2:
            raise DataError(f"Minari dataset '{dataset_id}': observations and actions must be vectors per step.")
        parts.append((states.astype(np.float32), np.asarray(episode.actions, np.float32)))
    return Episodes.from_parts(parts)


def _episodes(path: Path, states: FloatArray, actions: FloatArray, ends: IntArray) -> Episodes:
    """Validated episodes; errors name the file."""
    if ends.size and (np.diff(ends, prepend=0) <= 0).any():
        raise DataError(f"{path}: 'episode_ends' must be positive and increasing, got {ends[:5].tolist()}...")
    actions = np.array(actions, np.float32)  # a copy: the caller's last rows stay as they are
    if len(actions) == len(states):
        actions[ends[ends <= len(actions)] - 1] = 0.0
    try:
        return Episodes(np.ascontiguousarray(states, np.float32), actions, ends.astype(np.int64))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _require_columns(path: Path, field: str, values: FloatArray, columns: int) -> None:
    if values.ndim != 2 or values.shape[1] != columns:
        raise DataError(f"{path}: field '{field}' must have {columns} columns, got shape {values.shape}.")


def _read_npz(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, npt.NDArray[Any]]:
    _require_file(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            _require_fields(path, required, list(file))
            return {key: file[key] for key in (*required, *optional) if key in file}
    except DataError:
        raise
    except Exception as error:  # numpy raises zipfile, zlib, pickle and value errors for damaged files
        raise DataError(f"{path}: damaged, truncated or not an npz file ({error}). Get it again.") from error


def _read_hdf5(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, npt.NDArray[Any]]:
    import h5py  # here: it would double the time to import this package

    _require_file(path)
    try:
        with h5py.File(path, "r") as file:
            names: list[str] = []
            file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
            _require_fields(path, required, names)
            return {key: file[key][()] for key in (*required, *optional) if key in names}
    except OSError as error:
        raise DataError(f"{path}: damaged, truncated or not an HDF5 file ({error}). Get it again.") from error


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: no such file.")


def _require_fields(path: Path, required: tuple[str, ...], present: list[str]) -> None:
    missing = [key for key in required if key not in present]
    if missing:
        raise DataError(f"{path}: field(s) {', '.join(missing)} missing. It has: {', '.join(present) or 'none'}.")
