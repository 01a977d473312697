"""Building blocks of a route graph: landmarks that cover the data, and moves observed between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.types import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

_LAGS = 6
"""Number of hop lengths tried, between m and 2m steps."""
CANDIDATES = 20_000
"""Number of states from which landmarks are chosen and speed is measured."""


def cover(points: FloatArray, count: int) -> tuple[FloatArray, float]:
    """Farthest-point sampling: at most `count` of the (n, goal_dim) points, and their covering radius."""
    chosen = [0]
    distance = np.abs(points - points[0]).max(axis=1)
    while len(chosen) < min(count, len(points)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).max(axis=1))
    return points[chosen], float(distance.max())


def centred(places: FloatArray, crowd: FloatArray) -> tuple[FloatArray, float]:
    """Move landmarks (M, goal_dim) to the mean of their nearest states (n, goal_dim); also returns the covering radius.

    Farthest points lie at the edge of the data, along walls; means lie inside. A landmark without states stays where it
    is.
    """
    from scipy.spatial import cKDTree

    M = len(places)
    region = cKDTree(places).query(crowd, p=np.inf)[1]
    count = np.bincount(region, minlength=M)
    sums = np.stack([np.bincount(region, weights=column, minlength=M) for column in crowd.T], axis=1)
    means = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], places)
    distance = cKDTree(means).query(crowd, p=np.inf)[0]
    return means, float(np.quantile(distance, 0.999))


def steps_to_move(points: FloatArray, last: IntArray, distance: float, T_max: int) -> int | None:
    """Steps in which a travelling state moves `distance`; None if that exceeds an eighth of T_max.

    The half of all states that gets farthest within an eighth of T_max counts as travelling; the others may be idle.
    """
    start = np.arange(0, len(points), max(1, len(points) // CANDIDATES))
    longest = max(T_max // 8, 1)
    reached = np.minimum(start + longest, last[start])
    total = np.abs(points[reached] - points[start]).max(axis=1)
    start = start[total >= np.median(total)]
    for lag in range(1, longest + 1):
        kept = start[start + lag <= last[start]]
        if len(kept) and np.median(np.abs(points[kept + lag] - points[kept]).max(axis=1)) >= distance:
            return lag
    return None


def observed_hops(
    points: FloatArray, last: IntArray, tree: cKDTree, radius: float, m: int, config: RelayGraphConfig
) -> FloatArray:
    """(M, M) steps between landmarks: a low quantile of observed moves of m to 2m steps.

    0 means no hop, as in scipy's sparse graphs.
    """
    M = tree.n
    lags = np.unique(np.linspace(m, 2 * m, _LAGS).round().astype(int))
    neighbours = min(config.neighbours, M) if radius > 0 else 1
    moves = max(config.moves // (len(lags) * neighbours), 1)  # for each lag
    counts = np.empty((len(lags), M * M), np.int32)
    for row, lag in zip(counts, lags, strict=True):
        t = np.flatnonzero(np.arange(len(points)) + lag <= last)
        t = t[:: max(1, len(t) // moves)]
        start = tree.query(points[t], k=[*range(1, neighbours + 1)], p=np.inf)[1]  # (n, neighbours)
        shifted = tree.data[start] + (points[t + lag] - points[t])[:, None]  # (n, neighbours, goal_dim)
        # Slightly over the radius: a limit of 0 would find nothing in a grid world.
        distance, stop = tree.query(shifted, p=np.inf, distance_upper_bound=radius + 1e-6)
        known = np.isfinite(distance)
        row[:] = np.bincount(start[known] * M + stop[known], minlength=M * M)
    np.cumsum(counts, axis=0, out=counts)
    total = counts[-1]
    first = (counts >= np.maximum(config.quantile * total, 1)).argmax(axis=0)
    hops = np.where(total >= config.least, lags[first], 0).reshape(M, M)
    np.fill_diagonal(hops, 0)
    return hops


def nearest_of(places: FloatArray, chosen: IntArray, limit: float) -> IntArray:
    """(M,) the nearest of the chosen landmarks (E,) to each of (M, goal_dim); itself if none is within `limit`."""
    nearest, known = np.arange(len(places)), np.unique(chosen)
    if not len(known):
        return nearest
    for alone in np.setdiff1d(nearest, known).tolist():
        distance = np.abs(places[known] - places[alone]).max(axis=1)
        if distance.min() <= limit:
            nearest[alone] = known[distance.argmin()]
    return nearest
