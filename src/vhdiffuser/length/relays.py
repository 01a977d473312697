"""Relays many hops long: shortest ways through landmarks of the dataset, from observed anchors alone.

The triangle bound D*(s, g) <= D*(s, h) + D*(h, g) with one relay h and learned distances takes long to
carry short distances to far pairs, and the least of many noisy estimates lies too low. Here the same
inequality is used with many relays and *observed* distances: the goal space is covered by landmarks, a hop
joins two of them when episodes went from one to the other in m to 2m steps, and Dijkstra's algorithm adds
hops up. A hop is never shorter than m steps, which is long against a landmark's region: jumping about inside
regions gains little. Nothing but the offline states is used.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree

from vhdiffuser.length.config import RelayGraphConfig

_LAGS = 16
"""Different hop lengths that are counted between m and 2m."""
_CANDIDATES = 20_000
"""States among which landmarks are chosen."""


class RelayGraph:
    """Steps between any two states of the dataset by way of landmarks."""

    def __init__(self, goals: torch.Tensor, last: torch.Tensor, T_max: int, config: RelayGraphConfig) -> None:
        """goals (N, goal_dim), normalised; last (N,) index of the last state of each state's episode."""
        points = goals.cpu().numpy()
        candidates = points[:: max(1, len(points) // _CANDIDATES)]
        self.landmarks, self.radius = cover(candidates, config.landmarks)
        region = cKDTree(self.landmarks).query(points, p=np.inf)[1]  # (N,) nearest landmark
        self.shortest_hop = _lag_of(points, last.cpu().numpy(), config.hop * self.radius, T_max)
        if self.shortest_hop is None:
            # Regions are too coarse (too many goal dimensions, too little data): rather no bound than a wrong one.
            steps = np.full((len(self.landmarks),) * 2, np.inf, np.float32)
        else:
            hops = observed_hops(region, last.cpu().numpy(), self.shortest_hop, config)
            steps = shortest_path(hops).astype(np.float32)
        self.region = torch.from_numpy(region.astype(np.int32)).to(goals.device)
        self._steps = torch.from_numpy(steps).to(goals.device)

    def steps(self, start: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Dataset indices (...,) -> (...,) steps from state `start` to state `goal`; infinity where no way is known."""
        return self._steps[self.region[start].long(), self.region[goal].long()]

    def bound(self, t: torch.Tensor, links: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """D*(s_t, g_u) <= min over k of k + steps(s_{t+k}, g_u): (B,), (B, |K|), (B,) -> (B,) steps.

        The links along s's own episode come first: they know where s is heading, landmarks do not.
        """
        return (links + self.steps(t[:, None] + links, u[:, None])).amin(dim=1)


def cover(points: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """Farthest-point sampling: at most `count` of the (n, goal_dim) points, and the radius to which they cover."""
    chosen = [0]
    distance = np.abs(points - points[0]).max(axis=1)
    while len(chosen) < min(count, len(points)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).max(axis=1))
    return points[chosen], float(distance.max())


def _lag_of(points: np.ndarray, last: np.ndarray, distance: float, T_max: int) -> int | None:
    """Steps in which the median state moves `distance`; None if that is more than a quarter of T_max."""
    start = np.arange(0, len(points), max(1, len(points) // _CANDIDATES))
    for lag in range(1, T_max // 4 + 1):
        kept = start[start + lag <= last[start]]
        if len(kept) and np.median(np.abs(points[kept + lag] - points[kept]).max(axis=1)) >= distance:
            return lag
    return None


def observed_hops(region: np.ndarray, last: np.ndarray, shortest: int, config: RelayGraphConfig) -> np.ndarray:
    """(M, M) steps from region to region, a low quantile of what was observed at `shortest` to 2 `shortest` steps.

    0 where there is no hop, as scipy's graphs want it.
    """
    M = int(region.max()) + 1
    lags = np.arange(shortest, 2 * shortest + 1, max(1, shortest // _LAGS))
    counts = np.empty((len(lags), M * M), np.int32)
    index = np.arange(len(region))
    for row, lag in zip(counts, lags, strict=True):
        inside = index[: len(region) - lag] + lag <= last[: len(region) - lag]
        pair = region[:-lag][inside] * M + region[lag:][inside]
        row[:] = np.bincount(pair, minlength=M * M)
    np.cumsum(counts, axis=0, out=counts)
    total = counts[-1]
    first = (counts >= np.maximum(config.level * total, 1)).argmax(axis=0)
    hops = np.where(total >= config.least, lags[first], 0).reshape(M, M)
    np.fill_diagonal(hops, 0)
    return hops
