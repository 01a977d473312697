"""OGBench's ant mazes as environments: the paper's antmaze-medium, and OGBench's datasets by their own names."""

from __future__ import annotations

from functools import partial

import numpy as np

from vhdiffuser.data.build import Builder, ChunkMaker
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.locomaze.datasets import CHUNK, DataRecipe, Kind, data_recipe, official_files
from vhdiffuser.envs.locomaze.environments import OGBENCH_STEPS, maze_environment, tolerance_normalised
from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray

OGBENCH_TOLERANCE = 0.5
"""OGBench calls a goal reached at this Euclidean distance in metres."""
TORSO_RADIUS = 0.25
"""Radius of the ant's torso: no position nearer to a wall can be reached."""
ACTION_NOISE: dict[Kind, float] = {"navigate": 0.2, "stitch": 0.2, "explore": 1.0}
"""Standard deviation of the noise on the walker's action in OGBench's data."""
T_MAX: dict[Kind, int] = {"navigate": 160, "stitch": 160, "explore": 320}
"""Longest plan of OGBench's datasets, in states: a piece of a long way. In 160 steps the ant walks the four cells of a
`stitch` episode, which has 201 states; where it explores, it comes 3 m far in 320 steps (docs/ogbench.md)."""


def fallen(observations: FloatArray) -> BoolArray:
    """(..., o) -> (...,) whether the torso's own up points down. Nothing ends its episode then, and it stays there.

    Observations 3 to 6 are the torso's unit quaternion (w, x, y, z), of which the up axis has the
    height 1 - 2 (x^2 + y^2).
    """
    return 1 - 2 * np.square(observations[..., 4:6]).sum(axis=-1) < 0


def _simulator(spec: EnvSpec, maze: MazeName) -> PlanningEnv:
    from vhdiffuser.envs.antmaze.simulator import AntMazeEnv

    return AntMazeEnv(spec, maze)


def _chunk_maker(recipe: DataRecipe) -> ChunkMaker:
    from vhdiffuser.envs.antmaze.building import chunk_maker

    return chunk_maker(recipe)


def _environment(
    name: str,
    maze: MazeName,
    kind: Kind,
    epsilon: float,
    T_max: int,
    budget: int,
    horizons: tuple[int, ...] = (),
    updates: int = 8_000,
) -> Environment:
    spec = EnvSpec(
        name=name,
        observation_dim=29,
        action_dim=8,
        state_dims=(0, 1),
        state_names=("x", "y"),
        goal_dims=(0, 1),
        velocity_dims=None,
        control_dt=0.1,
        epsilon=epsilon,
        T_max=T_max,
        L_min=16,
    )
    recipe = data_recipe(maze, kind, ACTION_NOISE[kind], OGBENCH_TOLERANCE)
    return maze_environment(
        spec,
        recipe,
        simulator=partial(_simulator, spec, maze),
        radius=TORSO_RADIUS,
        horizons=horizons,
        step_budget=budget,
        instances="the ant reset in a random free cell +- 1, goal in a random free cell +- 1 (OGBench's noise)",
        official=official_files(f"antmaze-{maze}-{kind}"),
        builder=Builder(partial(_chunk_maker, recipe), chunk=CHUNK, transitions=recipe.transitions),
        fallen=fallen,
        simulators=128,
        recipes={
            # The ant's data circles about, and an ant on its way is often held up at corners: its planner learns
            # from direct crops, and its plans leave it time. It knows one gait, covers 0.15 m a step when it walks
            # straight (upper quartile of the data over 24 steps) and cannot walk as slowly as a plan with a margin
            # asks, so its controller follows the path at its own pace.
            "default": {
                "planner": {"directness": 2.2},
                "planner_loop": {"updates": updates},
                "planning": {"smoothing": 4.0, "stretch": 1.5, "gamma": 2.4},
                "dynamics": {"pace": 0.15},
            }
        },
    )


def _of_ogbench(maze: MazeName, kind: Kind) -> Environment:
    epsilon = tolerance_normalised(maze, OGBENCH_TOLERANCE)
    return _environment(f"antmaze-{maze}-{kind}", maze, kind, epsilon, T_MAX[kind], OGBENCH_STEPS)


ENVIRONMENTS = (
    _environment(
        "antmaze-medium", "medium", "navigate", 0.05, T_max=640, budget=2000, horizons=(256, 384, 512), updates=17_000
    ),
)
"""Table I of the paper, and what it leaves open."""
_MAZES: dict[Kind, tuple[MazeName, ...]] = {
    "navigate": ("medium", "large", "giant"),
    "stitch": ("medium", "large", "giant"),
    "explore": ("medium", "large"),
}

OGBENCH = tuple(_of_ogbench(maze, kind) for kind, mazes in _MAZES.items() for maze in mazes)
"""OGBench's datasets, by its own names."""
