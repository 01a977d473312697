"""Regenerate a dataset on all cores, chunk by chunk.

A chunk is drawn from a generator seeded by (seed, chunk number), so the bytes do not depend on the
number of workers; it is written as it is finished, so a stopped build goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from vhdiffuser.data.store import Dataset, dataset_path
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, require_space
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

VERSION = 1
"""Raise it when a builder's output changes, so that old chunks are not mixed with new ones."""

CHUNKS = {"maze2d": 50_000, "antmaze": 10_000, "cube": 5_000}
"""Transitions that a worker makes at a time: some seconds of work, and whole episodes."""

Parts = list[tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class BuildConfig:
    """What to regenerate."""

    size: int | None = None
    """Transitions; the official set's number by default."""
    seed: int = 0
    """Same seed and size, same bytes."""
    workers: int | None = None
    """Processes; all cores by default."""


def build(spec: EnvSpec, config: BuildConfig, progress: Callable[[int, int], None]) -> Dataset:
    """The regenerated dataset; `progress` is called with transitions done and in all."""
    size = config.size if config.size is not None else spec.transitions
    if size < spec.T_max:
        raise DataError(
            f"--size {size} is less than one plan of T_max = {spec.T_max} states for {spec.name}. "
            f"Allowed: {spec.T_max} or more; the full set has {spec.transitions:,}."
        )
    chunk = chunk_size(spec)
    _builder(spec)  # a missing extra is said here, and not by a worker
    folder = _folder(spec, size, config.seed)
    require_space(folder, 8 * size * (spec.observation_dim + spec.action_dim))
    sizes = [min(chunk, size - begin) for begin in range(0, size, chunk)]
    paths = [folder / f"chunk-{number:05d}.safetensors" for number in range(len(sizes))]
    waiting = [number for number, path in enumerate(paths) if not path.exists()]
    done = size - sum(sizes[number] for number in waiting)
    progress(done, size)

    workers = min(config.workers or os.cpu_count() or 1, max(len(waiting), 1))
    # Workers are started afresh ("spawn"): forking a process that has run torch or MuJoCo threads may hang.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare_worker)
    try:
        jobs: dict[Future[None], int] = {
            pool.submit(_write_chunk, spec, sizes[number], config.seed, number, paths[number]): number
            for number in waiting
        }
        for job in as_completed(jobs):
            job.result()
            done += sizes[jobs[job]]
            progress(done, size)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    parts: Parts = []
    for path in paths:
        parts += _read_chunk(path)
    return Dataset(spec, Episodes.from_parts(parts), "build", {"size": size, "seed": config.seed})


def forget_chunks(spec: EnvSpec) -> None:
    """Delete the chunks of builds of this environment, once the whole is saved."""
    shutil.rmtree(dataset_path(spec.name).parent / "building", ignore_errors=True)


def chunk_size(spec: EnvSpec) -> int:
    """Transitions of one chunk."""
    if spec.family not in CHUNKS:
        raise DataError(f"{spec.name} was imported and cannot be built. Use `vhd data import`.")
    return CHUNKS[spec.family]


def build_chunk(spec: EnvSpec, transitions: int, rng: np.random.Generator) -> Parts:
    """Episodes of exactly `transitions` transitions in all."""
    return _builder(spec)(transitions, rng)


def _builder(spec: EnvSpec) -> Callable[[int, np.random.Generator], Parts]:
    if spec.family == "maze2d":
        from vhdiffuser.data import build_maze2d

        return partial(build_maze2d.build_chunk, spec.name.removeprefix("maze2d-"))
    if spec.family == "antmaze":
        from vhdiffuser.data import build_antmaze

        return build_antmaze.build_chunk
    from vhdiffuser.data import build_cube

    return build_cube.build_chunk


def _folder(spec: EnvSpec, size: int, seed: int) -> Path:
    key = hashlib.sha256(repr((VERSION, spec.name, size, seed)).encode()).hexdigest()[:12]
    return dataset_path(spec.name).parent / "building" / key


def _prepare_worker() -> None:
    """Ctrl-C reaches every process of the terminal; the parent alone decides what it means. Nobody draws here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["MUJOCO_GL"] = "disabled"


def _write_chunk(spec: EnvSpec, transitions: int, seed: int, number: int, path: Path) -> None:
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    arrays = {}
    for index, (states, actions) in enumerate(build_chunk(spec, transitions, rng)):
        arrays[f"states.{index}"], arrays[f"actions.{index}"] = states, actions
    with atomic_path(path) as temporary:
        save_file(arrays, temporary)


def _read_chunk(path: Path) -> Parts:
    try:
        arrays = load_file(path)
        return [(arrays[f"states.{i}"], arrays[f"actions.{i}"]) for i in range(len(arrays) // 2)]
    except (SafetensorError, OSError, KeyError) as error:
        path.unlink(missing_ok=True)
        raise DataError(f"{path}: a damaged chunk ({error}); it was deleted. Run the command again.") from error
