"""Regenerate OGBench's maze data: a policy that takes directions, sent through the maze by an oracle.

Follows OGBench's `generate_locomaze.py`. An episode starts in any free cell, with noise. At each step the policy is
fed the direction to the centre of the next cell on the shortest way to the goal, and noise is put on its action.

- `navigate`: goals are vertex cells, with noise; a new one is drawn whenever one is reached.
- `stitch`: one goal, four cells away, kept to the end. Episodes are short: long ways must be stitched together.
- `explore`: no goal; a random direction for ten steps, then the next, and noise that all but drowns the policy.

Nothing ends an episode before its time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from vhdiffuser.data.build import Parts
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MAZES, MazeName, cell_of, map_of, noisy_centre
from vhdiffuser.envs.locomaze.oracle import cells_at, free_cells, subgoal_table, vertex_cells
from vhdiffuser.envs.locomaze.physics import LocoPhysics
from vhdiffuser.types import FloatArray, IntArray

STITCH_CELLS = 4
"""Cells from start to goal in `stitch`."""
EXPLORE_STEPS = 10
"""Steps for which `explore` keeps a direction."""

Policy = Callable[[FloatArray, FloatArray], FloatArray]
"""(observation without xy, unit direction (2,)) -> action."""


def build_chunk(
    recipe: DataRecipe, physics: LocoPhysics, policy: Policy, transitions: int, rng: np.random.Generator
) -> Parts:
    """Episodes of (T states, T-1 actions) with `transitions` transitions in all; the last may be shorter."""
    whole, rest = divmod(transitions, recipe.episode)
    lengths = [recipe.episode] * whole + [rest] * (rest > 0)
    return [_episode(recipe, length, rng, policy, physics) for length in lengths]


def _episode(
    recipe: DataRecipe, length: int, rng: np.random.Generator, policy: Policy, physics: LocoPhysics
) -> tuple[FloatArray, FloatArray]:
    cells, oracle = free_cells(physics.maze_map), _subgoals(recipe.maze)
    start = rng.choice(cells)
    physics.reset(noisy_centre(start, rng), rng)
    observation = physics.observation()
    states = np.empty((length + 1, len(observation)), np.float32)
    actions = np.empty((length, physics.action_dim), np.float32)
    goals = _goal_cells(recipe, start)
    goal = noisy_centre(rng.choice(goals), rng)
    noise = rng.normal(0.0, recipe.noise, actions.shape)
    directions = _random_directions(length, rng) if recipe.kind == "explore" else None
    states[0] = observation
    for t in range(length):
        xy = observation[:2]
        way = oracle[cell_of(goal)][cell_of(xy)] - xy if directions is None else directions[t // EXPLORE_STEPS]
        direction = way / (np.sqrt(way @ way) + 1e-6)
        # Rounded before use, so that the stored action is the one that was taken.
        actions[t] = np.clip(policy(observation[2:], direction) + noise[t], -1.0, 1.0)
        physics.step(actions[t])
        observation = physics.observation()
        states[t + 1] = observation
        miss = observation[:2] - goal
        if recipe.kind == "navigate" and miss @ miss <= recipe.tolerance**2:
            goal = noisy_centre(rng.choice(goals), rng)
    return states, actions


def _random_directions(length: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal((length // EXPLORE_STEPS + 1, 2))


def _goal_cells(recipe: DataRecipe, start: IntArray) -> IntArray:
    """(n, 2) cells that a goal is drawn from; `explore` draws one, too, and never looks at it."""
    if recipe.kind == "stitch":
        return _cells_around(recipe.maze, (int(start[0]), int(start[1])))
    return _vertices(recipe.maze)


@cache
def _subgoals(maze: MazeName) -> FloatArray:
    return subgoal_table(map_of(MAZES[maze]))


@cache
def _vertices(maze: MazeName) -> IntArray:
    return vertex_cells(map_of(MAZES[maze]))


@cache
def _cells_around(maze: MazeName, start: tuple[int, int]) -> IntArray:
    return cells_at(start, STITCH_CELLS, map_of(MAZES[maze]))
