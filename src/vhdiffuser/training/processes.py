"""The processes of one training: a single one, or those started by `torchrun` or `accelerate launch`."""

from __future__ import annotations

import atexit
import os

import torch
from torch import nn


class Processes:
    """Communication between the processes of a training; a single process needs none.

    accelerate keeps one global state per process, set on first use, which would clash with a second training on another
    device or in another precision. So it is used only with several processes, and never for precision.
    """

    def __init__(self, device: torch.device) -> None:
        """`device` is used by a single process; several on one machine divide its devices among them."""
        self._accelerator = None
        self.device, self.count, self.index = device, 1, 0
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import Accelerator

            self._accelerator = Accelerator(mixed_precision="no", cpu=device.type == "cpu")
            # Without this, a process may abort at its end, or hang the others.
            atexit.register(self._accelerator.state.destroy_process_group)
            self.device = self._accelerator.device
            self.count, self.index = self._accelerator.num_processes, self._accelerator.process_index

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.index == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over all processes."""
        return network if self._accelerator is None else self._accelerator.prepare_model(network)

    def gather(self, values: list[float]) -> torch.Tensor:
        """(processes, len(values)): the values of all processes, the same on each."""
        own = torch.tensor([values], device=self.device)
        return own if self._accelerator is None else self._accelerator.gather(own)

    def wait(self) -> None:
        """Wait until all processes get here."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()
