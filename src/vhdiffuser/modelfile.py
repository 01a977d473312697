"""A model on disk: one safetensors file whose header holds what is needed to use it. Never a pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path

if TYPE_CHECKING:
    import torch

FORMAT = 1


@dataclass(frozen=True)
class ModelHeader:
    """Everything about a model but its numbers."""

    kind: str
    """`planner`, `length` or `dynamics`."""
    spec: dict[str, Any]
    """`EnvSpec.to_json()` of the environment it was trained for."""
    config: dict[str, Any]
    """The frozen config dataclass of the network and its recipe, as a dict."""
    normalizer: dict[str, Any]
    """`Normalizer.to_json()` of what enters the network."""
    data_fingerprint: str
    """Fingerprint of the dataset it was trained on."""
    updates: int = 0
    """Gradient updates made."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Free: minutes, losses, versions."""


def save_model(path: Path, tensors: dict[str, torch.Tensor], header: ModelHeader) -> None:
    """Write a model atomically."""
    from safetensors.torch import save_file

    text = json.dumps({"format": FORMAT, **asdict(header)})
    with atomic_path(path) as temporary:
        save_file({k: v.detach().contiguous() for k, v in tensors.items()}, temporary, metadata={"vhdiffuser": text})


def half_precision(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Floating-point tensors as float16, integers as they are: half the size, and `load_model` gives float32 back."""
    import torch

    halved = {key: value.to(torch.float16) if value.is_floating_point() else value for key, value in tensors.items()}
    for key, value in halved.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise DataError(f"tensor '{key}' has values beyond half precision (65,504). Keep this model as it is.")
    return halved


def load_model(path: Path, kind: str) -> tuple[dict[str, torch.Tensor], ModelHeader]:
    """Read a model of that kind; half-precision tensors come back as float32."""
    import torch
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise DataError(f"{path}: no such model file. Train it with `vhd train {kind}`, or check the path.")
    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("vhdiffuser")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path}: damaged or not a safetensors file ({error}). Train or download it again.") from error
    if text is None:
        raise DataError(f"{path}: a safetensors file, but not one of ours (its header has no 'vhdiffuser').")
    content = json.loads(text)
    if content.pop("format") != FORMAT:
        raise DataError(f"{path}: written by another version of vhdiffuser; train it again or change versions.")
    header = ModelHeader(**content)
    if header.kind != kind:
        raise DataError(f"{path}: holds a {header.kind} model, but a {kind} model was asked for.")
    half = (torch.float16, torch.bfloat16)
    return {key: value.float() if value.dtype in half else value for key, value in tensors.items()}, header
