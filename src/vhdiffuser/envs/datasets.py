"""Datasets by the name of their environment: load, download, build or import them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Literal, get_args

from vhdiffuser.data.build import BuildConfig, build, forget_chunks
from vhdiffuser.data.official import get_official
from vhdiffuser.data.store import Dataset, dataset_path, read_dataset, save_dataset, writing_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError, warn

DataSource = Literal["auto", "official", "build"]
OnProgress = Callable[[str, int, int, str], None]
"""Called with the current activity, the amount done, the total (0 if unknown), and their unit."""


def load_dataset(name: str) -> Dataset:
    """Load an environment's dataset and verify its fingerprint; raises `DataError` if it is missing.

    For a registered environment, its current spec replaces the one that the data was saved with.
    """
    environment = get_environment(name)
    path = dataset_path(environment.name)
    if not path.is_file():
        source = "get" if environment.builder or environment.official else "import"
        raise DataError(
            f"no data for {environment.name} yet ({path}). Get it with `vhd data {source} {environment.name}`."
        )
    dataset, spec = read_dataset(path, environment.name), environment.spec
    columns = dataset.episodes.observations.shape[1], dataset.episodes.actions.shape[1]
    if columns != (spec.observation_dim, spec.action_dim):
        raise DataError(
            f"{path}: {columns[0]} observation and {columns[1]} action columns, but {spec.name} has "
            f"{spec.observation_dim} and {spec.action_dim}: it belongs to another environment of that name."
        )
    return changed(dataset, spec=spec)


def get_dataset(
    name: str,
    source: DataSource = "auto",
    *,
    size: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    ray: str | None = None,
    timeout: float = 20.0,
    replace: bool = False,
    on_progress: OnProgress | None = None,
) -> Dataset:
    """Return an environment's dataset, downloading or building it if it is not cached.

    `source="auto"` tries the official files and falls back to building; a `size` (in transitions) or `seed` implies a
    build. A build uses `workers` processes (default: one per core) or a Ray cluster, with identical results; if
    interrupted, it resumes when called again. A cached dataset must match the arguments unless `replace` is set.
    `timeout` is the time to wait for a server, in seconds. Raises `DataError`.

    >>> dataset = get_dataset("maze2d-umaze", "build", size=20_000)      # doctest: +SKIP
    """
    if source not in get_args(DataSource):
        raise UnknownNameError("source of data", str(source), list(get_args(DataSource)))
    environment, tell = get_environment(name), on_progress or _ignore
    if dataset_path(environment.name).exists() and not replace:
        present = load_dataset(environment.name)
        _require_same(present, source, size, seed)
        forget_chunks(present, environment.builder)  # left by a build that was killed after saving its dataset
        return present
    with writing_dataset(environment.name):
        dataset = None
        if source == "official" or (source == "auto" and size is None and seed is None):
            dataset = _official(environment, source, timeout, tell)
        if dataset is None:
            dataset = build_dataset(environment, BuildConfig(size, seed or 0, workers, ray), tell)
        save_dataset(dataset)
        forget_chunks(dataset, environment.builder)
    return dataset


def _official(environment: Environment, source: DataSource, timeout: float, tell: OnProgress) -> Dataset | None:
    """The published data; None, with a warning, if it is not available and may be built instead."""
    try:
        return get_official(
            environment.spec,
            environment.official,
            lambda file, done, total: tell(f"downloading {file}", done, total, "bytes"),
            timeout,
        )
    except DataError as error:
        if source == "official":
            raise DataError(f"{error}. Try again later, or use --source build.") from error
        warn(f"official data not available ({error}); building it instead.")
        return None


def build_dataset(environment: Environment, config: BuildConfig, on_progress: OnProgress | None = None) -> Dataset:
    """Build an environment's data without saving it."""
    title, tell = f"building {environment.name}", on_progress or _ignore
    return build(
        environment.spec, environment.builder, config, lambda done, total: tell(title, done, total, "transitions")
    )


def _require_same(present: Dataset, source: DataSource, size: int | None, seed: int | None) -> None:
    """Raise `DataError` if the existing dataset does not match explicitly given options."""
    wishes = {"source": None if source == "auto" else source, "size": size, "seed": seed}
    has = {"source": present.source, **present.details}
    unmet = [f"{key} {value}" for key, value in wishes.items() if value is not None and has.get(key) != value]
    if unmet:
        raise DataError(
            f"the cache has another {present.spec.name} dataset ({present}), not one with {', '.join(unmet)}. "
            "Pass --replace to replace it."
        )


def _ignore(title: str, done: int, total: int, unit: str) -> None:
    pass
