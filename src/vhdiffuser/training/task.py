"""The interface between the training loop and what it trains: planner, Length Predictor or inverse dynamics."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from vhdiffuser.weights.format import ModelHeader


class Task(Protocol):
    """A network to train and its loss. The loop owns the optimiser, the EMA, precision and checkpoints.

    A task keeps its data as tensors on its device, and draws every random number from the generator
    passed to it (on that device): same seed, same bytes.
    """

    def make_network(self) -> nn.Module:
        """A fresh network; the loop seeds torch before calling this."""
        ...

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Loss of one fresh mini-batch, and scalars for the log (tensors are read only when logged).

        `network` may be wrapped for its precision: call it, and access nothing inside it. `ema` is the
        network with the exponential moving average of the weights, without gradient.
        """
        ...

    def observe(self, scalars: dict[str, torch.Tensor], update: int) -> None:
        """Called after each update with its scalars, averaged over all mini-batches and processes.

        What changes during training besides the weights changes here, so that it is the same in every process.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What changes during training besides the weights (e.g. a curriculum's phase), JSON-serialisable."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore `state()`."""
        ...

    def header(self) -> ModelHeader:
        """The header of the model file that training produces."""
        ...
