"""Maps of point mazes, in the frame of D4RL's maze2d: cell (row, column) is centred at (row - 0.2, column - 0.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import dedent

import numpy as np

from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray, IntArray

BALL_RADIUS = 0.1
CELL_OFFSET = -0.2
"""Centre of cell (0, 0) in the ball's coordinates."""
SMALLEST, LARGEST = 3, 100
"""Minimum and maximum number of rows and columns of a map, including its outer walls."""
_FREE = {"O", "G", " ", ".", "0"}
_WALL = {"#", "1"}


@dataclass(frozen=True)
class Maze:
    """A map: `#` wall, `O` free, `G` free and the fixed goal. Rows are x, columns are y; the border is wall."""

    rows: tuple[str, ...]
    """One string per row, all of the same length."""

    def __post_init__(self) -> None:
        sizes = {len(row) for row in self.rows}
        if len(sizes) != 1 or not (SMALLEST <= len(self.rows) <= LARGEST and SMALLEST <= min(sizes) <= LARGEST):
            raise VhdError(
                f"a maze needs {SMALLEST} to {LARGEST} rows of {SMALLEST} to {LARGEST} cells, all of equal "
                f"length; got {len(self.rows)} rows of {sorted(sizes)} cells."
            )
        if wrong := {tile for row in self.rows for tile in row} - {"#", "O", "G"}:
            raise VhdError(f"a map consists of # (wall), O (free) and G (goal); got {sorted(wrong)}.")
        rim = self.rows[0] + self.rows[-1] + "".join(row[0] + row[-1] for row in self.rows)
        if set(rim) != {"#"}:
            raise VhdError("all outer cells of a maze must be walls (#); otherwise the ball could leave it.")
        if sum(row.count("G") for row in self.rows) > 1:
            raise VhdError("a maze may have at most one fixed goal (G).")
        if len(self.free_cells) < 2:
            raise VhdError("a maze needs at least two free cells (O), to move between them.")
        if len(self._reached(tuple(self.free_cells[0]))) < len(self.free_cells):
            raise VhdError("all free cells of a maze must be connected; this one has disconnected parts.")

    @classmethod
    def of(cls, maze: str | Sequence[str] | FloatArray | Sequence[Sequence[int]] | Maze) -> Maze:
        """Parse a map: text (lines of `#` and `O`, or `1` and `0`), a list of rows, or an array (1 wall, 0 free)."""
        if isinstance(maze, Maze):
            return maze
        if isinstance(maze, str):
            lines = dedent(maze).strip("\n").splitlines()
        elif not isinstance(maze, Iterable):
            raise VhdError(f"a maze must be text, a list of rows or an array (1 wall, 0 free); got {maze!r}.")
        elif all(isinstance(row, str) for row in maze):
            lines = [str(row) for row in maze]
        else:
            shapes = {np.shape(row) for row in maze}
            if any(len(shape) != 1 for shape in shapes) or not all(np.isin(row, (0, 1)).all() for row in maze):
                raise VhdError(f"an array for a maze needs rows of 1 (wall) and 0 (free); got rows of shape {shapes}.")
            lines = ["".join("#" if cell else "O" for cell in row) for row in maze]
        return cls(tuple("".join(_tile(tile) for tile in line.rstrip()) for line in lines))

    @cached_property
    def free_cells(self) -> IntArray:
        """(n, 2) rows and columns of the cells that are not walls."""
        return np.array([(r, c) for r, row in enumerate(self.rows) for c, tile in enumerate(row) if tile != "#"])

    @cached_property
    def goal_cell(self) -> IntArray:
        """(2,) row and column of the fixed goal; the last free cell if none is marked."""
        marked = [(r, row.index("G")) for r, row in enumerate(self.rows) if "G" in row]
        return np.array(marked[0]) if marked else self.free_cells[-1]

    @cached_property
    def walls(self) -> FloatArray:
        """(n, 4) walls as x_low, x_high, y_low, y_high in the ball's coordinates."""
        cells = np.array([(r, c) for r, row in enumerate(self.rows) for c, tile in enumerate(row) if tile == "#"])
        x, y = cells[:, 0] + CELL_OFFSET, cells[:, 1] + CELL_OFFSET
        return np.stack([x - 0.5, x + 0.5, y - 0.5, y + 0.5], axis=1)

    def is_free(self, row: int, column: int) -> bool:
        """Whether the ball may be in a cell."""
        return 0 <= row < len(self.rows) and 0 <= column < len(self.rows[0]) and self.rows[row][column] != "#"

    def cell_place(self, row: int, column: int) -> FloatArray:
        """(2,) where D4RL places the ball for a cell: at (row, column), 0.2 off its centre."""
        if not self.is_free(row, column):
            raise VhdError(
                f"cell ({row}, {column}) is a wall or outside the maze; {tuple(self.free_cells[0].tolist())}, "
                "for example, is free."
            )
        return np.array([row, column], np.float32)

    def clearance(self, positions: FloatArray) -> FloatArray:
        """Distance from (..., 2) positions to the nearest wall; 0 inside a wall and outside the maze."""
        return wall_distance(self.walls, positions)

    @property
    def longest_way(self) -> int:
        """Cells on the longest shortest path between two free cells, both ends included."""
        return max(max(self._reached(tuple(cell)).values()) for cell in self.free_cells) + 1

    def _reached(self, start: tuple[int, ...]) -> dict[tuple[int, int], int]:
        """Cells reachable from `start`, with the number of moves to each."""
        first = (int(start[0]), int(start[1]))
        moves, queue = {first: 0}, [first]
        for r, c in queue:
            for other in ((r, c - 1), (r, c + 1), (r - 1, c), (r + 1, c)):
                if self.is_free(*other) and other not in moves:
                    moves[other] = moves[r, c] + 1
                    queue.append(other)
        return moves


def _tile(tile: str) -> str:
    if tile in _WALL:
        return "#"
    return "G" if tile == "G" else "O" if tile in _FREE else tile


UMAZE = Maze(("#####", "#GOO#", "###O#", "#OOO#", "#####"))
MEDIUM = Maze(("########", "#OO##OO#", "#OO#OOO#", "##OOO###", "#OO#OOO#", "#O#OO#O#", "#OOO#OG#", "########"))
LARGE = Maze(
    (
        "############",
        "#OOOO#OOOOO#",
        "#O##O#O#O#O#",
        "#OOOOOO#OOO#",
        "#O####O###O#",
        "#OO#O#OOOOO#",
        "##O#O#O#O###",
        "#OO#OOO#OGO#",
        "############",
    )
)
