"""Free space between axis-aligned walls, (n, 4) as x_low, x_high, y_low, y_high."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import BoolArray, FloatArray


def extent(walls: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(2,) lower and (2,) upper corner of the bounding box of all walls: the maze."""
    return walls[:, [0, 2]].min(axis=0), walls[:, [1, 3]].max(axis=0)


def narrowest(walls: FloatArray) -> float:
    """Shortest side of all walls: the thickness of the thinnest one."""
    return float(min((walls[:, 1] - walls[:, 0]).min(), (walls[:, 3] - walls[:, 2]).min()))


def inside(walls: FloatArray, points: FloatArray) -> BoolArray:
    """(..., 2) -> (...,) whether a point lies in the maze, including its walls."""
    low, high = extent(walls)
    return np.asarray(((points >= low) & (points <= high)).all(axis=-1))


def wall_distance(walls: FloatArray, points: FloatArray) -> FloatArray:
    """(..., 2) -> (...,) distance to the nearest wall; 0 inside a wall and outside the maze."""
    x, y = points[..., 0, None], points[..., 1, None]
    aside = np.maximum(np.maximum(walls[:, 0] - x, x - walls[:, 1]), 0.0)
    along = np.maximum(np.maximum(walls[:, 2] - y, y - walls[:, 3]), 0.0)
    return np.where(inside(walls, points), np.hypot(aside, along).min(axis=-1), 0.0)


def draw_free(walls: FloatArray, clearance: float, rng: np.random.Generator) -> FloatArray:
    """(2,) a point drawn uniformly from the space at least `clearance` from all walls."""
    low, high = extent(walls)
    while True:
        point = rng.uniform(low, high)
        if wall_distance(walls, point) >= clearance:
            return point
