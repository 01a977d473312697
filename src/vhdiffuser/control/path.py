"""Reading plans as paths: from the point nearest to the robot on, by distance instead of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhdiffuser.types import FloatArray

_WINDOW = 32
"""Points of each path that are read at first; more where they do not reach far enough."""


def nearest(path: FloatArray, place: FloatArray) -> int:
    """Index of the point of a path (L, g) that is nearest to a place (g,)."""
    return int(np.square(path - place).sum(axis=1).argmin())


def along_paths(
    states: Sequence[FloatArray], dims: Sequence[int], places: FloatArray, distances: FloatArray
) -> FloatArray:
    """(B, n, g) points of B paths: `distances` (n,) further along than the point nearest to `places` (B, g).

    Paths are the `dims` (g,) of states (L, d). Beyond the end of a path, its end. A row depends on no other.
    """
    lengths = np.array([len(path) for path in states])
    ends = np.cumsum(lengths)
    begins = ends - lengths
    # All points in one row, and coordinates first: numpy is slow in sums over two or three numbers.
    points = np.concatenate(states).T[list(dims)]  # (g, all points)
    squared = _sum_of_squares(points - np.repeat(places.T, lengths, axis=1))
    least = np.flatnonzero(squared == np.repeat(np.minimum.reduceat(squared, begins), lengths))
    here = least[np.searchsorted(least, begins)]  # the first, where several are equally near
    farthest, window = float(np.max(distances)), _WINDOW
    while True:
        rest = points[:, np.minimum(here[:, None] + np.arange(window), ends[:, None] - 1)]  # (g, B, window)
        gaps = np.sqrt(_sum_of_squares(np.diff(rest, axis=2)))
        travelled = np.concatenate([np.zeros((len(states), 1)), np.cumsum(gaps, axis=1)], axis=1)
        if ((travelled[:, -1] > farthest) | (here + window >= ends)).all():
            return _interpolated(np.asarray(distances, float), travelled, rest)
        window *= 2


def _sum_of_squares(vectors: FloatArray) -> FloatArray:
    """(g, ...) -> (...)."""
    total = np.square(vectors[0])
    for coordinate in vectors[1:]:
        total += np.square(coordinate)
    return total


def _interpolated(distances: FloatArray, travelled: FloatArray, points: FloatArray) -> FloatArray:
    """(B, n, g): as `np.interp(distances, travelled[row], points[dim, row])` for every row and dimension."""
    last = travelled.shape[1] - 1
    before = np.stack([(travelled <= distance).sum(axis=1) for distance in distances], axis=1) - 1  # (B, n)
    begin, rows = np.minimum(before, last - 1), np.arange(len(travelled))[:, None]
    low, high = points[:, rows, begin].astype(float), points[:, rows, begin + 1].astype(float)  # (g, B, n)
    from_low, gap = distances - travelled[rows, begin], travelled[rows, begin + 1] - travelled[rows, begin]
    slope = (high - low) / np.where(gap > 0, gap, 1.0)  # a gap of 0 is only read beyond the end
    return np.moveaxis(np.where(before == last, high, slope * from_low + low), 0, -1)
