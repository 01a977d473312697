"""Routes in the middle of the data: paths of points, relaxed away from its edges."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import FloatArray

_CENTRINGS = 4
"""Number of iterations that centre a route in the surrounding data."""


def evenly(path: FloatArray, count: int) -> FloatArray:
    """(count, goal_dim) points, evenly spaced along a path (n, goal_dim)."""
    travelled = np.cumsum(np.linalg.norm(np.diff(path, axis=0, prepend=path[:1]), axis=1))
    distances = np.linspace(0.0, travelled[-1], count)
    return np.stack([np.interp(distances, travelled, column) for column in path.T], axis=1)


def to_the_middle(path: FloatArray, places: FloatArray, reach: FloatArray, spacing: float) -> FloatArray:
    """A path (n, goal_dim) relaxed to the middle of the data, as points `spacing` apart.

    Landmarks (M, goal_dim) cover the data evenly, so the mean of those in a box around a point, of half sides `reach`
    (goal_dim,), lies farther from the data's edge, up to the middle of a corridor.
    """
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    points = evenly(path, max(3, int(length / spacing) + 1))
    columns = (places / reach).astype(np.float32).T  # (goal_dim, M)
    for _ in range(_CENTRINGS):
        inner = points[1:-1]
        near = _in_box((inner / reach).astype(np.float32), columns)  # (n, M)
        count = near.sum(axis=1, keepdims=True)
        points[1:-1] = np.where(count > 0, near @ places / np.maximum(count, 1), inner)
        points[1:-1] = (points[:-2] + 2 * points[1:-1] + points[2:]) / 4
        points = evenly(points, len(points))
    return points.astype(np.float32)


def _in_box(points: FloatArray, columns: FloatArray) -> FloatArray:
    """(n, M): 1 where landmark columns (goal_dim, M) are in the box of half side 1 around points (n, goal_dim)."""
    distance = np.abs(points[:, :1] - columns[0])
    for dim in range(1, len(columns)):
        np.maximum(distance, np.abs(points[:, dim, None] - columns[dim]), out=distance)
    return (distance <= 1).astype(np.float32)
