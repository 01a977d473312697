"""Device selection. torch is imported only for devices other than the CPU."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from vhdiffuser.errors import VhdError

if TYPE_CHECKING:
    import torch


def is_cpu(name: str | torch.device) -> bool:
    """Whether this device is the CPU; without torch, `auto` is."""
    if str(name) == "auto" and find_spec("torch") is not None:
        return pick_device("auto").type == "cpu"
    return str(name) in ("cpu", "auto")


def pick_device(name: str | torch.device) -> torch.device:
    """Resolve a device name. `auto` is the accelerator if there is one, otherwise the CPU."""
    import torch

    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise VhdError(f"device '{name}' is not available ({reason}). Use auto or cpu.") from error
    return device
