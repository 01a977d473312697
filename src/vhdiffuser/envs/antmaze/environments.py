"""OGBench's ant mazes as environments: the paper's antmaze-medium, and OGBench's datasets by their own names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from vhdiffuser.data.build import Builder, ChunksMaker
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.locomaze.datasets import CHUNK, DataRecipe, Kind, data_recipe, official_files
from vhdiffuser.envs.locomaze.environments import OGBENCH_STEPS, maze_environment, tolerance_normalised
from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray

OGBENCH_TOLERANCE = 0.5
"""OGBench's goal radius: Euclidean, in metres."""
TORSO_RADIUS = 0.25
"""Radius of the ant's torso: positions closer to a wall cannot be reached."""
TOGETHER = 10
"""Chunks of data whose bodies are stepped together: half a minute of work."""
ACTION_NOISE: dict[Kind, float] = {"navigate": 0.2, "stitch": 0.2, "explore": 1.0}
"""Standard deviation of the noise on the walker's action in OGBench's data."""
T_MAX: dict[Kind, int] = {"navigate": 160, "stitch": 160, "explore": 320}
"""Longest plan of OGBench's datasets, in states: a piece of a long route. In 160 steps the ant walks the four cells of
a `stitch` episode, which has 201 states; when exploring, it gets 3 m far in 320 steps (docs/ogbench.md)."""

PIECES: dict[str, dict[str, Any]] = {
    "planner": {"directness": 2.2, "frame": 20.0, "dim": 16},
    "planner_loop": {"updates": 3_000},
    "planning": {"smoothing": 4.0, "piece": 64, "tube": 0.25},
    "length": {"relay_graph": {"sparse_cost": 1.0, "centring": 1.8}},
    "dynamics": {
        "hidden": 256,
        "directions": True,
        "pace": 0.06,
        "teacher_ahead": 16,
        "foreign": 0.5,
        "rounds": 3,
    },
    "dynamics_loop": {"updates": 5_000, "learning_rate": 2e-3},
}
"""Settings of OGBench's mazes: pieces of 64 states without absolute positions, along routes in the middle of the
corridors. The walker teaches the controller to head for the point 1 m ahead on the path (16 steps of 0.06 m): farther
ahead, it cuts corners."""
BY_INDEX: dict[str, dict[str, Any]] = {
    **PIECES,
    "planner": {"directness": 2.2, "frame": 20.0},
    "planner_loop": {"updates": 17_000},
    "planning": {**PIECES["planning"], "wait": 40},
}
"""Settings of the paper's benchmark: the same plans, read strictly by index. The ant is delayed at corners and cannot
catch up with a plan at its own pace, so plans wait at their goal. The network is as large, and
trained as long, as the fixed-horizon baselines', which must know the walls."""


def fallen(observations: FloatArray) -> BoolArray:
    """(..., o) -> (...,) whether the torso's up axis points down. The episode continues, and the ant stays down.

    Observations 3 to 6 are the torso's unit quaternion (w, x, y, z); the vertical component of its
    up axis is 1 - 2 (x^2 + y^2).
    """
    return 1 - 2 * np.square(observations[..., 4:6]).sum(axis=-1) < 0


def _simulator(spec: EnvSpec, maze: MazeName) -> PlanningEnv:
    from vhdiffuser.envs.antmaze.simulator import AntMazeEnv

    return AntMazeEnv(spec, maze)


def _chunks_maker(recipe: DataRecipe) -> ChunksMaker:
    from vhdiffuser.envs.antmaze.building import chunks_maker

    return chunks_maker(recipe)


def _walker() -> Callable[[FloatArray, FloatArray], FloatArray]:
    from vhdiffuser.envs.antmaze.walker import Walker

    return Walker.load()


def _environment(
    name: str,
    maze: MazeName,
    kind: Kind,
    epsilon: float,
    T_max: int,
    budget: int,
    recipes: Mapping[str, Mapping[str, Any]],
    controller: str,
    horizons: tuple[int, ...] = (),
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
        builder=Builder(partial(_chunks_maker, recipe), chunk=CHUNK, transitions=recipe.transitions, together=TOGETHER),
        controller=controller,
        fallen=fallen,
        teacher=_walker,
        simulators=1000,
        recipes={"default": recipes},
    )


def _of_ogbench(maze: MazeName, kind: Kind) -> Environment:
    epsilon = tolerance_normalised(maze, OGBENCH_TOLERANCE)
    name = f"antmaze-{maze}-{kind}"
    return _environment(name, maze, kind, epsilon, T_MAX[kind], OGBENCH_STEPS, PIECES, controller="path_following")


ENVIRONMENTS = (
    _environment(
        "antmaze-medium",
        "medium",
        "navigate",
        0.05,
        T_max=640,
        budget=2000,
        recipes=BY_INDEX,
        controller="inverse_dynamics",
        horizons=(256, 384, 512),
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
