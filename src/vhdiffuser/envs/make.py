"""From a name to a simulator."""

from __future__ import annotations

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.registry import get_spec


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
