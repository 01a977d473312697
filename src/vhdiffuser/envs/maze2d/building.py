"""Regenerate D4RL's maze2d data: its noisy waypoint controller, in our copy of its maze.

A PD law drives the ball along the cells of a shortest path to a random cell, with Gaussian
noise of 0.5 on the clipped action; when it arrives, the next target is drawn and the stream continues
without a reset. Without the noise the data is a thin line through each corridor, and planners
trained on it fail. A chunk is one stream and one episode: crops may span target changes.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from math import hypot

import numpy as np

from vhdiffuser.data.build import Parts
from vhdiffuser.envs.maze2d.maze import Maze
from vhdiffuser.envs.maze2d.simulator import MazePhysics
from vhdiffuser.types import FloatArray, IntArray

P_GAIN, D_GAIN = 10.0, -1.0
ACTION_NOISE = 0.5
WAYPOINT_JITTER = 0.2
"""Waypoints are shifted by up to this much below their cell, in each dimension; the target is not."""
ARRIVED = 0.1
"""A waypoint or target counts as reached within this distance (and this displacement per step)."""

Cell = tuple[int, int]


@lru_cache(maxsize=4096)
def _next_cells(maze: Maze, target: Cell) -> dict[Cell, Cell]:
    """For every free cell, the neighbour on a shortest path to `target`; ties as in D4RL's argmax."""
    free = {(int(r), int(c)) for r, c in maze.free_cells}
    distance = {target: 0}
    queue = deque([target])
    while queue:
        cell = queue.popleft()
        for other in _neighbours(cell):
            if other in free and other not in distance:
                distance[other] = distance[cell] + 1
                queue.append(other)
    step = {target: target}
    for cell in free - {target}:
        step[cell] = next(other for other in _neighbours(cell) if distance.get(other) == distance[cell] - 1)
    return step


def _neighbours(cell: Cell) -> list[Cell]:
    r, c = cell
    return [(r, c - 1), (r, c + 1), (r - 1, c), (r + 1, c)]


def build_chunk(maze: Maze, patience: int, transitions: int, rng: np.random.Generator) -> Parts:
    """One episode: a stream of `transitions` + 1 states and `transitions` actions."""
    states, actions, _ = stream(maze, patience, transitions, rng)
    return [(states, actions)]


def stream(
    maze: Maze, patience: int, transitions: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, IntArray]:
    """States, actions, and the steps at which the target was reached and the next one drawn.

    A target that is not reached within `patience` steps is abandoned.
    """
    cells = [(int(r), int(c)) for r, c in maze.free_cells]
    physics = MazePhysics(maze)
    start = np.array(cells[rng.integers(len(cells))]) + rng.uniform(-0.1, 0.1, 2)
    physics.set(np.concatenate([start, 0.1 * rng.standard_normal(2)]))

    states = np.empty((transitions + 1, 4))
    actions = np.empty((transitions, 2))
    noise = ACTION_NOISE * rng.standard_normal((transitions, 2))
    changes: list[int] = []
    position, velocity = physics.position, physics.velocity
    target: Cell | None = None
    wanted = cells[rng.integers(len(cells))]
    waypoints: list[tuple[float, float]] = []
    reached = since = 0
    last_x = last_y = 0.0
    # Plain floats throughout: numpy on pairs of numbers would be ten times slower here.
    for t in range(transitions):
        x, y = position.tolist()
        vx, vy = velocity.tolist()
        states[t] = x, y, vx, vy
        if wanted != target:
            here = (round(x), round(y))
            waypoints, reached, target = _waypoints(maze, here, wanted, rng), 0, wanted
            last_x, last_y = here
        moved = hypot(x - last_x, y - last_y)
        arrived = hypot(x - target[0], y - target[1]) < ARRIVED and moved < ARRIVED
        aim_x, aim_y = target if arrived else waypoints[reached]
        push_x = min(max(P_GAIN * (aim_x - x) + D_GAIN * vx, -1.0), 1.0) + noise[t, 0]
        push_y = min(max(P_GAIN * (aim_y - y) + D_GAIN * vy, -1.0), 1.0) + noise[t, 1]
        action = (min(max(push_x, -1.0), 1.0), min(max(push_y, -1.0), 1.0))
        if not arrived and moved < ARRIVED and hypot(x - aim_x, y - aim_y) < ARRIVED:
            reached += 1
        last_x, last_y = x, y
        actions[t] = action
        physics.step(action)
        since += 1
        if arrived or since > patience:
            changes.append(t)
            wanted, since = cells[rng.integers(len(cells))], 0
    states[transitions] = *position.tolist(), *velocity.tolist()
    return states.astype(np.float32), actions.astype(np.float32), np.array(changes)


def _waypoints(maze: Maze, here: Cell, target: Cell, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Cells of a shortest path, all but the last shifted by the jitter."""
    step = _next_cells(maze, target)
    here = here if here in step else _nearest_free(maze, here)
    path: list[tuple[float, float]] = []
    while not path or here != target:
        here = step[here]
        jitter = (0.0, 0.0) if here == target else (rng.uniform(0, WAYPOINT_JITTER), rng.uniform(0, WAYPOINT_JITTER))
        path.append((here[0] - jitter[0], here[1] - jitter[1]))
    return path


def _nearest_free(maze: Maze, cell: Cell) -> Cell:
    """The nearest free cell, since the ball's rounded position may be a wall cell."""
    r, c = cell
    return next(
        (other for other in ((r + 1, c), (r, c + 1), (r + 1, c + 1)) if maze.is_free(*other)),
        min(((int(a), int(b)) for a, b in maze.free_cells), key=lambda o: hypot(o[0] - r, o[1] - c)),
    )
