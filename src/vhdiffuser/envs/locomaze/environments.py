"""What all environments of OGBench's mazes share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from vhdiffuser.data.readers import read_ogbench_file
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment, Geometry
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import CELL, CLEARANCE, MAZES, MazeName, free_centre, map_of, wall_boxes
from vhdiffuser.envs.protocols import Protocol, euclidean_hit, replan_on_deviation
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance

OGBENCH_TASKS = 5
OGBENCH_STEPS = 1000
"""Steps of an evaluation episode, in every maze."""


def tolerance_normalised(maze: MazeName, tolerance: float) -> float:
    """Epsilon for a Euclidean tolerance in metres: exact along the maze's longer side, stricter along the other."""
    columns = max(len(MAZES[maze]), len(MAZES[maze][0])) - 2
    return round(tolerance / (columns * CELL / 2), 3)


def ogbench_protocol(spec: EnvSpec, tolerance: float) -> Protocol:
    """OGBench's evaluation: five tasks, success at any time within the tolerance.

    Executed with replan-on-deviation, since OGBench leaves control to the method.
    """
    return Protocol(
        instances=ogbench_instances,
        rule=partial(replan_on_deviation, OGBENCH_STEPS),
        hit=euclidean_hit(spec, tolerance),
        tasks=OGBENCH_TASKS,
    )


def ogbench_instances(env: Any, n: int, seed: int) -> list[Instance]:
    """OGBench's tasks 1 to 5 in turn, each with fresh noise."""
    streams = (stream("ogbench tasks", seed, number) for number in range(-(-n // OGBENCH_TASKS)))
    rounds = [env.ogbench_tasks(np.random.default_rng(each)) for each in streams]
    return [instance for tasks_once in rounds for instance in tasks_once][:n]


def restore(env: Any, observation: FloatArray, goal: FloatArray) -> FloatArray:
    """The observation is the body's full state. Recorded paths may end at a wall, so nothing is refused."""
    env.physics.restore(observation)
    return env.physics.observation().astype(np.float32)


def maze_environment(
    spec: EnvSpec, recipe: DataRecipe, simulator: Callable[[], PlanningEnv], radius: float, **facts: Any
) -> Environment:
    """The environment of one dataset; `facts` are the body's own fields of `Environment`."""
    rows = MAZES[recipe.maze]
    return Environment(
        spec=spec,
        simulator=simulator,
        geometry=Geometry(
            walls=wall_boxes(map_of(rows)),
            radius=radius,
            clearance=CLEARANCE,
            cell=partial(free_centre, rows),
            unit="m",
        ),
        protocols={"ogbench": ogbench_protocol(spec, recipe.tolerance)},
        reader=read_ogbench_file,
        restore=restore,
        goal_radius=recipe.tolerance,
        episode_steps=OGBENCH_STEPS,
        extra="ogbench",
        extra_module="ogbench",
        **facts,
    )
