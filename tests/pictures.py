"""What a picture shows, by its colours."""

from __future__ import annotations

from pathlib import Path

import imageio.v3 as imageio
import numpy as np

BLUE, RED, YELLOW = (31, 111, 235), (214, 69, 65), (227, 160, 8)
"""Of executed paths and robots, of goals, of starts."""
WALL = (201, 204, 211)


def picture(path: Path) -> np.ndarray:
    """(height, width, 3) of a file that must be whole to be read."""
    return imageio.imread(path)[..., :3]


def pixels_of(shown: np.ndarray, colour: tuple[int, int, int]) -> np.ndarray:
    """(n, 2) rows and columns of the pixels of that colour."""
    return np.argwhere((np.abs(shown.astype(int) - colour) <= 2).all(axis=-1))


def share_in_colour(shown: np.ndarray) -> float:
    """Share of the pixels that are neither white nor black nor grey."""
    return float((np.ptp(shown.astype(int), axis=-1) > 40).mean())
