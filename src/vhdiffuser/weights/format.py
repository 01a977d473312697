"""Model files: one safetensors file whose header holds everything needed to use it. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.reading import read_safetensors

Tensors = dict[str, npt.NDArray[Any]]
"""Arrays by name."""
FORMAT = 2
"""Version of the format; 2 added a digest of header and tensors."""


@dataclass(frozen=True)
class ModelHeader:
    """Everything about a model except its tensors."""

    kind: str
    """`planner`, `length`, `route` or `dynamics`."""
    spec: dict[str, Any]
    """`EnvSpec.to_json()` of the environment it was trained for."""
    config: dict[str, Any]
    """Config dataclass of the network and its training, as a dict."""
    normalizer: dict[str, Any]
    """`Normalizer.to_json()` of the network's inputs."""
    data_fingerprint: str
    """Fingerprint of the training data."""
    updates: int = 0
    """Number of gradient updates, without those of the model it started from (`notes["began_with"]`)."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Free-form facts: minutes, losses, versions."""
    planning: dict[str, Any] = field(default_factory=dict)
    """Planners only: `PlanningOptions.to_json()` of the default options."""

    @property
    def updates_in_all(self) -> int:
        """Total updates behind the weights, including those of the model that training started from."""
        begun = self.notes.get("began_with")
        before = begun.get("updates") if isinstance(begun, dict) else 0  # version 0.1 stored only a digest
        return self.updates + (before if isinstance(before, int) else 0)

    def __post_init__(self) -> None:
        check_fields(self, DataError)


def save_model(path: Path, tensors: Tensors, header: ModelHeader) -> None:
    """Write a model atomically, with a digest that is checked on loading."""
    content = asdict(header)
    if not header.planning:
        del content["planning"]
    save_tensors(path, tensors, {"format": FORMAT, **content})


def save_tensors(path: Path, tensors: Tensors, header: dict[str, Any]) -> None:
    """Write finite tensors and a JSON header atomically, with a digest of both."""
    from safetensors.numpy import save_file

    tensors = {key: np.ascontiguousarray(value).reshape(value.shape) for key, value in tensors.items()}
    if key := not_finite(tensors):
        raise DataError(f"{path}: not written, because tensor '{key}' contains NaN or infinity.")
    text = json.dumps({**header, "sha256": digest(tensors, header)})
    with atomic_path(path) as temporary:
        # A single entry, since safetensors does not fix the order of several: the same model could give two different
        # files.
        save_file(tensors, temporary, metadata={"vhdiffuser": text})


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read tensors and header and verify their digest; raises `DataError`."""
    tensors, header = read_safetensors(path, "np", "written by vhdiffuser", "")
    stated = header.pop("sha256", None)
    written = header.get("format")
    # The first release wrote no digest; its files cannot be verified.
    if stated is None and written != 1:
        raise DataError(f"{path}: damaged (no digest).")
    if stated is not None and stated != digest(tensors, header):
        raise DataError(f"{path}: damaged: contents do not match the digest.")
    if key := not_finite(tensors):
        raise DataError(f"{path}: damaged: tensor '{key}' contains NaN or infinity.")
    return tensors, header


def digest(tensors: Tensors, header: dict[str, Any]) -> str:
    """SHA-256 over the header as JSON and every tensor's name, type, shape and bytes."""
    sha = hashlib.sha256(json.dumps(header).encode())
    for key, value in sorted(tensors.items()):
        sha.update(
            f"{key} torch.{value.dtype.name} {value.shape}".encode()
        )  # dtype names as of when the digest was defined
        sha.update(value.tobytes())
    return sha.hexdigest()


def not_finite(tensors: Tensors) -> str | None:
    """Name of the first tensor with NaN or infinity, or None."""
    return next((k for k, v in tensors.items() if v.dtype.kind == "f" and not np.isfinite(v).all()), None)


def half_precision(tensors: Tensors) -> Tensors:
    """Convert floating-point tensors to float16 (integers unchanged), for half the size; `load_model` converts back to
    float32."""
    with np.errstate(over="ignore"):
        halved = {key: value.astype(np.float16) if value.dtype.kind == "f" else value for key, value in tensors.items()}
    if key := not_finite(halved):
        raise DataError(
            f"tensor '{key}' exceeds the range of half precision (65,504). Keep this model in single precision."
        )
    return halved


def load_model(path: Path, kind: str | None = None) -> tuple[Tensors, ModelHeader]:
    """Read a model of the given kind, or of any kind; half- and double-precision tensors are converted to float32."""
    if not path.is_file():
        raise DataError(
            f"{path}: no such model file. Train it with `vhd train {kind or 'planner'}`, or check the path."
        )
    try:
        tensors, content = read_tensors(path)
    except DataError as error:
        raise DataError(f"{error} Train or download it again.") from error
    if content.pop("format", None) not in (1, FORMAT):
        raise DataError(f"{path}: written by another version of vhdiffuser. Train it again, or install that version.")
    header = _header(path, content)
    if kind is not None and header.kind != kind:
        raise DataError(f"{path}: contains a {header.kind} model, but a {kind} model was expected.")
    with np.errstate(over="ignore"):
        tensors = {
            key: value.astype(np.float32) if value.dtype.kind == "f" else value for key, value in tensors.items()
        }
    if key := not_finite(tensors):
        raise DataError(f"{path}: tensor '{key}' exceeds the range of single precision. Train it again.")
    return tensors, header


def _header(path: Path, content: dict[str, Any]) -> ModelHeader:
    try:
        header = from_fields(ModelHeader, content, "header")
        if header.kind == "planner" and "planning" not in content:
            config, planning = _split_planning(header.config)
            header = replace(header, config=config, planning=planning)
        return replace(header, config=renamed(header.kind, header.config))
    except (VhdError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: damaged ({error}). Train or download it again.") from error


def renamed(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Update field names in a config: up to version 0.2 a Length Predictor's quantiles were called levels."""
    if kind != "length" or "levels" not in config:
        return config
    graph = config["relay_graph"]
    if graph is not None:
        graph = {"quantile" if key == "level" else key: value for key, value in graph.items()}
    config = {"quantiles" if key == "levels" else key: value for key, value in config.items()}
    return {**config, "relay_graph": graph}


def _split_planning(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a planner's config into its config and its planning options, stored together up to version 0.2.

    Those planners used one candidate. `evening` was a training option that has been removed.
    """
    names = ("sampler", "steps", "gamma", "smoothing", "stretch")
    planning = {name: config[name] for name in names if name in config}
    rest = {key: value for key, value in config.items() if key != "evening" and key not in planning}
    return rest, {**planning, "candidates": 1}
