"""VH-Diffuser: trajectory planning with a diffusion model whose horizon is learned.

    planner = vhdiffuser.load_planner("maze2d-large")
    plan = planner.plan(start=[1, 1, 0, 0], goal=[7, 9])
    rollout = vhdiffuser.execute(planner, start=[1, 1, 0, 0], goal=[7, 9], protocol="rp")
    agent = vhdiffuser.Agent(planner)  # in a control loop of your own

Importing it makes `gymnasium.make("vhdiffuser/Maze2d-large-v1")` work; the simulators, torch and the
rest are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vhdiffuser.envs.gym_registration import register

if TYPE_CHECKING:
    __version__: str
    from vhdiffuser.execution.agent import Agent
    from vhdiffuser.execution.drive import drive
    from vhdiffuser.execution.execute import execute
    from vhdiffuser.execution.rules import replan_every, replan_on_deviation, single_shot
    from vhdiffuser.length.predictor import LengthPredictor
    from vhdiffuser.planner.load import load_planner
    from vhdiffuser.planner.planner import Planner
    from vhdiffuser.trajectories import Plan, Rollout

__all__ = [
    "Agent",
    "LengthPredictor",
    "Plan",
    "Planner",
    "Rollout",
    "drive",
    "execute",
    "load_planner",
    "replan_every",
    "replan_on_deviation",
    "single_shot",
]

_HOMES = {
    "Agent": "vhdiffuser.execution.agent",
    "LengthPredictor": "vhdiffuser.length.predictor",
    "Plan": "vhdiffuser.trajectories",
    "Planner": "vhdiffuser.planner.planner",
    "Rollout": "vhdiffuser.trajectories",
    "drive": "vhdiffuser.execution.drive",
    "execute": "vhdiffuser.execution.execute",
    "load_planner": "vhdiffuser.planner.load",
    "replan_every": "vhdiffuser.execution.rules",
    "replan_on_deviation": "vhdiffuser.execution.rules",
    "single_shot": "vhdiffuser.execution.rules",
}

register()


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
