"""Checkpoints of a run under way: one safetensors file with a JSON header, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vhdiffuser.errors import DataError
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.task import Task
from vhdiffuser.weights.format import FORMAT, read_tensors, renamed, save_tensors

NAME = "checkpoint.safetensors"
# These may differ between the sessions of one run; everything else must be the same.
FREE = (
    "updates",
    "minutes",
    "learning_rate",
    "clip",
    "precision",
    "device",
    "threads",
    "checkpoint_minutes",
    "log_every",
)


def save_checkpoint(
    folder: Path,
    task: Task,
    config: LoopConfig,
    network: nn.Module,
    ema: nn.Module,
    optimizer: dict[str, Any],
    update: int,
    seconds: float,
) -> None:
    """Write weights, their average, the optimiser's moments, and a header that says what they belong to."""
    tensors = {f"network.{key}": value for key, value in network.state_dict().items()}
    tensors |= {f"ema.{key}": value for key, value in ema.state_dict().items()}
    for index, slots in optimizer["state"].items():
        tensors |= {f"optimizer.{index}.{slot}": value for slot, value in slots.items()}
    header = {
        "format": FORMAT,
        "identity": _identity(task, config),
        "task": task.state(),
        "update": update,
        "seconds": seconds,
    }
    save_tensors(folder / NAME, tensors, header)


def load_checkpoint(
    folder: Path, task: Task, config: LoopConfig, network: nn.Module, ema: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, float]:
    """Restore the folder's checkpoint, if any; (updates made, seconds trained)."""
    path = folder / NAME
    if not path.exists():
        return 0, 0.0
    try:
        tensors, header = read_tensors(path)
    except DataError as error:
        raise DataError(f"{error} Delete it, or pass --restart, to train from the beginning.") from error
    if header["format"] not in (1, FORMAT) or "identity" not in header:
        raise DataError(f"{path}: not a checkpoint of this version. Delete it, or pass --restart, to begin anew.")
    ours, theirs = _identity(task, config), header["identity"]
    theirs["config"] = renamed(theirs.get("model", {}).get("kind", ""), theirs.get("config", {}))
    if theirs["config"].get("evening"):  # 0 is as data is read today
        raise DataError(
            f"{path}: its run averages the data's states over time (`evening`), which this version cannot. "
            "Give another --name, or --restart to train from the beginning."
        )
    differing = [
        f"{part}.{key} was {json.dumps(theirs.get(part, {}).get(key))}, now {json.dumps(value)}"
        for part, values in ours.items()
        for key, value in values.items()
        if theirs.get(part, {}).get(key) != value
    ]
    if differing:
        raise DataError(
            f"{path} belongs to another run: {'; '.join(differing)}. "
            "Give the same options to go on, another --name, or --restart to train from the beginning."
        )
    network.load_state_dict(_part(tensors, "network."))
    ema.load_state_dict(_part(tensors, "ema."))
    slots: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in _part(tensors, "optimizer.").items():
        index, slot = key.split(".")
        slots.setdefault(int(index), {})[slot] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    task.load_state(header["task"])
    return header["update"], header["seconds"]


def saved_update(folder: Path) -> int | None:
    """Updates that the folder's checkpoint has behind it; none where there is no whole one."""
    try:
        return read_tensors(folder / NAME)[1]["update"]
    except (DataError, KeyError):
        return None


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _identity(task: Task, config: LoopConfig) -> dict[str, dict[str, Any]]:
    """What must be the same for a checkpoint to be continued, as JSON gives it back."""
    header = task.header()
    identity = {
        "model": {"kind": header.kind, "data": header.data_fingerprint, "environment": header.spec["name"]},
        "config": header.config,
        "loop": {key: value for key, value in asdict(config).items() if key not in FREE},
    }
    return json.loads(json.dumps(identity))
