"""The interface between the training loop and what it trains: planner, Length Predictor or inverse dynamics."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from vhdiffuser.weights.format import ModelHeader


class Task(Protocol):
    """A network to train and its loss. The loop owns optimiser, EMA, precision and checkpoints.

    A task keeps its data as tensors on its device, and draws every random number from the generator passed to it (on
    that device): the same seed gives the same bytes.
    """

    def make_network(self) -> nn.Module:
        """Create a network; the loop seeds torch first."""
        ...

    def loss(
        self, network: nn.Module, ema: nn.Module, generator: torch.Generator, update: int
    ) -> tuple[torch.Tensor, dict[str, float | torch.Tensor]]:
        """Loss of a fresh mini-batch, and scalars for the log (tensors are read only when logged).

        `network` may be wrapped for its precision: call it, but do not access its attributes. `ema` is the network with
        the exponential moving average of the weights, without gradients.
        """
        ...

    def observe(self, scalars: dict[str, torch.Tensor], update: int) -> None:
        """Called after each update with its scalars, averaged over all mini-batches and processes.

        State other than the weights may change only here, so that it is equal in all processes.
        """
        ...

    def state(self) -> dict[str, Any]:
        """JSON-serialisable state other than the weights (e.g. the phase of a curriculum)."""
        ...

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore `state()`."""
        ...

    def header(self) -> ModelHeader:
        """Header of the trained model's file."""
        ...
