"""Training checkpoints: safetensors files with a JSON header, written atomically.

A run keeps its last two. If the last one is damaged, training resumes from the previous one, with a warning.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vhdiffuser.arguments import shown
from vhdiffuser.errors import DataError, warn
from vhdiffuser.files import atomic_path
from vhdiffuser.torch_network import arrays, state_dict
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.task import Task
from vhdiffuser.weights.format import FORMAT, Tensors, read_tensors, renamed, save_tensors

NAME, BEFORE = "checkpoint.safetensors", "checkpoint-before.safetensors"
"""File names of the last checkpoint and the previous one."""
_SLOTS = ({"step", "exp_avg", "exp_avg_sq"}, {"momentum"}, {"step", "mean", "square"})
"""State that AdamW and Muon keep per parameter."""
_MOST_MINI_BATCHES = 65_536
"""Largest plausible number per update; a header with more is damaged, and the first update would never end."""
_START_OVER = "Delete it, or pass --restart, to train from scratch."
# These may change when a run is resumed; everything else must stay the same.
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
    "snapshot_every",
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
    mini_batches: int,
) -> None:
    """Write the weights, their EMA, the optimiser's moments, and a header that identifies the run.

    `mini_batches` is the number per update; any number of processes may share them when the run is resumed.
    """
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
        "mini_batches": mini_batches,
    }
    _keep_before(folder)
    save_tensors(folder / NAME, arrays(tensors), header)


def _keep_before(folder: Path) -> None:
    """Turn the last checkpoint into the previous one; a last one exists at all times, even if we are killed here."""
    last, before = folder / NAME, folder / BEFORE
    if not last.exists():
        return
    with atomic_path(before) as temporary:
        temporary.unlink()
        try:
            os.link(last, temporary)
        except OSError:  # file system without hard links
            shutil.copyfile(last, temporary)


def load_checkpoint(
    folder: Path, task: Task, config: LoopConfig, network: nn.Module, ema: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, float, int | None]:
    """Restore the folder's checkpoint, if any; returns (updates, seconds trained, mini-batches per update)."""
    path, (content, header) = folder / NAME, _read(folder)
    if not header:
        return 0, 0.0, None
    ours, theirs = _identity(task, config), header["identity"]
    theirs["config"] = renamed(theirs.get("model", {}).get("kind", ""), theirs.get("config", {}))
    if theirs["config"].get("evening"):  # 0 is the current behaviour
        raise DataError(
            f"{path}: its run averages the data's states over time (`evening`), which this version does not "
            "support. Use another --name, or --restart to train from scratch."
        )
    differing = [
        f"{part}.{key} was {json.dumps(theirs.get(part, {}).get(key))}, now {json.dumps(value)}"
        for part, values in ours.items()
        for key, value in values.items()
        # A setting newer than the checkpoint was off (None or False).
        if theirs.get(part, {}).get(key) != value and (value or key in theirs.get(part, {}))
    ]
    if differing:
        raise DataError(
            f"{path} belongs to another run: {'; '.join(differing)}. Use the same options to continue, another "
            "--name, or --restart to train from scratch."
        )
    try:
        tensors = state_dict(content)
        network.load_state_dict(_part(tensors, "network."))
        ema.load_state_dict(_part(tensors, "ema."))
        slots: dict[int, dict[str, torch.Tensor]] = {}
        for key, value in _part(tensors, "optimizer.").items():
            index, slot = key.split(".")
            slots.setdefault(int(index), {})[slot] = value
        _check_slots(optimizer, slots)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
        task.load_state(header["task"])
        return header["update"], float(header["seconds"]), header.get("mini_batches")
    except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: does not fit the network being trained ({reason}). {_START_OVER}") from error


def _check_slots(optimizer: torch.optim.Optimizer, slots: dict[int, dict[str, torch.Tensor]]) -> None:
    """Validate the moments: the optimiser accepts any number and shape, and fails only when it uses them."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in slots.items():
        if set(values) not in _SLOTS:
            raise ValueError(f"the optimiser has {', '.join(values)} of parameter {index}")
        for slot, value in values.items():
            if value.shape != (() if slot == "step" else parameters[index].shape):
                raise ValueError(f"the optimiser's {slot} of parameter {index} has shape {tuple(value.shape)}")


def _read(folder: Path) -> tuple[Tensors, dict[str, Any]]:
    """The last checkpoint; if it is damaged, the previous one; None if there is none."""
    last, before = folder / NAME, folder / BEFORE
    if not last.exists() and not before.exists():
        return {}, {}
    try:
        return _checked(last)
    except DataError as error:
        if not before.exists():
            raise DataError(f"{error} {_START_OVER}") from error
        try:
            found = _checked(before)
        except DataError:
            raise DataError(
                f"{error} The previous checkpoint, {before.name}, is damaged as well. {_START_OVER}"
            ) from error
        warn(f"{error} Training resumes from the previous checkpoint, update {found[1]['update']}.")
        with suppress(OSError), atomic_path(last) as temporary:
            shutil.copyfile(before, temporary)  # the damaged one must not become the previous one
        return found


def _checked(path: Path) -> tuple[Tensors, dict[str, Any]]:
    if not path.exists():
        raise DataError(f"{path}: missing.")
    tensors, header = read_tensors(path)
    if header.get("format") not in (1, FORMAT):
        raise DataError(f"{path}: not a checkpoint of this version.")
    kinds = {"identity": dict, "task": dict, "update": int, "seconds": int | float}
    for key, kind in kinds.items():
        if not isinstance(header.get(key), kind):
            raise DataError(f"{path}: not a checkpoint (its header's '{key}' is {shown(header.get(key))}).")
    if header["update"] < 0 or not 0 <= header["seconds"] < math.inf:
        raise DataError(f"{path}: not a checkpoint (of update {header['update']:g}, after {header['seconds']:g} s).")
    if not all(isinstance(part, dict) for part in header["identity"].values()):
        raise DataError(f"{path}: not a checkpoint (its header's 'identity' is damaged).")
    mini_batches = header.get("mini_batches", 1)  # the first releases did not record it
    if not isinstance(mini_batches, int) or not 1 <= mini_batches <= _MOST_MINI_BATCHES:
        raise DataError(f"{path}: not a checkpoint (its header's 'mini_batches' is {shown(mini_batches)}).")
    return tensors, header


def saved_update(folder: Path) -> int | None:
    """Updates of the folder's last valid checkpoint; None if there is none."""
    for name in (NAME, BEFORE):
        try:
            return int(_checked(folder / name)[1]["update"])
        except DataError:
            continue
    return None


def _part(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def _identity(task: Task, config: LoopConfig) -> dict[str, dict[str, Any]]:
    """What must be equal for a checkpoint to be resumed, as JSON returns it."""
    header = task.header()
    identity = {
        "model": {"kind": header.kind, "data": header.data_fingerprint, "environment": header.spec["name"]},
        "config": header.config,
        "loop": {key: value for key, value in asdict(config).items() if key not in FREE},
    }
    return json.loads(json.dumps(identity))
