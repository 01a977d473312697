"""Networks evaluated by torch on numpy arrays: for accelerators and for custom modules."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from vhdiffuser.devices import pick_device
from vhdiffuser.types import FloatArray


class TorchNetwork:
    """A torch module as a function of numpy arrays."""

    def __init__(self, module: nn.Module, device: torch.device | str = "cpu") -> None:
        self.device = pick_device(device)
        self.module = module.to(self.device).eval()

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """The module's tensors by name."""
        return arrays(self.module.state_dict())

    @torch.inference_mode()
    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """Evaluate a batch of inputs; a scalar applies to the whole batch."""
        rows = next(len(item) for item in inputs if not isinstance(item, int))
        given = [
            torch.full((rows,), item) if isinstance(item, int) else torch.from_numpy(np.require(item, requirements="W"))
            for item in inputs
        ]
        return self.module(*(item.to(self.device) for item in given)).float().cpu().numpy()


def arrays(state: Mapping[str, torch.Tensor]) -> dict[str, FloatArray]:
    """Copy a state dict to numpy arrays."""
    return {key: value.detach().cpu().numpy().copy() for key, value in state.items()}


def state_dict(tensors: Mapping[str, FloatArray]) -> dict[str, torch.Tensor]:
    """Convert the tensors of a model file to a state dict."""
    return {key: torch.from_numpy(value) for key, value in tensors.items()}
