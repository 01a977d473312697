"""The model file: one safetensors file whose header holds everything needed to use it. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path

if TYPE_CHECKING:
    import torch

FORMAT = 2
"""2: with a digest of header and tensors."""


@dataclass(frozen=True)
class ModelHeader:
    """Everything about a model except its tensors."""

    kind: str
    """`planner`, `length`, `route` or `dynamics`."""
    spec: dict[str, Any]
    """`EnvSpec.to_json()` of the environment it was trained for."""
    config: dict[str, Any]
    """The config dataclass of the network and its recipe, as a dict."""
    normalizer: dict[str, Any]
    """`Normalizer.to_json()` of the network's inputs."""
    data_fingerprint: str
    """Fingerprint of the dataset it was trained on."""
    updates: int = 0
    """Gradient updates of this training, not counting those of the model it started from (`notes["began_with"]`)."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Free-form: minutes, losses, versions."""
    planning: dict[str, Any] = field(default_factory=dict)
    """For a planner: `PlanningOptions.to_json()`, its default options."""

    @property
    def updates_in_all(self) -> int:
        """All updates behind the weights, including those of the model that training started from."""
        begun = self.notes.get("began_with")
        return self.updates + (begun["updates"] if isinstance(begun, dict) else 0)  # version 0.1 noted a digest alone


def save_model(path: Path, tensors: dict[str, torch.Tensor], header: ModelHeader) -> None:
    """Write a model atomically, with a digest that is checked on loading."""
    content = asdict(header)
    if not header.planning:
        del content["planning"]
    save_tensors(path, tensors, {"format": FORMAT, **content})


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> None:
    """Write finite tensors and a JSON header atomically, with a digest of both."""
    from safetensors.torch import save_file

    tensors = {key: value.detach().contiguous() for key, value in tensors.items()}
    if key := not_finite(tensors):
        raise DataError(f"{path}: not written, because tensor '{key}' holds NaN or infinity.")
    text = json.dumps({**header, "sha256": digest(tensors, header)})
    with atomic_path(path) as temporary:
        # A single entry: safetensors does not fix the order of several, so the same model could give two different
        # files.
        save_file(tensors, temporary, metadata={"vhdiffuser": text})


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and header of a file, checked against the digest; `DataError` says what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("vhdiffuser")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path}: damaged or not a safetensors file ({error}).") from error
    if text is None:
        raise DataError(f"{path}: a safetensors file, but not written by vhdiffuser (its header has no 'vhdiffuser').")
    try:
        header = json.loads(text)
        stated = header.pop("sha256", None)
        # The first release wrote no digest: its files are read unchecked.
        if stated is None and header["format"] > 1:
            raise ValueError("it has no digest")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged ({error}).") from error
    if stated is not None and stated != digest(tensors, header):
        raise DataError(f"{path}: damaged: its numbers do not match the digest it was written with.")
    if key := not_finite(tensors):
        raise DataError(f"{path}: damaged: tensor '{key}' holds NaN or infinity.")
    return tensors, header


def digest(tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> str:
    """SHA-256 over the header as JSON and every tensor's name, type, shape and bytes."""
    import torch

    sha = hashlib.sha256(json.dumps(header).encode())
    for key, value in sorted(tensors.items()):
        sha.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        if value.numel():  # an empty tensor cannot be viewed as bytes
            sha.update(value.cpu().reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def not_finite(tensors: dict[str, torch.Tensor]) -> str | None:
    """Name of the first tensor with NaN or infinity, or None."""
    return next((k for k, v in tensors.items() if v.is_floating_point() and not v.isfinite().all()), None)


def half_precision(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Floating-point tensors as float16, integers unchanged: half the size; `load_model` converts back to float32."""
    import torch

    halved = {key: value.to(torch.float16) if value.is_floating_point() else value for key, value in tensors.items()}
    for key, value in halved.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise DataError(f"tensor '{key}' has values beyond half precision (65,504). Keep this model as it is.")
    return halved


def load_model(path: Path, kind: str | None = None) -> tuple[dict[str, torch.Tensor], ModelHeader]:
    """Read a model of the given kind, or of any; half-precision tensors are converted to float32."""
    import torch

    if not path.is_file():
        raise DataError(
            f"{path}: no such model file. Train it with `vhd train {kind or 'planner'}`, or check the path."
        )
    try:
        tensors, content = read_tensors(path)
    except DataError as error:
        raise DataError(f"{error} Train or download it again.") from error
    if content.pop("format") not in (1, FORMAT):
        raise DataError(f"{path}: written by another version of vhdiffuser; train it again or change versions.")
    content = _split_planning(content) if content["kind"] == "planner" else content
    header = ModelHeader(**{**content, "config": renamed(content["kind"], content["config"])})
    if kind is not None and header.kind != kind:
        raise DataError(f"{path}: holds a {header.kind} model, but a {kind} model was asked for.")
    half = (torch.float16, torch.bfloat16)
    return {key: value.float() if value.dtype in half else value for key, value in tensors.items()}, header


def renamed(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """A config with current field names: up to version 0.2 a Length Predictor's quantiles were called levels."""
    if kind != "length" or "levels" not in config:
        return config
    graph = config["relay_graph"]
    if graph is not None:
        graph = {"quantile" if key == "level" else key: value for key, value in graph.items()}
    config = {"quantiles" if key == "levels" else key: value for key, value in config.items()}
    return {**config, "relay_graph": graph}


def _split_planning(content: dict[str, Any]) -> dict[str, Any]:
    """Move planning options out of a planner's config, where they were stored up to version 0.2.

    Those planners drew one candidate. `evening` was a training option that has been removed.
    """
    if "planning" in content:
        return content
    config = {key: value for key, value in content["config"].items() if key != "evening"}
    names = [name for name in ("sampler", "steps", "gamma", "smoothing", "stretch") if name in config]
    return {**content, "planning": {**{name: config.pop(name) for name in names}, "candidates": 1}, "config": config}
