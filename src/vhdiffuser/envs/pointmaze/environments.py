"""OGBench's point mazes as environments."""

from __future__ import annotations

from functools import partial
from typing import Any

from vhdiffuser.data.build import Builder, ChunksMaker
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.locomaze.datasets import CHUNK, DataRecipe, Kind, data_recipe, official_files
from vhdiffuser.envs.locomaze.environments import OGBENCH_STEPS, maze_environment, tolerance_normalised
from vhdiffuser.envs.locomaze.maze import MAZES, MazeName
from vhdiffuser.types import EnvSpec

OGBENCH_TOLERANCE = 1.0
"""OGBench's goal radius: Euclidean, in metres."""
STEP_LENGTH = 0.2
"""Metres by which an action of 1 moves the point per step."""
RADIUS = 0.7
"""Radius of the point's body."""
CLOSEST = 0.63
"""Minimum distance of its centre from a wall: walls are soft, and a step can move the body 0.2 m into one."""
ACTION_NOISE = 0.5
"""Standard deviation of the noise on the action in OGBench's data."""
TOGETHER = 50
"""Chunks of data whose bodies are stepped together: numpy's cost per call is shared by all."""
T_MAX = 128
"""Longest plan, in states: a piece of a long route. The four cells of a `stitch` episode, which has 201 states, take
the point about 100 steps (docs/ogbench.md)."""

PIECES: dict[str, dict[str, Any]] = {
    "planner": {"directness": 2.0, "frame": 20.0, "dim": 16},
    "planner_loop": {"updates": 3000},
    "planning": {"smoothing": 4.0, "piece": 64, "tube": 0.25},
    "length": {"relay_graph": {"sparse_cost": 1.0, "centring": 1.8}},
    "length_loop": {"updates": 2500},
}
"""Settings as for the ant, whose planner the point can use: pieces without absolute positions, along routes in the
middle of the corridors, a third of which its body fills. Half of a `stitch` episode is spent at its goal, so crops are
direct."""


def _simulator(spec: EnvSpec, maze: MazeName) -> PlanningEnv:
    from vhdiffuser.envs.pointmaze.simulator import PointMazeEnv

    return PointMazeEnv(spec, maze)


def _chunks_maker(recipe: DataRecipe) -> ChunksMaker:
    from vhdiffuser.envs.pointmaze.building import chunks_maker

    return chunks_maker(recipe)


def _environment(maze: MazeName, kind: Kind) -> Environment:
    name = f"pointmaze-{maze}-{kind}"
    spec = EnvSpec(
        name=name,
        observation_dim=2,
        action_dim=2,
        state_dims=(0, 1),
        state_names=("x", "y"),
        goal_dims=(0, 1),
        velocity_dims=None,
        control_dt=0.1,
        epsilon=tolerance_normalised(maze, OGBENCH_TOLERANCE),
        T_max=T_MAX,
        L_min=16,
    )
    recipe = data_recipe(maze, kind, ACTION_NOISE, OGBENCH_TOLERANCE)
    return maze_environment(
        spec,
        recipe,
        simulator=partial(_simulator, spec, maze),
        radius=CLOSEST,
        controller="displacement",
        displacement=STEP_LENGTH,
        step_budget=OGBENCH_STEPS,
        instances="start and goal in random free cells +- 1 (OGBench's noise)",
        official=official_files(name),
        builder=Builder(partial(_chunks_maker, recipe), chunk=CHUNK, transitions=recipe.transitions, together=TOGETHER),
        simulators=1000,
        recipes={"default": PIECES},
    )


_KINDS: tuple[Kind, ...] = ("navigate", "stitch")

ENVIRONMENTS = tuple(_environment(maze, kind) for kind in _KINDS for maze in MAZES)
"""OGBench's datasets, by its own names."""
