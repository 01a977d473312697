"""What OGBench's data collection knows of a maze: cells to start in, cells to go to, and the next cell on the way."""

from __future__ import annotations

from collections import deque

import numpy as np

from vhdiffuser.envs.locomaze.maze import cell_centre
from vhdiffuser.types import FloatArray, IntArray

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1))


def free_cells(maze_map: IntArray) -> IntArray:
    """(n, 2) cells without a wall."""
    return np.argwhere(maze_map == 0)


def vertex_cells(maze_map: IntArray) -> IntArray:
    """(n, 2) free cells that are no straight corridor: the goals of `navigate`."""
    cells = []
    for i, j in free_cells(maze_map):
        upright = (maze_map[i - 1, j], maze_map[i + 1, j])
        level = (maze_map[i, j - 1], maze_map[i, j + 1])
        if (upright, level) not in (((0, 0), (1, 1)), ((1, 1), (0, 0))):
            cells.append((i, j))
    return np.array(cells)


def cells_at(start: tuple[int, ...], distance: int, maze_map: IntArray) -> IntArray:
    """(n, 2) cells whose shortest way from `start` has so many cells; `start` alone where there are none."""
    found = np.argwhere(steps_to(start, maze_map) == distance)
    return found if len(found) else np.array([start])


def subgoal_table(maze_map: IntArray) -> FloatArray:
    """(I, J, I, J, 2): [goal cell, present cell] -> centre of the next cell, as OGBench's `get_oracle_subgoal`.

    Its breadth-first search depends on the two cells only, and costs as much as the physics of a step.
    """
    shape = maze_map.shape
    table = np.empty((*shape, *shape, 2))
    for goal in np.ndindex(*shape):
        steps = steps_to(goal, maze_map)
        for here in np.ndindex(*shape):
            best = here
            for di, dj in _NEIGHBOURS:
                there = (here[0] + di, here[1] + dj)
                if _is_free(there, maze_map) and steps[there] < steps[best]:
                    best = there
            table[goal][here] = cell_centre(best)
    return table


def steps_to(goal: tuple[int, ...], maze_map: IntArray) -> IntArray:
    """Cells to walk from each cell to the goal's; -1 where there is no way."""
    goal = (int(goal[0]), int(goal[1]))
    steps = np.full(maze_map.shape, -1)
    steps[goal] = 0
    queue = deque([goal])
    while queue:
        here = queue.popleft()
        for di, dj in _NEIGHBOURS:
            there = (here[0] + di, here[1] + dj)
            if _is_free(there, maze_map) and steps[there] == -1:
                steps[there] = steps[here] + 1
                queue.append(there)
    return steps


def _is_free(cell: tuple[int, ...], maze_map: IntArray) -> bool:
    inside = 0 <= cell[0] < maze_map.shape[0] and 0 <= cell[1] < maze_map.shape[1]
    return inside and maze_map[cell] == 0
