"""Point mazes with walls added or removed. The simulator uses the new map; the planner was trained on the old one."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.maze2d.environments import make_maze
from vhdiffuser.envs.maze2d.maze import CELL_OFFSET, Maze
from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray
from vhdiffuser.web.library import Loaded, SimulatorPool
from vhdiffuser.web.replies import MapReply

_KEPT = 8
"""Number of edited maps whose simulators stay cached."""


def map_of(loaded: Loaded) -> MapReply | None:
    """The editable map of a point maze; None for other environments."""
    maze = getattr(loaded.env, "maze", None)
    if not isinstance(maze, Maze):
        return None
    return MapReply(rows=list(maze.rows), origin=[CELL_OFFSET, CELL_OFFSET], cell=1.0)


def with_map(loaded: Loaded, rows: list[str] | None) -> Loaded:
    """The environment with an edited map; planner and Length Predictor still know only the original."""
    if rows is None:
        return loaded
    known = getattr(loaded.env, "maze", None)
    if not isinstance(known, Maze):
        raise VhdError(f"{loaded.spec.name}: walls can only be edited in point mazes such as maze2d-large.")
    maze = Maze(tuple(rows))
    if (len(maze.rows), len(maze.rows[0])) != (len(known.rows), len(known.rows[0])):
        raise VhdError(
            f"{loaded.spec.name}: an edited map must keep its {len(known.rows)} rows of {len(known.rows[0])} "
            f"cells; got {len(maze.rows)} rows of {len(maze.rows[0])}."
        )
    if maze.rows == known.rows:
        return loaded
    environment, pool = _built(loaded.environment.name, maze, loaded.spec.epsilon, loaded.spec.T_max)
    return replace(
        loaded,
        environment=replace(loaded.environment, geometry=environment.geometry, simulator=environment.simulator),
        env=pool.first,
        pool=pool if loaded.pool is not None else None,
        new_walls=_added(known, maze),
    )


@lru_cache(maxsize=_KEPT)
def _built(name: str, maze: Maze, epsilon: float, T_max: int) -> tuple[Environment, SimulatorPool]:
    environment = make_maze(maze, name, epsilon=epsilon, T_max=T_max)
    return environment, SimulatorPool(environment.make, environment.make())


def _added(known: Maze, maze: Maze) -> FloatArray:
    """(n, 2, 2) lower and upper corners of walls that the original map lacks."""
    new = [wall for wall in maze.walls.tolist() if wall not in known.walls.tolist()]
    return np.array([[(x0, y0), (x1, y1)] for x0, x1, y0, y1 in new], np.float32).reshape(-1, 2, 2)
