"""VH-Diffuser: trajectory planning with a diffusion model whose horizon is learned.

    planner = vhdiffuser.load_planner("maze2d-large")
    plan = planner.plan(start=[1, 1, 0, 0], goal=[7, 9])
    rollout = vhdiffuser.execute(planner, start=[1, 1, 0, 0], goal=[7, 9], protocol="rp")

Importing it makes `gymnasium.make("vhdiffuser/Maze2d-large-v1")` work; the simulators, torch and the
rest are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vhdiffuser.envs.registry import register_ours

if TYPE_CHECKING:
    __version__: str
    from vhdiffuser.diffusion.options import PlanningOptions
    from vhdiffuser.envs.base import PlanningEnv
    from vhdiffuser.envs.datasets import load_dataset
    from vhdiffuser.envs.environment import Environment, Geometry
    from vhdiffuser.envs.maze2d.environments import make_maze
    from vhdiffuser.envs.registry import environments, get_environment, register
    from vhdiffuser.execution.execute import execute
    from vhdiffuser.length.predictor import LengthPredictor
    from vhdiffuser.planner.load import load_planner
    from vhdiffuser.planner.planner import Planner

__all__ = [
    "Environment",
    "Geometry",
    "LengthPredictor",
    "Planner",
    "PlanningEnv",
    "PlanningOptions",
    "environments",
    "execute",
    "get_environment",
    "load_dataset",
    "load_planner",
    "make_maze",
    "register",
]

_HOMES = {
    "Environment": "vhdiffuser.envs.environment",
    "Geometry": "vhdiffuser.envs.environment",
    "LengthPredictor": "vhdiffuser.length.predictor",
    "Planner": "vhdiffuser.planner.planner",
    "PlanningEnv": "vhdiffuser.envs.base",
    "environments": "vhdiffuser.envs.registry",
    "PlanningOptions": "vhdiffuser.diffusion.options",
    "execute": "vhdiffuser.execution.execute",
    "get_environment": "vhdiffuser.envs.registry",
    "load_dataset": "vhdiffuser.envs.datasets",
    "load_planner": "vhdiffuser.planner.load",
    "make_maze": "vhdiffuser.envs.maze2d.environments",
    "register": "vhdiffuser.envs.registry",
}

register_ours()


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: torch takes seconds."""
    if name == "__version__":
        from importlib.metadata import version

        return version("vhdiffuser")
    if name not in _HOMES:
        raise AttributeError(f"module 'vhdiffuser' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """What Tab shows: all that can be had from here."""
    return sorted([*__all__, "__version__", "__doc__", "__all__"])
