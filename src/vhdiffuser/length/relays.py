"""The route graph in training: steps between any two states of the dataset, through landmarks.

The triangle bound D*(s, g) <= D*(s, h) + D*(h, g) with one relay h and learned distances propagates slowly from near to
far pairs, and the minimum of many noisy estimates is biased low. `RouteGraph` sums many observed hops instead.
"""

from __future__ import annotations

import torch

from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.route import RouteGraph


class RelayGraph:
    """Steps between states given by dataset indices."""

    def __init__(self, goals: torch.Tensor, last: torch.Tensor, T_max: int, config: RelayGraphConfig) -> None:
        """goals (N, goal_dim), normalised; last (N,) index of the last state in each state's episode."""
        points = goals.cpu().numpy()
        self.routes = RouteGraph.build(points, last.cpu().numpy(), T_max, config)
        self._least = config.floor * T_max
        self._steps = torch.from_numpy(self.routes.all_steps()).to(goals.device)
        self.region = torch.from_numpy(self.routes.region(points).astype("int32")).to(goals.device)

    def steps(self, start: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """(...,) steps from states `start` to states `goal`, given by dataset indices (...,); infinity if no path is
        known.

        Never below the floor: landmarks ignore velocities, which matter most at short distances.
        """
        return self._steps[self.region[start].long(), self.region[goal].long()].clamp(min=self._least)

    def bound(self, t: torch.Tensor, links: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """D*(s_t, g_u) <= min over k of k + steps(s_{t+k}, g_u): (B,), (B, |K|), (B,) -> (B,) steps.

        The links first follow s's own episode, which reflects its velocity; landmarks do not.
        """
        return (links + self.steps(t[:, None] + links, u[:, None])).amin(dim=1)
