"""Random-length crops (Algorithm 1, lines 2 to 4), gathered by index from one tensor and never across episodes."""

from __future__ import annotations

import numpy as np
import torch

from vhdiffuser.errors import DataError
from vhdiffuser.types import FloatArray, IntArray


class Crops:
    """The training states on one device, and methods to crop them."""

    def __init__(self, states: FloatArray, ends: IntArray, device: torch.device | str = "cpu") -> None:
        """states: (N, d) normalised; ends: (E,) index one past each episode's last state."""
        if len(ends) == 0 or ends[-1] != len(states):
            raise DataError(f"the last episode must end at the last of the {len(states)} states; got ends {ends[-3:]}.")
        begins = np.concatenate([[0], ends[:-1]])
        self.states = torch.as_tensor(states, dtype=torch.float32, device=device)  # (N, d)
        self.begins = torch.as_tensor(begins, dtype=torch.int64, device=device)  # (E,)
        self.lengths = torch.as_tensor(np.asarray(ends) - begins, dtype=torch.int64, device=device)  # (E,)
        self.longest = int((np.asarray(ends) - begins).max())

    def draw(
        self, knots: int, stride: int, batch: int, generator: torch.Generator, demonstration_first: bool = False
    ) -> torch.Tensor:
        """(batch, knots, d) crops: every `stride`-th state, from starts drawn by `draw_starts`."""
        starts = self.draw_starts((knots - 1) * stride + 1, batch, generator, demonstration_first)
        return self.cut(starts, knots, stride)

    def cut(self, starts: torch.Tensor, knots: int, stride: int) -> torch.Tensor:
        """Crops at given starts, (B,) -> (B, knots, d): every `stride`-th state."""
        offsets = torch.arange(knots, device=starts.device) * stride  # (K,)
        return self.states[starts[:, None] + offsets[None, :]]

    def draw_starts(
        self, length: int, batch: int, generator: torch.Generator, demonstration_first: bool = False
    ) -> torch.Tensor:
        """(batch,) uniformly drawn indices from which `length` consecutive states lie in one episode.

        With `demonstration_first`, an episode is drawn uniformly from those that are long enough, then i ~ {0..T-L}.
        """
        valid = (self.lengths - (length - 1)).clamp(min=0)  # (E,) starts 0..T-L
        upto = valid.cumsum(0)
        total = int(upto[-1])
        if total == 0:
            raise DataError(
                f"no episode has the {length} states of one crop; the longest has {self.longest}. Train with a "
                "smaller T_max or horizon, or on longer episodes."
            )
        if demonstration_first:
            enough = valid.nonzero()[:, 0]
            episode = enough[torch.randint(len(enough), (batch,), generator=generator, device=upto.device)]
            uniform = torch.rand(batch, generator=generator, device=upto.device, dtype=torch.float64)
            return self.begins[episode] + (uniform * valid[episode]).long().clamp(max=valid[episode] - 1)
        rank = torch.randint(total, (batch,), generator=generator, device=upto.device)
        episode = torch.searchsorted(upto, rank, right=True)
        return self.begins[episode] + rank - (upto - valid)[episode]
