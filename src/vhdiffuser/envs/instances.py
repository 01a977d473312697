"""Test instances: drawn by seed and shared by all methods, or user-defined pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vhdiffuser.envs.base import InstanceSource
from vhdiffuser.envs.checked import draw_instance
from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import is_file
from vhdiffuser.reading import read_hdf5, read_npz
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance

_KEYS = ("start_state", "goal_pos")


def draw_instances(env: InstanceSource, n: int, seed: int, distribution: str = "reset") -> list[Instance]:
    """n random instances. Each has its own stream, so the first 200 of 1000 are the same as 200 of 200."""
    if n < 1:
        raise VhdError(f"at least 1 instance is required; got {n}.")
    if seed < 0:
        raise VhdError(f"the seed must be >= 0; got {seed}.")
    streams = (np.random.default_rng(stream("instance", seed, number)) for number in range(n))
    return [draw_instance(env, rng, distribution) for rng in streams]


def load_instances(path: Path, env: InstanceSource) -> list[Instance]:
    """Load pairs from an npz or HDF5 file with `start_state` (N, d) and `goal_pos` (N, goal_dim), validated."""
    if not is_file(path):
        raise DataError(f"{path}: no such file. It must be npz or HDF5 with `start_state` and `goal_pos`.")
    read = read_npz if path.suffix == ".npz" else read_hdf5
    arrays = read(path, _KEYS, mend="It must have `start_state` and `goal_pos`.")
    starts, goals = (arrays[key] for key in _KEYS)
    for name, array in zip(_KEYS, (starts, goals), strict=True):
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.number):
            raise DataError(f"{path}: `{name}` must be a 2-D array of numbers; got {array.dtype} {array.shape}.")
    if len(starts) != len(goals) or len(starts) == 0:
        raise DataError(
            f"{path}: {len(starts)} starts but {len(goals)} goals; equal numbers, at least one each, are required."
        )
    instances = []
    for number, (start, goal) in enumerate(zip(starts, goals, strict=True)):
        instance = Instance(start.astype(np.float32), goal.astype(np.float32), number)
        try:
            env.check(instance)
        except VhdError as error:
            raise DataError(f"{path}, pair {number}: {error}") from error
        instances.append(instance)
    return instances


def check_ends(spec: EnvSpec, start: FloatArray, goals: Sequence[FloatArray]) -> None:
    """Raise `VhdError` if a start or goals (goal dimensions or full states) are not in the simulator's free space."""
    environment = find_environment(spec.name)
    if environment is None or environment.simulator is None:
        return
    env = environment.make()
    for goal in goals:
        env.check(Instance(start, spec.goal_of(goal) if len(goal) == spec.state_dim else goal, 0))
