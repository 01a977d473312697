"""Datasets by the name of their environment."""

from __future__ import annotations

from dataclasses import replace

from vhdiffuser.data.store import Dataset, dataset_path, read_dataset
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError


def load_dataset(name: str) -> Dataset:
    """The dataset of an environment, checked against its fingerprint.

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
    return replace(dataset, spec=spec)
