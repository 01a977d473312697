"""Regenerate a dataset on all cores, chunk by chunk.

Each chunk has a generator seeded by (seed, chunk number), so the bytes do not depend on the number of
workers. Chunks are written as they are finished, so an interrupted build continues where it stopped.
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
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from vhdiffuser.data.store import Dataset, dataset_path
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, require_space
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

VERSION = 1
"""Increase this when a builder's output changes, so that old chunks are not mixed with new ones."""

Parts = list[tuple[FloatArray, FloatArray]]
"""Episodes of (T, o) states and (T - 1, m) actions."""
ChunkMaker = Callable[[int, np.random.Generator], Parts]
"""(transitions, generator) -> episodes of exactly that many transitions in all."""


@dataclass(frozen=True)
class Builder:
    """How an environment's data is regenerated."""

    make: Callable[[], ChunkMaker]
    """Returns the function that makes chunks. Must be importable, since worker processes call it; it imports the
    simulator."""
    chunk: int
    """Transitions per chunk: a few seconds of work, and whole episodes."""
    transitions: int
    """Transitions of the full dataset."""
    key: str = ""
    """Identifies the chunks where the name does not suffice, e.g. the map of a custom maze."""


@dataclass(frozen=True)
class BuildConfig:
    """What to regenerate."""

    size: int | None = None
    """Transitions; the official set's number by default."""
    seed: int = 0
    """Same seed and size, same bytes."""
    workers: int | None = None
    """Processes; all cores by default."""


def build(spec: EnvSpec, builder: Builder | None, config: BuildConfig, progress: Callable[[int, int], None]) -> Dataset:
    """Regenerate the dataset; `progress` is called with (transitions done, total)."""
    if builder is None:
        raise DataError(f"{spec.name} was imported and cannot be built. Use `vhd data import`.")
    size = config.size if config.size is not None else builder.transitions
    if size < spec.T_max:
        raise DataError(
            f"--size {size} is less than one plan of T_max = {spec.T_max} states for {spec.name}. "
            f"Allowed: {spec.T_max} or more; the full set has {builder.transitions:,}."
        )
    builder.make()  # report a missing extra here, not from a worker
    folder = _folder(spec, builder, size, config.seed)
    require_space(folder, 8 * size * (spec.observation_dim + spec.action_dim))
    sizes = [min(builder.chunk, size - begin) for begin in range(0, size, builder.chunk)]
    paths = [folder / f"chunk-{number:05d}.safetensors" for number in range(len(sizes))]
    waiting = [number for number, path in enumerate(paths) if not path.exists()]
    done = size - sum(sizes[number] for number in waiting)
    progress(done, size)

    workers = min(config.workers or os.cpu_count() or 1, max(len(waiting), 1))
    # Start workers with "spawn": forking a process that has run torch or MuJoCo threads may hang.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare_worker)
    try:
        jobs: dict[Future[None], int] = {
            pool.submit(_write_chunk, builder.make, sizes[number], config.seed, number, paths[number]): number
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
    """Delete this environment's chunks, once the whole dataset is saved."""
    shutil.rmtree(dataset_path(spec.name).parent / "building", ignore_errors=True)


def _folder(spec: EnvSpec, builder: Builder, size: int, seed: int) -> Path:
    key = hashlib.sha256(repr((VERSION, spec.name, size, seed, *filter(None, [builder.key]))).encode()).hexdigest()[:12]
    return dataset_path(spec.name).parent / "building" / key


def _prepare_worker() -> None:
    """Ignore Ctrl-C, which reaches every process of the terminal: the parent handles it. Workers render nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["MUJOCO_GL"] = "disabled"


def _write_chunk(make: Callable[[], ChunkMaker], transitions: int, seed: int, number: int, path: Path) -> None:
    rng = np.random.default_rng(np.random.SeedSequence([seed, number]))
    arrays = {}
    for index, (states, actions) in enumerate(make()(transitions, rng)):
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
