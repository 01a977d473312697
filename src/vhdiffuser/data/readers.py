"""Readers for D4RL's HDF5, OGBench's npz, Minari, and custom npz or HDF5 files.

A custom file holds the rows of one episode after another:

    observations  (N, o)            required
    actions       (N, m)            optional; row t leads from row t to row t+1
    and one of these, to mark where episodes end
    episode_ends  (E,) integers     index one past the last row of each episode
    terminals / timeouts  (N,)      true on the last row of an episode (either one or both)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import LARGEST
from vhdiffuser.errors import DataError, needs_extra
from vhdiffuser.reading import read_arrays, read_hdf5, read_npz
from vhdiffuser.types import BoolArray, Episodes, FloatArray, IntArray

OGBENCH_HOSTS = (
    "https://rail.eecs.berkeley.edu/datasets/ogbench/",
    "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main/",
)
"""URL prefixes of OGBench's files: the original and a mirror."""
MAZE2D_LARGEST_STEP = 0.2
"""maze2d moves at most 0.06 per step; a larger jump than this is a reset."""


def read_d4rl_maze2d(path: Path) -> Episodes:
    """Read D4RL's maze2d: one continuous trajectory whose `timeouts` mark new targets, not resets.

    D4RL repeats an observation after each change of target while the ball moves on; `infos/qpos` and `infos/qvel` hold
    the true state and are used if present.
    """
    fields = read_hdf5(path, required=("observations", "actions"), optional=("infos/qpos", "infos/qvel"))
    fields = {name: _rows(path, name, values) for name, values in fields.items()}
    if len({len(values) for values in fields.values()}) > 1:
        raise DataError(f"{path}: its fields have different numbers of rows. Download it again.")
    states, actions = fields["observations"], fields["actions"]
    _require_columns(path, "observations", states, 4)
    _require_columns(path, "actions", actions, 2)
    if "infos/qpos" in fields and "infos/qvel" in fields:
        states = np.concatenate([fields["infos/qpos"], fields["infos/qvel"]], axis=1)
        _require_columns(path, "infos/qpos with infos/qvel", states, 4)
    jumps = np.flatnonzero(np.abs(np.diff(states[:, :2], axis=0)).max(axis=1) > MAZE2D_LARGEST_STEP)
    return _episodes(path, states, actions, np.append(jumps + 1, len(states)))


def read_ogbench(paths: list[Path]) -> Episodes:
    """Read and concatenate OGBench's npz files (train, then val)."""
    parts = []
    for path in paths:
        fields = read_npz(path, required=("observations", "actions", "terminals"))
        ends = np.flatnonzero(_flags(path, "terminals", fields["terminals"])) + 1
        states, actions = (_rows(path, name, fields[name]) for name in ("observations", "actions"))
        episodes = _episodes(path, states, actions, ends)
        parts += [episodes.episode(number) for number in range(len(episodes))]
    return Episodes.from_parts(parts)


def read_ogbench_file(path: Path) -> Episodes:
    """Read an OGBench file, and its validation file if that is in the same folder."""
    validation = path.with_name(path.stem + "-val" + path.suffix)
    return read_ogbench([path, validation] if validation.exists() else [path])


def read_own(path: Path) -> Episodes:
    """Read a custom `.npz` or `.hdf5`/`.h5` file in the layout described at the top of this module."""
    optional = ("actions", "episode_ends", "terminals", "timeouts")
    fields = read_arrays(path, required=("observations",), optional=optional)
    states = _rows(path, "observations", fields["observations"])
    actions = _rows(path, "actions", fields.get("actions", np.zeros((len(states), 0), np.float32)))
    if "episode_ends" in fields:
        ends = _whole_numbers(path, "episode_ends", fields["episode_ends"])
    else:
        marks = [_flags(path, key, fields[key]) for key in ("terminals", "timeouts") if key in fields]
        if not marks:
            raise DataError(
                f"{path}: nothing marks where episodes end. Add 'episode_ends' (index one past each episode's "
                "last row), or 'terminals'/'timeouts' (true on last rows)."
            )
        if any(len(mark) != len(states) for mark in marks):
            raise DataError(f"{path}: 'terminals'/'timeouts' must have as many rows as 'observations' ({len(states)}).")
        ends = np.flatnonzero(np.logical_or.reduce(marks)) + 1
        if len(ends) == 0 or ends[-1] != len(states):
            ends = np.append(ends, len(states))
    return _episodes(path, states, actions, ends)


