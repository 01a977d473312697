"""From a name to a simulator, to the size of the body in it, and to its walls."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.types import EnvSpec, FloatArray


def make_env(name: str) -> PlanningEnv:
    """The simulator of a registered environment."""
    spec = get_spec(name)
    if spec.family == "maze2d":
        from vhdiffuser.envs.maze2d import Maze2dEnv

        return Maze2dEnv(name.removeprefix("maze2d-"))
    if spec.family == "antmaze":
        from vhdiffuser.envs.antmaze import AntMazeEnv

        return AntMazeEnv()
    from vhdiffuser.envs.cube import CubeEnv

    return CubeEnv()


def missing_extra(spec: EnvSpec) -> str | None:
    """The extra that the simulator needs, where it is not installed."""
    return "ogbench" if spec.family in ("antmaze", "cube") and find_spec("ogbench") is None else None


def body_radius(spec: EnvSpec) -> float:
    """How near to a wall the body's centre can come; 0 where there are no walls."""
    if spec.family == "maze2d":
        from vhdiffuser.envs.maze2d import BALL_RADIUS

        return BALL_RADIUS
    if spec.family == "antmaze":
        from vhdiffuser.envs.antmaze import TORSO_RADIUS

        return TORSO_RADIUS
    return 0.0


def walls_of(spec: EnvSpec) -> FloatArray:
    """(n, 4) walls of a registered maze; none elsewhere."""
    if spec.family == "maze2d":
        from vhdiffuser.envs.maze2d import wall_boxes

        return wall_boxes(spec.name.removeprefix("maze2d-"))
    if spec.family == "antmaze":
        from vhdiffuser.envs.antmaze import AntMazeEnv

        return AntMazeEnv().walls
    return np.zeros((0, 4))
