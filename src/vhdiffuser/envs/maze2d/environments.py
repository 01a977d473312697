"""The point mazes as environments: D4RL's three, and `make_maze` for custom maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import as_whole
from vhdiffuser.data.build import Builder, ChunkMaker
from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import read_d4rl_maze2d
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment, Geometry
from vhdiffuser.envs.maze2d.d4rl import GOAL_RADIUS, d4rl_protocols
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, LARGE, MEDIUM, UMAZE, Maze
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

_HOST = "http://rail.eecs.berkeley.edu/datasets/offline_rl/maze2d/"
_INSTANCES = (
    "start and goal at random free cells +- 0.1, start velocity 0.1 N(0, 1): D4RL's own reset; "
    "or uniform over free space, at rest"
)
_PIECE = 64
"""States per piece of long plans: about two cells."""
_STATES_PER_CELL = 32
"""T_max of a custom map per cell of its longest path; D4RL's mazes have 36, 34 and 30."""


def make_maze(
    maze: str | Sequence[str] | FloatArray | Sequence[Sequence[int]] | Maze,
    name: str = "my-maze",
    *,
    epsilon: float | None = None,
    T_max: int | None = None,
    transitions: int = 1_000_000,
) -> Environment:
    """A point maze of any map, with simulator, data, benchmark and web page; pass it to `vhdiffuser.register`.

    `maze` is text with `#` for walls and `O` (or a blank) for free cells, a list of such rows, or an array with 1
    for walls. The outer cells must be walls, and all free cells connected; `G` marks the goal of the Gymnasium task.
    Physics, ball and data are those of D4RL's maze2d. `epsilon` is the goal tolerance in normalised units (default:
    0.15 in the maze's units), `T_max` the longest plan in states (default: 32 per cell of the longest path).

    >>> corridor = make_maze(["#######", "#OOOOO#", "#######"], name="corridor")
    >>> corridor.spec.T_max
    160
    """
    plan = Maze.of(maze)
    if T_max is None:
        T_max = 8 * -(-_STATES_PER_CELL * plan.longest_way // 8)
    if epsilon is None:  # one normalised unit is half the extent of the free space
        extent = max(len(plan.rows), len(plan.rows[0])) - 2
        epsilon = round(min(max(0.15 / (extent / 2), 0.01), 0.05), 3)
    key, recipes = "\n".join(plan.rows), {"default": {"planning": {"piece": _PIECE}}}
    return _environment(name, plan, epsilon, T_max=T_max, transitions=transitions, key=key, recipes=recipes)


def _environment(
    name: str,
    maze: Maze,
    epsilon: float,
    T_max: int,
    transitions: int,
    horizons: tuple[int, ...] = (),
    budget: int = 0,
    episode_steps: int | None = None,
    reference: tuple[float, float] | None = None,
    std: tuple[float, ...] | None = None,
    key: str = "",
    recipes: Mapping[str, Any] | None = None,
) -> Environment:
    """`episode_steps`, `reference` and `std` are D4RL's: episode length, scores of 0 and 100, standard deviation of its
    data."""
    spec = EnvSpec(
        name=name,
        observation_dim=4,
        action_dim=2,
        state_dims=(0, 1, 2, 3),
        state_names=("x", "y", "vx", "vy"),
        goal_dims=(0, 1),
        velocity_dims=(2, 3),
        control_dt=0.01,
        epsilon=epsilon,
        T_max=T_max,
        L_min=min(16, as_whole("T_max", T_max, least=2)),
    )
    steps = T_max if episode_steps is None else episode_steps
    return Environment(
        spec=spec,
        simulator=partial(_simulator, spec, maze),
        geometry=Geometry(walls=maze.walls, radius=BALL_RADIUS, cell=partial(_cell, maze), unit="cells"),
        grid_speed=0.0385,  # as HorizonFlow's diagnostic has it
        controller="pd",
        horizons=horizons,
        step_budget=budget,
        instances=_INSTANCES,
        protocols={} if reference is None else d4rl_protocols(spec, maze, steps, reference),
        official=None if std is None else OfficialFiles((f"{name}-sparse-v1.hdf5",), (_HOST,), _read, std),
        builder=Builder(partial(_chunk_maker, maze, steps), chunk=50_000, transitions=transitions, key=key),
        reader=read_d4rl_maze2d,
        simulators=1000,
        recipes=recipes or {},
        goal_radius=GOAL_RADIUS,
        episode_steps=steps,
        fixed_goal=tuple(float(value) for value in maze.goal_cell),
    )


def _simulator(spec: EnvSpec, maze: Maze) -> PlanningEnv:
    from vhdiffuser.envs.maze2d.simulator import Maze2dEnv

    return Maze2dEnv(spec, maze)


def _chunk_maker(maze: Maze, patience: int) -> ChunkMaker:
    from vhdiffuser.envs.maze2d.building import build_chunk

    return partial(build_chunk, maze, patience)


def _read(paths: list[Path]) -> Episodes:
    return read_d4rl_maze2d(paths[0])


def _cell(maze: Maze, row: int, column: int) -> FloatArray:
    return maze.cell_place(row, column)


ENVIRONMENTS = (
    _environment(
        "maze2d-umaze", UMAZE, 0.04, T_max=256, transitions=1_000_000,
        horizons=(64, 128, 192), budget=600, episode_steps=300,
        reference=(23.85, 161.86), std=(0.8997, 0.7093, 2.2129, 2.4682),
        recipes={
            "default": {"planner_loop": {"updates": 2500}},
            # Diffuser's published number of levels for this maze.
            "paper": {"planner": {"diffusion_steps": 64}, "planning": {"steps": 64}},
        },
    ),
    _environment(
        "maze2d-medium", MEDIUM, 0.03, T_max=512, transitions=2_000_000,
        horizons=(192, 288, 384), budget=1200, episode_steps=600,
        reference=(13.13, 277.39), std=(1.3371, 1.5210, 2.3408, 2.3694),
        recipes={"default": {"planner_loop": {"updates": 6500}, "planning": {"piece": _PIECE}}},
    ),
    _environment(
        "maze2d-large", LARGE, 0.03, T_max=640, transitions=4_000_000,
        horizons=(256, 384, 512), budget=1500, episode_steps=800,
        reference=(6.7, 273.99), std=(1.8070, 2.5688, 2.4368, 2.6494),
        recipes={"default": {"planner_loop": {"updates": 10_500}, "planning": {"piece": _PIECE}}},
    ),
)  # fmt: skip
"""Table I of the paper, and what it leaves open; the standard deviations are those of D4RL's full sets."""
