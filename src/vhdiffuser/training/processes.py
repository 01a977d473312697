"""The processes that train together: one, or those that `torchrun` or `accelerate launch` started."""

from __future__ import annotations

import atexit
import os

import torch
from torch import nn


class Processes:
    """What a training asks of its fellow processes. A process on its own needs nobody, and leaves no trace.

    accelerate keeps one state per process, set by whoever comes first; training twice with different devices or
    precisions would meet it. So it is asked only where there are several processes, and never for precision.
    """

    def __init__(self, device: torch.device) -> None:
        """`device` is where a process on its own computes; several on one machine share its devices out."""
        self._accelerator = None
        self.device, self.count, self.index = device, 1, 0
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import Accelerator

            self._accelerator = Accelerator(mixed_precision="no", cpu=device.type == "cpu")
            # A process that ends without it may abort, or hang the others.
            atexit.register(self._accelerator.state.destroy_process_group)
            self.device = self._accelerator.device
            self.count, self.index = self._accelerator.num_processes, self._accelerator.process_index

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.index == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network whose gradients are averaged over all processes."""
        return network if self._accelerator is None else self._accelerator.prepare_model(network)

    def gather(self, values: list[float]) -> torch.Tensor:
        """(processes, len(values)): everyone's values, the same for all."""
        own = torch.tensor([values], device=self.device)
        return own if self._accelerator is None else self._accelerator.gather(own)

    def wait(self) -> None:
        """Until all have come here."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()
