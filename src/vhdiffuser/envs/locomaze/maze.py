"""OGBench's mazes without their simulator: maps, whose rows are y and columns x."""

from __future__ import annotations

from typing import Literal

import numpy as np

from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray, IntArray

MazeName = Literal["medium", "large", "giant"]

MEDIUM = ("########", "#OO##OO#", "#OO#OOO#", "##OOO###", "#OO#OOO#", "#O#OO#O#", "#OOO#OO#", "########")
"""`#` wall, `O` free."""
LARGE = (
    "############",
    "#OOOO#OOOOO#",
    "#O##O#O#O#O#",
    "#OOOOOO#OOO#",
    "#O####O###O#",
    "#OO#O#OOOOO#",
    "##O#O#O#O###",
    "#OO#OOO#OOO#",
    "############",
)
GIANT = (
    "################",
    "#O#OOOOOO##OOOO#",
    "#O#O##O#O#OO##O#",
    "#OOO#OO#OOO#OOO#",
    "#O###O######O#O#",
    "#OOO#OOO#OOOO#O#",
    "###O#O#OO#O#O###",
    "#OOO#OO#OOO#OOO#",
    "#O#O#O######O#O#",
    "#O###OOO#OOO##O#",
    "#OOOOO#OOO#OOOO#",
    "################",
)
MAZES: dict[MazeName, tuple[str, ...]] = {"medium": MEDIUM, "large": LARGE, "giant": GIANT}
CELL = 4.0
"""Side of a maze cell in metres."""
NOISE = 1.0
"""Maximum distance of starts and goals from a cell's centre, in x and in y."""
CLEARANCE = 1.0
"""Clearance of `uniform` instances: what OGBench's noise leaves in a corridor (an ant's feet reach 1.12 m, a point's
body 0.7 m)."""


def cell_centre(cell: tuple[int, int] | IntArray) -> FloatArray:
    """(2,) xy of the centre of cell (i, j)."""
    return np.array([cell[1] * CELL - CELL, cell[0] * CELL - CELL])


def cell_of(xy: FloatArray | tuple[float, float]) -> tuple[int, int]:
    """(i, j) of the cell that contains a point."""
    return int((xy[1] + 1.5 * CELL) / CELL), int((xy[0] + 1.5 * CELL) / CELL)


def cells_of(xy: FloatArray) -> IntArray:
    """(..., 2) cells (i, j) that contain points (..., 2)."""
    return ((xy[..., ::-1] + 1.5 * CELL) / CELL).astype(np.int64)


def noisy_centre(cell: tuple[int, int] | IntArray, rng: np.random.Generator) -> FloatArray:
    """(2,) a start or goal in the cell, as OGBench draws it: the centre +- 1 in x and y."""
    return cell_centre(cell) + rng.uniform(-NOISE, NOISE, 2)


def map_of(rows: tuple[str, ...]) -> IntArray:
    """(n, m): 1 wall, 0 free, as in OGBench."""
    return np.array([[int(tile == "#") for tile in row] for row in rows])


def wall_boxes(maze_map: IntArray) -> FloatArray:
    """(n, 4) walls as x_low, x_high, y_low, y_high."""
    centres = np.array([cell_centre(cell) for cell in np.argwhere(maze_map == 1)])
    x, y = centres.T
    return np.stack([x - CELL / 2, x + CELL / 2, y - CELL / 2, y + CELL / 2], axis=1)


def free_centre(rows: tuple[str, ...], row: int, column: int) -> FloatArray:
    """(2,) centre of a free cell of a map."""
    if not (0 <= row < len(rows) and 0 <= column < len(rows[0])) or rows[row][column] == "#":
        raise VhdError(f"cell ({row}, {column}) is a wall or outside the maze; (1, 1) is free.")
    return cell_centre((row, column)).astype(np.float32)
