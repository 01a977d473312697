"""What the training loop asks of a network's recipe. Planner, Length Predictor and inverse dynamics each have one."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from vhdiffuser.weights.format import ModelHeader


class Task(Protocol):
    """A network to train, and how. The loop owns the optimiser, the EMA, precision and checkpoints.

    A task keeps its data as tensors on the device it was made for, and draws every random number
    from the generator it is handed (on that device): same seed, same bytes.
    """

    def make_network(self) -> nn.Module:
        """A fresh network; the loop seeds torch before it calls this."""
        ...

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Loss of one fresh mini-batch, and scalars for the log (tensors are read only when logged).

        `network` may be wrapped for several devices: call it, do not reach into it. `ema` is the
        exponential moving average of its weights, without gradient.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What changes during training beside the weights (a curriculum's phase), as JSON can hold it."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        ...

    def header(self) -> ModelHeader:
        """The header of the model file that training produces."""
        ...
