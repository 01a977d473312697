"""Regenerate OGBench's maze data: a direction-conditioned policy, guided through the maze by an oracle.

Follows OGBench's `generate_locomaze.py`. An episode starts in any free cell, with noise. At each step the policy
receives the direction to the centre of the next cell on the shortest path, and noise is added to its action.

- `navigate`: goals are vertex cells, with noise; a new one is drawn whenever one is reached.
- `stitch`: one goal, four cells away, kept to the end. Episodes are short: long routes must be stitched together.
- `explore`: no goal; a new random direction every ten steps, and noise that nearly drowns the policy.

Episodes never end early. Several chunks are built at once, one body each. A chunk draws from its own generator only, so
its bytes do not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from vhdiffuser.data.build import Chunk, Parts
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MAZES, MazeName, cells_of, map_of, noisy_centre
from vhdiffuser.envs.locomaze.oracle import cells_at, free_cells, subgoal_table, vertex_cells
from vhdiffuser.envs.locomaze.physics import LocoPhysics
from vhdiffuser.types import FloatArray, IntArray

STITCH_CELLS = 4
"""Cells from start to goal in `stitch`."""
EXPLORE_STEPS = 10
"""Steps for which `explore` keeps a direction."""

Policy = Callable[[FloatArray, FloatArray], FloatArray]
"""(observations without xy (k, o - 2), unit directions (k, 2)) -> actions (k, m); a row depends on no other."""


def build_chunks(recipe: DataRecipe, physics: LocoPhysics, policy: Policy, chunks: Sequence[Chunk]) -> list[Parts]:
    """The episodes of each chunk, (T states, T-1 actions) each; the last of a chunk may be shorter."""
    return _Walk(recipe, physics, policy, chunks).parts()


class _Walk:
    """The chunks in the making, one body each: a chunk's episodes follow each other."""

    def __init__(self, recipe: DataRecipe, physics: LocoPhysics, policy: Policy, chunks: Sequence[Chunk]) -> None:
        self.recipe, self.physics, self.policy = recipe, physics, policy
        self.rngs = [rng for _, rng in chunks]
        self.left = np.array([transitions for transitions, _ in chunks])
        """Transitions of each chunk that are not yet in an episode."""
        n, episode = len(chunks), min(recipe.episode, int(self.left.max()))
        self.bodies = physics.batch(n)
        self.oracle, self.free = _subgoals(recipe.maze), free_cells(physics.maze_map)
        # The current episode of each chunk:
        self.t, self.length = np.zeros(n, int), np.zeros(n, int)
        self.goal = np.empty((n, 2))
        self.goal_cells: list[IntArray] = [np.empty((0, 2), int)] * n
        self.noise = np.empty((n, episode, physics.action_dim))
        self.directions = np.empty((n, episode // EXPLORE_STEPS + 1, 2))
        self.states = np.empty((n, episode + 1, len(physics.observation())), np.float32)
        self.actions = np.empty((n, episode, physics.action_dim), np.float32)

    def parts(self) -> list[Parts]:
        """Make all episodes."""
        made: list[Parts] = [[] for _ in self.rngs]
        for number in range(len(made)):
            self._begin(number)
        while len(walking := np.flatnonzero(self.t < self.length)):
            self._step(walking)
            for chunk in np.flatnonzero(self.t == self.length).tolist():
                if length := int(self.length[chunk]):
                    made[chunk].append((self.states[chunk, : length + 1].copy(), self.actions[chunk, :length].copy()))
                    self._begin(chunk)
        return made

    def _begin(self, chunk: int) -> None:
        """Start the chunk's next episode, if one is left."""
        rng, length = self.rngs[chunk], min(self.recipe.episode, int(self.left[chunk]))
        self.t[chunk], self.length[chunk] = 0, length
        self.left[chunk] -= length
        if length == 0:
            return
        start = rng.choice(self.free)
        self.physics.reset(noisy_centre(start, rng), rng)
        self.bodies.simulations.load(chunk, self.physics.data)
        self.states[chunk, 0] = self.physics.observation()
        self.goal_cells[chunk] = _goal_cells(self.recipe, start)
        self._draw_goal(chunk)
        self.noise[chunk, :length] = rng.normal(0.0, self.recipe.noise, (length, self.physics.action_dim))
        if self.recipe.kind == "explore":
            self.directions[chunk, : length // EXPLORE_STEPS + 1] = _random_directions(length, rng)

    def _draw_goal(self, chunk: int) -> None:
        rng = self.rngs[chunk]
        self.goal[chunk] = noisy_centre(rng.choice(self.goal_cells[chunk]), rng)

    def _step(self, walking: IntArray) -> None:
        """One transition of each of these chunks."""
        t = self.t[walking]
        observations, goals = self.bodies.observations(walking), self.goal[walking]
        if self.recipe.kind == "explore":
            ways = self.directions[walking, t // EXPLORE_STEPS]
        else:
            (goal_i, goal_j), (i, j) = cells_of(goals).T, cells_of(observations[:, :2]).T
            ways = self.oracle[goal_i, goal_j, i, j] - observations[:, :2]
        directions = ways / (np.sqrt(np.vecdot(ways, ways)) + 1e-6)[:, None]
        wanted = self.policy(observations[:, 2:], directions) + self.noise[walking, t]
        # Rounded before use, so that the stored action is the one applied.
        actions = np.clip(wanted, -1.0, 1.0).astype(np.float32)
        self.bodies.step(walking, actions)
        after = self.bodies.observations(walking)
        self.actions[walking, t], self.states[walking, t + 1] = actions, after
        self.t[walking] += 1
        if self.recipe.kind == "navigate":
            misses = after[:, :2] - goals
            for chunk in walking[np.vecdot(misses, misses) <= self.recipe.tolerance**2].tolist():
                self._draw_goal(chunk)


def _random_directions(length: int, rng: np.random.Generator) -> FloatArray:
    return rng.standard_normal((length // EXPLORE_STEPS + 1, 2))


def _goal_cells(recipe: DataRecipe, start: IntArray) -> IntArray:
    """(n, 2) cells from which a goal is drawn; `explore` draws one too, but does not use it."""
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
