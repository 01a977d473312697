"""Selection of the precision, and the wrapper that applies it to a network."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from vhdiffuser.errors import UnknownNameError

PRECISIONS = ("auto", "fp32", "bf16")
PRECISION_VARIABLE = "VHD_PRECISION"
"""Environment variable that overrides `auto`: `fp32` or `bf16`."""


def pick_precision(name: str, device: torch.device) -> str:
    """Resolve to `fp32` or `bf16`. `auto` is `VHD_PRECISION` if set, otherwise bf16 if the hardware supports it
    natively."""
    if name == "auto":
        name = os.environ.get(PRECISION_VARIABLE) or "auto"
    if name not in PRECISIONS:
        raise UnknownNameError("precision", name, list(PRECISIONS))
    if name != "auto":
        return name
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp32"
    if device.type == "cpu":
        native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return "bf16" if native else "fp32"
    return "fp32"


class InPrecision(nn.Module):
    """A network that computes in fp32 or bf16 and always returns fp32. Its weights stay fp32."""

    def __init__(self, network: nn.Module, precision: str, device: torch.device) -> None:
        super().__init__()
        self.network = network
        self._bf16, self._device = precision == "bf16", device.type

    def forward(self, *inputs: Any) -> torch.Tensor:
        """The network's output, as float32."""
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bf16):
            answer = self.network(*inputs)
        return answer.float()
