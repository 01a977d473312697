"""Where to compute and how precisely, when the user does not say."""

from __future__ import annotations

import torch

from vhdiffuser.errors import VhdError


def pick_device(name: str) -> torch.device:
    """`auto`: the accelerator if there is one, else the CPU."""
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise VhdError(f"device '{name}' cannot be used here ({error}). Use auto or cpu.") from error
    return device


def pick_precision(name: str, device: torch.device) -> str:
    """`auto`: bf16 where the hardware multiplies in it, else fp32."""
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    if device.type == "cpu":
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return "bf16" if native else "fp32"
    return "fp32"
