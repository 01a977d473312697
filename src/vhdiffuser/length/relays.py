"""Multi-hop relays: shortest paths through landmarks of the dataset, from observed moves alone.

The triangle bound D*(s, g) <= D*(s, h) + D*(h, g) with one relay h and learned distances propagates slowly
from near to far pairs, and the minimum of many noisy estimates is biased low. Here the same inequality is
used with many relays and *observed* distances: landmarks cover the goal space, a hop connects two of them
if states near one were observed to move to the other, and Dijkstra's algorithm sums the hops. Two details
keep the sum unbiased: a move observed near a landmark is shifted onto it, so that hops do not gain the width
of a region, and joining two hops costs the steps needed to move one region's radius.
Only offline states are used.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.types import FloatArray, IntArray

_LAGS = 6
"""Number of hop lengths tried, between m and 2m steps."""
_CANDIDATES = 20_000
"""States from which landmarks are chosen and speed is estimated."""


class RelayGraph:
    """Steps between any two states of the dataset through landmarks."""

    def __init__(self, goals: torch.Tensor, last: torch.Tensor, T_max: int, config: RelayGraphConfig) -> None:
        """goals (N, goal_dim), normalised; last (N,) index of the last state of each state's episode."""
        points, ends = goals.cpu().numpy(), last.cpu().numpy()
        self.landmarks, self.radius = cover(points[:: max(1, len(points) // _CANDIDATES)], config.landmarks)
        tree = cKDTree(self.landmarks)
        self.m = steps_to_move(points, ends, self.radius, T_max)
        if self.m is None:
            # Regions are too coarse (too many goal dimensions, too little data): better no bound than a wrong one.
            steps = np.full((len(self.landmarks),) * 2, np.inf)
        else:
            hops = observed_hops(points, ends, tree, self.radius, self.m, config)
            join = self.m if self.radius > 0 else 0
            steps = shortest_path(np.where(hops > 0, hops + join, 0)) - join
        self._least = config.floor * T_max
        self._steps = torch.from_numpy(steps.astype(np.float32)).to(goals.device)
        region = tree.query(points, p=np.inf)[1].astype(np.int32)  # (N,) nearest landmark
        self.region = torch.from_numpy(region).to(goals.device)

    def steps(self, start: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Dataset indices (...,) -> (...,) steps from state `start` to state `goal`; infinity if no path is known.

        Never below the floor: landmarks ignore velocities, which matter most at short distances.
        """
        return self._steps[self.region[start].long(), self.region[goal].long()].clamp(min=self._least)

    def bound(self, t: torch.Tensor, links: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """D*(s_t, g_u) <= min over k of k + steps(s_{t+k}, g_u): (B,), (B, |K|), (B,) -> (B,) steps.

        The links follow s's own episode first, which reflects its velocity; landmarks do not.
        """
        return (links + self.steps(t[:, None] + links, u[:, None])).amin(dim=1)


def cover(points: FloatArray, count: int) -> tuple[FloatArray, float]:
    """Farthest-point sampling: at most `count` of the (n, goal_dim) points, and their covering radius."""
    chosen = [0]
    distance = np.abs(points - points[0]).max(axis=1)
    while len(chosen) < min(count, len(points)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).max(axis=1))
    return points[chosen], float(distance.max())


def steps_to_move(points: FloatArray, last: IntArray, distance: float, T_max: int) -> int | None:
    """Steps in which the median state moves `distance`; None if that is more than an eighth of T_max."""
    start = np.arange(0, len(points), max(1, len(points) // _CANDIDATES))
    for lag in range(1, max(T_max // 8, 1) + 1):
        kept = start[start + lag <= last[start]]
        if len(kept) and np.median(np.abs(points[kept + lag] - points[kept]).max(axis=1)) >= distance:
            return lag
    return None


def observed_hops(
    points: FloatArray, last: IntArray, tree: cKDTree, radius: float, m: int, config: RelayGraphConfig
) -> FloatArray:
    """(M, M) steps from landmark to landmark: a low quantile of the observed moves of m to 2m steps.

    0 where there is no hop, as scipy's graphs require.
    """
    M = tree.n
    lags = np.unique(np.linspace(m, 2 * m, _LAGS).round().astype(int))
    neighbours = min(config.neighbours, M) if radius > 0 else 1
    moves = max(config.moves // (len(lags) * neighbours), 1)  # of each lag
    counts = np.empty((len(lags), M * M), np.int32)
    for row, lag in zip(counts, lags, strict=True):
        t = np.flatnonzero(np.arange(len(points)) + lag <= last)
        t = t[:: max(1, len(t) // moves)]
        start = tree.query(points[t], k=[*range(1, neighbours + 1)], p=np.inf)[1]  # (n, neighbours)
        shifted = tree.data[start] + (points[t + lag] - points[t])[:, None]  # (n, neighbours, goal_dim)
        # Just over the radius: a limit of 0 would find nothing in a grid world.
        distance, stop = tree.query(shifted, p=np.inf, distance_upper_bound=radius + 1e-6)
        known = np.isfinite(distance)
        row[:] = np.bincount(start[known] * M + stop[known], minlength=M * M)
    np.cumsum(counts, axis=0, out=counts)
    total = counts[-1]
    first = (counts >= np.maximum(config.quantile * total, 1)).argmax(axis=0)
    hops = np.where(total >= config.least, lags[first], 0).reshape(M, M)
    np.fill_diagonal(hops, 0)
    return hops
