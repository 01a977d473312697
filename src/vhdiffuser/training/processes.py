"""Processes of one training: a single one, or those started by `torchrun` or `accelerate launch`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch

from vhdiffuser.errors import VhdError

_SILENCE = timedelta(minutes=10)
"""A process that has not communicated for this long counts as lost: a machine may vanish without notice."""


class Processes:
    """Communication between the processes of a training; a single process needs none.

    accelerate keeps one global state per process, set on first use, which would clash with a second training on another
    device or in another precision. So it is used only with several processes, and never for precision.
    """

    def __init__(self, device: torch.device) -> None:
        """`device` applies to a single process; several processes on one machine share its devices."""
        self._accelerator = None
        self.device, self.count, self.index = device, 1, 0
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from accelerate import Accelerator, InitProcessGroupKwargs

            with _together():
                self._accelerator = Accelerator(
                    mixed_precision="no",
                    cpu=device.type == "cpu",
                    kwargs_handlers=[InitProcessGroupKwargs(timeout=_SILENCE)],
                )
            # Otherwise a process may abort at exit, or block the others.
            atexit.register(self._accelerator.state.destroy_process_group)
            self.device = self._accelerator.device
            self.count, self.index = self._accelerator.num_processes, self._accelerator.process_index

    @property
    def first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.index == 0

    def share(self, mini_batches: int) -> range:
        """Indices of this process's mini-batches in an update."""
        return range(self.index, mini_batches, self.count)

    def add_up(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message."""
        if self._accelerator is None:
            return
        own = list(tensors)
        with _together():
            total = self._accelerator.reduce(torch.cat([tensor.flatten() for tensor in own]), "sum")
        for tensor, part in zip(own, total.split([tensor.numel() for tensor in own]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def gather(self, values: list[float]) -> torch.Tensor:
        """(processes, len(values)) values of all processes, equal on each."""
        own = torch.tensor([values], device=self.device)
        if self._accelerator is None:
            return own
        with _together():
            return self._accelerator.gather(own)

    def wait(self) -> None:
        """Wait for all processes."""
        if self._accelerator is not None:
            with _together():
                self._accelerator.wait_for_everyone()


@contextmanager
def _together() -> Iterator[None]:
    """Turn torch's RuntimeError about a lost connection into a readable message."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0][:200]
        raise VhdError(
            f"another process of this training ended or cannot be reached ({reason}). Checkpoints are kept: run "
            "the same command to continue from the last one, with any number of processes that can share its "
            "updates."
        ) from error
