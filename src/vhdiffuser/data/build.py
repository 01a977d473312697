"""Regenerate a dataset in chunks on all cores.

Each chunk has its own generator, seeded by (seed, chunk number), so the result does not depend on the number of
workers. Finished chunks are written at once, so an interrupted build resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from vhdiffuser.cluster import run_on_ray
from vhdiffuser.data.store import Dataset, dataset_path
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, require_space
from vhdiffuser.reading import reading
from vhdiffuser.types import EnvSpec, Episodes, FloatArray
from vhdiffuser.workers import available_cores, run_in_workers

VERSION = 1
"""Increase this when a builder's output changes, so that old and new chunks are never mixed."""

Parts = list[tuple[FloatArray, FloatArray]]
"""Episodes as (T, o) states and (T - 1, m) actions."""
Chunk = tuple[int, np.random.Generator]
"""Number of transitions, and the generator to draw from."""
ChunkMaker = Callable[[int, np.random.Generator], Parts]
"""(transitions, generator) -> episodes with exactly that many transitions in total."""
ChunksMaker = Callable[[Sequence[Chunk]], list[Parts]]
"""The same for several chunks at once. No chunk may depend on another."""


@dataclass(frozen=True)
class Builder:
    """How to regenerate an environment's data."""

    make: Callable[[], ChunkMaker] | Callable[[], ChunksMaker]
    """Returns the function that makes chunks. Worker processes call it, so it must be importable; it imports the
    simulator."""
    chunk: int
    """Transitions per chunk: a few seconds of work, in whole episodes."""
    transitions: int
    """Transitions in the full dataset."""
    key: str = ""
    """Distinguishes chunks of environments with the same name, e.g. by the map of a custom maze."""
    together: int | None = None
    """If set, `make` returns a `ChunksMaker`, and each worker makes up to this many chunks at once."""


@dataclass(frozen=True)
class BuildConfig:
    """What to regenerate."""

    size: int | None = None
    """Number of transitions (default: as in the official dataset)."""
    seed: int = 0
    """Seed; the same seed and size give identical bytes."""
    workers: int | None = None
    """Number of processes (default: one per core)."""
    ray: str | None = None
    """Address of a Ray cluster to build on, or `auto`."""


def build(spec: EnvSpec, builder: Builder | None, config: BuildConfig, progress: Callable[[int, int], None]) -> Dataset:
    """Regenerate the dataset. `progress` is called with (transitions done, total)."""
    if builder is None:
        raise DataError(f"{spec.name} was imported and cannot be rebuilt. Use `vhd data import`.")
    size = config.size if config.size is not None else builder.transitions
    if size < spec.T_max:
        raise DataError(
            f"--size {size} is less than one plan of T_max = {spec.T_max} states in {spec.name}. Use "
            f"{spec.T_max} or more; the full set has {builder.transitions:,}."
        )
    builder.make()  # report a missing extra here rather than in a worker
    folder = _folder(spec, builder, size, config.seed)
    require_space(folder, 8 * size * (spec.observation_dim + spec.action_dim))
    sizes = [min(builder.chunk, size - begin) for begin in range(0, size, builder.chunk)]
    paths = [folder / f"chunk-{number:05d}.safetensors" for number in range(len(sizes))]
    waiting = [number for number, path in enumerate(paths) if not path.exists()]
    done = size - sum(sizes[number] for number in waiting)
    progress(done, size)

    workers = min(config.workers or available_cores(), max(len(waiting), 1))
    # With few chunks, give every worker some of them: no chunk depends on another.
    together = min(builder.together or 1, -(-len(waiting) // workers)) or 1
    groups = [waiting[begin : begin + together] for begin in range(0, len(waiting), together)]
    jobs = [(builder, config.seed, [(number, sizes[number], paths[number]) for number in group]) for group in groups]
    if config.ray is None:
        finished = run_in_workers(_write_chunks, jobs, workers)
    else:
        finished = run_on_ray(_make_chunks, jobs, config.ray)
    for job, made in finished:
        if config.ray is not None:  # nodes may have other disks
            _save_chunks(jobs[job][2], made)
        done += sum(sizes[number] for number in groups[job])
        progress(done, size)
    parts: Parts = []
    for path in paths:
        parts += _read_chunk(path)
    return Dataset(spec, Episodes.from_parts(parts), "build", {"size": size, "seed": config.seed})


def forget_chunks(dataset: Dataset, builder: Builder | None) -> None:
    """Delete the chunks of a dataset that has been saved; chunks of another size or seed are kept."""
    if builder is None or dataset.source != "build":
        return
    folder = _folder(dataset.spec, builder, dataset.details["size"], dataset.details["seed"])
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # the folder holds other chunks
        folder.parent.rmdir()


def _folder(spec: EnvSpec, builder: Builder, size: int, seed: int) -> Path:
    key = hashlib.sha256(repr((VERSION, spec.name, size, seed, *filter(None, [builder.key]))).encode()).hexdigest()[:12]
    return dataset_path(spec.name).parent / "building" / key


Job = tuple[int, int, Path]
"""Chunk number, its transitions, and its path."""


def _write_chunks(builder: Builder, seed: int, jobs: Sequence[Job]) -> None:
    _save_chunks(jobs, _make_chunks(builder, seed, jobs))


def _make_chunks(builder: Builder, seed: int, jobs: Sequence[Job]) -> list[Parts]:
    os.environ["MUJOCO_GL"] = "disabled"  # workers do not render
    chunks = [(size, np.random.default_rng(np.random.SeedSequence([seed, number]))) for number, size, _ in jobs]
    maker: Any = builder.make()
    return maker(chunks) if builder.together is not None else [maker(*chunk) for chunk in chunks]


def _save_chunks(jobs: Sequence[Job], made: Sequence[Parts]) -> None:
    for (_, _, path), parts in zip(jobs, made, strict=True):
        arrays = {}
        for index, (states, actions) in enumerate(parts):
            arrays[f"states.{index}"], arrays[f"actions.{index}"] = states, actions
        with atomic_path(path) as temporary:
            save_file(arrays, temporary)


def _read_chunk(path: Path) -> Parts:
    try:
        with reading(path, "a chunk"):
            arrays = load_file(path)
            return [(arrays[f"states.{i}"], arrays[f"actions.{i}"]) for i in range(len(arrays) // 2)]
    except DataError as error:
        path.unlink(missing_ok=True)
        raise DataError(f"{path}: damaged chunk, deleted ({error}). Run the command again.") from error
