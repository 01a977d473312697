"""Regenerate a dataset on all cores, chunk by chunk.

Each chunk has a generator seeded by (seed, chunk number), so the bytes do not depend on the number of
workers. Chunks are written as they are finished, so an interrupted build continues where it stopped.
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
"""Increase this when a builder's output changes, so that old chunks are not mixed with new ones."""

Parts = list[tuple[FloatArray, FloatArray]]
"""Episodes of (T, o) states and (T - 1, m) actions."""
Chunk = tuple[int, np.random.Generator]
"""Transitions, and the generator to draw from."""
ChunkMaker = Callable[[int, np.random.Generator], Parts]
"""(transitions, generator) -> episodes of exactly that many transitions in all."""
ChunksMaker = Callable[[Sequence[Chunk]], list[Parts]]
"""The same for several chunks, made at once. A chunk must not depend on the others."""


@dataclass(frozen=True)
class Builder:
    """How an environment's data is regenerated."""

    make: Callable[[], ChunkMaker] | Callable[[], ChunksMaker]
    """Returns the function that makes chunks. Must be importable, since worker processes call it; it imports the
    simulator."""
    chunk: int
    """Transitions per chunk: a few seconds of work, and whole episodes."""
    transitions: int
    """Transitions of the full dataset."""
    key: str = ""
    """Identifies the chunks where the name does not suffice, e.g. the map of a custom maze."""
    together: int | None = None
    """If given, `make` returns a `ChunksMaker`, and each worker makes up to this many chunks at once."""


@dataclass(frozen=True)
class BuildConfig:
    """What to regenerate."""

    size: int | None = None
    """Transitions; the official set's number by default."""
    seed: int = 0
    """Same seed and size, same bytes."""
    workers: int | None = None
    """Processes; all cores by default."""
    ray: str | None = None
    """Address of a Ray cluster to build on, or `auto`."""


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

    workers = min(config.workers or available_cores(), max(len(waiting), 1))
    # Few chunks are shared out among the workers: a chunk's bytes depend on no other.
    together = min(builder.together or 1, -(-len(waiting) // workers)) or 1
    groups = [waiting[begin : begin + together] for begin in range(0, len(waiting), together)]
    jobs = [(builder, config.seed, [(number, sizes[number], paths[number]) for number in group]) for group in groups]
    if config.ray is None:
        finished = run_in_workers(_write_chunks, jobs, workers)
    else:
        finished = run_on_ray(_make_chunks, jobs, config.ray)
    for job, made in finished:
        if config.ray is not None:  # the nodes may have other disks
            _save_chunks(jobs[job][2], made)
        done += sum(sizes[number] for number in groups[job])
        progress(done, size)
    parts: Parts = []
    for path in paths:
        parts += _read_chunk(path)
    return Dataset(spec, Episodes.from_parts(parts), "build", {"size": size, "seed": config.seed})


def forget_chunks(dataset: Dataset, builder: Builder | None) -> None:
    """Delete the chunks of a dataset that is saved, if it was built; those of another size or seed stay."""
    if builder is None or dataset.source != "build":
        return
    folder = _folder(dataset.spec, builder, dataset.details["size"], dataset.details["seed"])
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # others are in it
        folder.parent.rmdir()


def _folder(spec: EnvSpec, builder: Builder, size: int, seed: int) -> Path:
    key = hashlib.sha256(repr((VERSION, spec.name, size, seed, *filter(None, [builder.key]))).encode()).hexdigest()[:12]
    return dataset_path(spec.name).parent / "building" / key


Job = tuple[int, int, Path]
"""Number of a chunk, its transitions and its path."""


def _write_chunks(builder: Builder, seed: int, jobs: Sequence[Job]) -> None:
    _save_chunks(jobs, _make_chunks(builder, seed, jobs))


def _make_chunks(builder: Builder, seed: int, jobs: Sequence[Job]) -> list[Parts]:
    os.environ["MUJOCO_GL"] = "disabled"  # workers render nothing
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
        raise DataError(f"{path}: a damaged chunk ({error}); it was deleted. Run the command again.") from error
