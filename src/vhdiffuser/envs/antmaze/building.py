"""Regenerate antmaze-medium-navigate: a directional walker guided from goal to goal by OGBench's oracle.

Follows OGBench's `generate_locomaze.py` for `navigate`: start in any free cell, goal in a vertex cell,
both with noise; at each step the walker receives the direction to the centre of the next cell on the
shortest path, and noise of scale 0.2 is added to its action; a new goal is drawn when one is reached.
Episodes never end early: an ant that falls over stays down, as in OGBench.
"""

from __future__ import annotations

from collections import deque
from functools import cache

import numpy as np

from vhdiffuser.envs.antmaze.environments import OGBENCH_TOLERANCE
from vhdiffuser.envs.antmaze.maze import cell_centre, cell_of, noisy_centre
from vhdiffuser.envs.antmaze.simulator import AntPhysics
from vhdiffuser.envs.antmaze.walker import Walker
from vhdiffuser.types import FloatArray, IntArray

EPISODE = 1000
"""Transitions per episode: OGBench's 1001 rows are 1001 states, and the last row's action leads nowhere."""
ACTION_NOISE = 0.2
"""Scale of the normal noise on the walker's action."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1))


def build_chunk(
    transitions: int, rng: np.random.Generator, walker: Walker | None = None
) -> list[tuple[FloatArray, FloatArray]]:
    """Episodes of (T states, T-1 actions) with `transitions` transitions in total; the last may be shorter."""
    walker = walker or _shipped_walker()
    physics = _physics()
    subgoals = subgoal_table(physics.maze_map)
    lengths = [EPISODE] * (transitions // EPISODE) + ([transitions % EPISODE] if transitions % EPISODE else [])
    return [_episode(length, rng, walker, physics, subgoals) for length in lengths]


def vertex_cells(maze_map: IntArray) -> IntArray:
    """(n, 2) free cells that are not straight corridors: OGBench's goals."""
    cells = []
    for i, j in np.argwhere(maze_map == 0):
        upright = (maze_map[i - 1, j], maze_map[i + 1, j])
        level = (maze_map[i, j - 1], maze_map[i, j + 1])
        if (upright, level) not in (((0, 0), (1, 1)), ((1, 1), (0, 0))):
            cells.append((i, j))
    return np.array(cells)


def subgoal_table(maze_map: IntArray) -> FloatArray:
    """(I, J, I, J, 2): [goal cell, current cell] -> centre of the next cell, as OGBench's `get_oracle_subgoal`.

    Its breadth-first search depends only on the two cells, and costs as much as the physics of a step.
    """
    shape = maze_map.shape
    table = np.empty((*shape, *shape, 2))
    for goal in np.ndindex(*shape):
        steps = _steps_to(goal, maze_map)
        for here in np.ndindex(*shape):
            best = here
            for di, dj in _NEIGHBOURS:
                there = (here[0] + di, here[1] + dj)
                if _is_free(there, maze_map) and steps[there] < steps[best]:
                    best = there
            table[goal][here] = cell_centre(best)
    return table


def _steps_to(goal: tuple[int, ...], maze_map: IntArray) -> IntArray:
    """Number of cells from each cell to the goal's; -1 if there is no path."""
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


def _episode(
    length: int, rng: np.random.Generator, walker: Walker, physics: AntPhysics, subgoals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    free, vertices = np.argwhere(physics.maze_map == 0), vertex_cells(physics.maze_map)
    states = np.empty((length + 1, 29), np.float32)
    actions = np.empty((length, 8), np.float32)
    physics.reset(noisy_centre(rng.choice(free), rng), rng)
    goal = noisy_centre(rng.choice(vertices), rng)
    noise = rng.normal(0.0, ACTION_NOISE, actions.shape)
    observation = physics.observation()
    states[0] = observation
    for t in range(length):
        xy = observation[:2]
        way = subgoals[cell_of(goal)][cell_of(xy)] - xy
        direction = way / (np.sqrt(way @ way) + 1e-6)
        # Rounded before use, so that the stored action is the one applied.
        actions[t] = np.clip(walker(observation[2:], direction) + noise[t], -1.0, 1.0)
        physics.step(actions[t])
        observation = physics.observation()
        states[t + 1] = observation
        miss = observation[:2] - goal
        if miss @ miss <= OGBENCH_TOLERANCE**2:
            goal = noisy_centre(rng.choice(vertices), rng)
    return states, actions


@cache
def _physics() -> AntPhysics:
    return AntPhysics()


@cache
def _shipped_walker() -> Walker:
    return Walker.load()
