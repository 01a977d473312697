"""Plans read as paths: by distance from the point nearest to the robot, rather than by time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhdiffuser.types import FloatArray

_WINDOW = 32
"""Points of each path read at first; more if they do not reach far enough."""


def nearest(path: FloatArray, place: FloatArray) -> int:
    """Index of the point on a path (L, g) nearest to a position (g,)."""
    return int(np.square(path - place).sum(axis=1).argmin())


def along_paths(
    states: Sequence[FloatArray], dims: Sequence[int], places: FloatArray, distances: FloatArray
) -> FloatArray:
    """(B, n, g) points on B paths, `distances` (n,) past the point nearest to `places` (B, g).

    Paths are the dimensions `dims` (g,) of states (L, d). Past the end of a path, its last point is returned. Rows are
    independent.
    """
    lengths = np.array([len(path) for path in states])
    ends = np.cumsum(lengths)
    begins = ends - lengths
    # All points in one array, coordinates first: numpy is slow at sums over two or three numbers.
    points = np.concatenate(states).T[list(dims)]  # (g, all points)
    squared = _sum_of_squares(points - np.repeat(places.T, lengths, axis=1))
    least = np.flatnonzero(squared == np.repeat(np.minimum.reduceat(squared, begins), lengths))
    here = least[np.searchsorted(least, begins)]  # the first of several equally near
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
    """(B, n, g): `np.interp(distances, travelled[row], points[dim, row])` for each row and dimension."""
    last = travelled.shape[1] - 1
    before = np.stack([(travelled <= distance).sum(axis=1) for distance in distances], axis=1) - 1  # (B, n)
    begin, rows = np.minimum(before, last - 1), np.arange(len(travelled))[:, None]
    low, high = points[:, rows, begin].astype(float), points[:, rows, begin + 1].astype(float)  # (g, B, n)
    from_low, gap = distances - travelled[rows, begin], travelled[rows, begin + 1] - travelled[rows, begin]
    slope = (high - low) / np.where(gap > 0, gap, 1.0)  # a gap of 0 is read only past the end
    return np.moveaxis(np.where(before == last, high, slope * from_low + low), 0, -1)
