"""Datasets in the user's cache: one safetensors file each, written atomically and fingerprinted."""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from vhdiffuser.arguments import shown
from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path, checked_name, home, require_space
from vhdiffuser.locks import exclusive
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.reading import read_header, read_safetensors
from vhdiffuser.types import EnvSpec, Episodes, FloatArray


@dataclass(frozen=True)
class Dataset:
    """Episodes with their environment and their origin."""

    spec: EnvSpec
    episodes: Episodes
    source: str
    """`official`, `build` or `import`."""
    details: dict[str, Any] = field(default_factory=dict)
    """Seed and size of a build, map of a custom maze, URL and digest of a download, or file of an import."""

    def __str__(self) -> str:
        made = " ".join(f"{key} {value}" for key, value in self.details.items() if key in ("seed", "file"))
        return (
            f"{self.spec.name}: {self.episodes.transitions:,} transitions in {len(self.episodes):,} episodes, "
            f"source {self.source} {made}".rstrip()
        )

    def fingerprint(self) -> str:
        """SHA-256 of the arrays: equal data has equal fingerprints, however it was obtained."""
        digest = hashlib.sha256()
        for array in (self.episodes.observations, self.episodes.actions, self.episodes.ends):
            digest.update(repr((array.shape, str(array.dtype))).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def states(self) -> FloatArray:
        """(N, d) planning states."""
        return self.spec.planning_state(self.episodes.observations)

    def normalizer(self) -> Normalizer:
        """Normaliser of the planning state, fitted to this data."""
        return Normalizer.fit(self.states())


def dataset_path(name: str) -> Path:
    """Path of the dataset with this name."""
    return home() / "data" / checked_name("dataset", name) / "data.safetensors"


def writing_dataset(name: str) -> AbstractContextManager[None]:
    """Context for building or importing a dataset; raises `VhdError` if another process is doing so."""
    return exclusive(dataset_path(name).parent, f"building or importing the dataset {name}")


def require_new(name: str, replace: bool) -> None:
    """Raise `DataError` if there is a dataset of that name, unless it may be replaced."""
    if dataset_path(name).exists() and not replace:
        raise DataError(f"a dataset '{name}' already exists. Pass --replace, or choose another name.")


def saved_names() -> list[str]:
    """Names of the datasets in the cache."""
    return sorted(path.parent.name for path in (home() / "data").glob("*/data.safetensors"))


def saved_facts(name: str) -> tuple[EnvSpec, dict[str, Any]]:
    """Spec and details of a saved dataset, read from its header only."""
    path = dataset_path(name)
    return _facts(path, name, read_header(path, "a vhdiffuser dataset", _mend(name)))


def save_dataset(dataset: Dataset, path: Path | None = None) -> Path:
    """Write a dataset atomically."""
    path = path or dataset_path(dataset.spec.name)
    episodes = dataset.episodes
    require_space(path.parent, episodes.observations.nbytes + episodes.actions.nbytes + (1 << 20))
    text = json.dumps(
        {
            "spec": dataset.spec.to_json(),
            "source": dataset.source,
            "details": dataset.details,
            "fingerprint": dataset.fingerprint(),
        }
    )
    arrays = {"observations": episodes.observations, "actions": episodes.actions, "ends": episodes.ends}
    with atomic_path(path) as temporary:
        save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, temporary, metadata={"vhdiffuser": text})
    return path


def read_dataset(path: Path, name: str) -> Dataset:
    """Read a dataset and verify its fingerprint."""
    arrays, header = read_safetensors(path, "np", "a vhdiffuser dataset", _mend(name))
    names = ("observations", "actions", "ends")
    if missing := [key for key in names if key not in arrays]:
        raise DataError(f"{path}: not a vhdiffuser dataset (missing {', '.join(missing)}). {_mend(name)}")
    spec, details = _facts(path, name, header)
    try:
        dataset = Dataset(spec, Episodes(*(arrays[key] for key in names)), str(header.get("source")), details)
    except DataError as error:
        raise DataError(f"{path}: {error} {_mend(name)}") from error
    if dataset.fingerprint() != header.get("fingerprint"):
        raise DataError(f"{path}: does not match its fingerprint; the file was changed or damaged. {_mend(name)}")
    return dataset


def _facts(path: Path, name: str, header: dict[str, Any]) -> tuple[EnvSpec, dict[str, Any]]:
    """Spec and details from a header."""
    details = header.get("details")
    if not isinstance(details, dict):
        raise DataError(f"{path}: damaged (its details are {shown(details)}). {_mend(name)}")
    try:
        return EnvSpec.from_json(header.get("spec")), details  # type: ignore[arg-type]
    except DataError as error:
        raise DataError(f"{path}: damaged ({error}) {_mend(name)}") from error


def _mend(name: str) -> str:
    return f"Get it again with `vhd data get {name} --replace` (or `vhd data import`)."


def summary(dataset: Dataset) -> dict[str, Any]:
    """Facts printed by `vhd data info --json`."""
    spec, episodes = dataset.spec, dataset.episodes
    observations = episodes.observations
    lengths = np.diff(episodes.ends, prepend=0)
    moves = np.ones(len(observations), bool)
    moves[episodes.ends - 1] = False  # an episode's last state has no action
    actions = episodes.actions[moves]
    return {
        "name": spec.name,
        "source": dataset.source,
        "transitions": episodes.transitions,
        "episodes": len(episodes),
        "episode_states_min": int(lengths.min()),
        "episode_states_median": int(np.median(lengths)),
        "episode_states_max": int(lengths.max()),
        "observation_mean": observations.mean(axis=0, dtype=np.float64).round(6).tolist(),
        "observation_std": observations.std(axis=0, dtype=np.float64).round(6).tolist(),
        "observation_min": observations.min(axis=0).tolist(),
        "observation_max": observations.max(axis=0).tolist(),
        "action_std": actions.std(axis=0, dtype=np.float64).round(6).tolist(),
        "planning_state": list(spec.state_names),
        "goal_dims": list(spec.goal_dims),
        "velocity_dims": None if spec.velocity_dims is None else list(spec.velocity_dims),
        "control_dt": spec.control_dt,
        "epsilon": spec.epsilon,
        "T_max": spec.T_max,
        "L_min": spec.L_min,
        "fingerprint": dataset.fingerprint(),
        "details": dataset.details,
    }
