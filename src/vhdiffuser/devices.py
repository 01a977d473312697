"""Where torch computes."""

from __future__ import annotations

import torch

from vhdiffuser.errors import VhdError


def pick_device(name: str | torch.device) -> torch.device:
    """`auto`: the accelerator if there is one, else the CPU."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise VhdError(f"device '{name}' cannot be used here ({reason}). Use auto or cpu.") from error
    return device