def read_minari(dataset_id: str) -> Episodes:
    """Read a Minari dataset by id, from Minari's local cache or by download."""
    with needs_extra("minari", "reading Minari datasets"):
        import minari
    try:
        dataset = minari.load_dataset(dataset_id, download=True)
    except Exception as error:  # Minari passes on any error of its storage or the network
        raise DataError(f"Minari dataset '{dataset_id}' cannot be loaded ({error}).") from error
    parts = []
    try:
        for episode in dataset.iterate_episodes():
            states = episode.observations
            if isinstance(states, dict):  # goal environments store the state under this key
                states = states.get("observation")
            if not isinstance(states, np.ndarray) or states.ndim != 2 or np.asarray(episode.actions).ndim != 2:
                raise DataError(f"Minari dataset '{dataset_id}': observations and actions must be vectors.")
            parts.append((states.astype(np.float32), np.asarray(episode.actions, np.float32)))
        return Episodes.from_parts(parts)
    except DataError:
        raise
    except Exception as error:  # as above
        raise DataError(f"Minari dataset '{dataset_id}': damaged ({error}). Download it again.") from error


def _episodes(path: Path, states: FloatArray, actions: FloatArray, ends: IntArray) -> Episodes:
    """Build validated episodes; errors name the file."""
    if ends.size and (np.diff(ends, prepend=0) <= 0).any():
        raise DataError(f"{path}: 'episode_ends' must be positive and increasing; got {ends[:5].tolist()}...")
    actions = np.array(actions, np.float32)  # a copy: leave the caller's last rows unchanged
    if len(actions) == len(states):
        actions[ends[ends <= len(actions)] - 1] = 0.0
    try:
        return Episodes(np.ascontiguousarray(states, np.float32), actions, ends.astype(np.int64))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _rows(path: Path, field: str, values: npt.NDArray[Any]) -> FloatArray:
    """(N, k) numbers that fit into float32."""
    if values.ndim != 2:
        raise DataError(f"{path}: field '{field}' must be 2-D (rows and columns); got shape {values.shape}.")
    if (np.isfinite(values) & (np.abs(values) > LARGEST)).any():
        raise DataError(f"{path}: field '{field}' has values beyond {LARGEST:g}, which cannot be measurements.")
    return values.astype(np.float32, copy=False)


def _whole_numbers(path: Path, field: str, values: npt.NDArray[Any]) -> IntArray:
    """(E,) whole numbers."""
    if values.ndim != 1 or values.dtype.kind == "b":
        raise DataError(f"{path}: field '{field}' must be a list of whole numbers; got {values.dtype} {values.shape}.")
    if values.size and not (np.isfinite(values).all() and np.abs(values).max() < 2**53 and (values % 1 == 0).all()):
        raise DataError(f"{path}: field '{field}' must be whole numbers; got {values[:5].tolist()}...")
    return values.astype(np.int64)


def _flags(path: Path, field: str, values: npt.NDArray[Any]) -> BoolArray:
    """(N,) booleans; (N, 1) is accepted as (N,)."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(f"{path}: field '{field}' must have one value per row; got shape {values.shape}.")
    return values.astype(bool)


def _require_columns(path: Path, field: str, values: FloatArray, columns: int) -> None:
    if values.ndim != 2 or values.shape[1] != columns:
        raise DataError(f"{path}: field '{field}' must have {columns} columns; got shape {values.shape}.")
