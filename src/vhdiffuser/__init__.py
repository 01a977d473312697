"""VH-Diffuser: trajectory planning with a diffusion model whose horizon is learned.

    planner = vhdiffuser.load_planner("maze2d-large")
    plan = planner.plan(start=[1, 1, 0, 0], goal=[7, 9])
    rollout = vhdiffuser.execute(planner, start=[1, 1, 0, 0], goal=[7, 9], protocol="rp")
    agent = vhdiffuser.Agent(planner)  # for your own control loop

Importing this package registers Gymnasium ids such as `vhdiffuser/Maze2d-large-v1`; Gymnasium and simulators are
imported on first use. Only training needs torch (`pip install 'vhdiffuser[train]'`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vhdiffuser.imports import after_import

if TYPE_CHECKING:
    __version__: str
    from vhdiffuser.benchmark.calibrate import calibrate
    from vhdiffuser.benchmark.evaluate import evaluate
    from vhdiffuser.benchmark.methods import load_method
    from vhdiffuser.control.base import register_controller
    from vhdiffuser.diffusion.options import PlanningOptions
    from vhdiffuser.diffusion.samplers import register_sampler
    from vhdiffuser.envs.base import PlanningEnv
    from vhdiffuser.envs.datasets import get_dataset, load_dataset
    from vhdiffuser.envs.environment import Environment, Geometry
    from vhdiffuser.envs.maze2d.environments import make_maze
    from vhdiffuser.envs.protocols import replan_every, replan_on_deviation, single_shot
    from vhdiffuser.envs.registry import environments, get_environment, register
    from vhdiffuser.execution.agent import Agent
    from vhdiffuser.execution.drive import drive
    from vhdiffuser.execution.execute import execute
    from vhdiffuser.length.load import load_length_predictor
    from vhdiffuser.length.predictor import LengthPredictor
    from vhdiffuser.planner.foreign import foreign_planner
    from vhdiffuser.planner.load import load_planner
    from vhdiffuser.planner.planner import Planner
    from vhdiffuser.recipes.recipe import Recipe, get_recipe
    from vhdiffuser.recipes.train import train_dynamics, train_length, train_planner
    from vhdiffuser.trajectories import Plan, Rollout

__all__ = [
    "Agent",
    "Environment",
    "Geometry",
    "LengthPredictor",
    "Plan",
    "Planner",
    "PlanningEnv",
    "PlanningOptions",
    "Recipe",
    "Rollout",
    "calibrate",
    "drive",
    "environments",
    "evaluate",
    "execute",
    "foreign_planner",
    "get_dataset",
    "get_environment",
    "get_recipe",
    "load_dataset",
    "load_length_predictor",
    "load_method",
    "load_planner",
    "make_maze",
    "register",
    "register_controller",
    "register_sampler",
    "replan_every",
    "replan_on_deviation",
    "single_shot",
    "train_dynamics",
    "train_length",
    "train_planner",
]

_HOMES = {
    "Agent": "vhdiffuser.execution.agent",
    "Environment": "vhdiffuser.envs.environment",
    "Geometry": "vhdiffuser.envs.environment",
    "LengthPredictor": "vhdiffuser.length.predictor",
    "Plan": "vhdiffuser.trajectories",
    "Planner": "vhdiffuser.planner.planner",
    "PlanningEnv": "vhdiffuser.envs.base",
    "PlanningOptions": "vhdiffuser.diffusion.options",
    "Recipe": "vhdiffuser.recipes.recipe",
    "Rollout": "vhdiffuser.trajectories",
    "calibrate": "vhdiffuser.benchmark.calibrate",
    "drive": "vhdiffuser.execution.drive",
    "environments": "vhdiffuser.envs.registry",
    "evaluate": "vhdiffuser.benchmark.evaluate",
    "execute": "vhdiffuser.execution.execute",
    "foreign_planner": "vhdiffuser.planner.foreign",
    "get_dataset": "vhdiffuser.envs.datasets",
    "get_environment": "vhdiffuser.envs.registry",
    "get_recipe": "vhdiffuser.recipes.recipe",
    "load_dataset": "vhdiffuser.envs.datasets",
    "load_length_predictor": "vhdiffuser.length.load",
    "load_method": "vhdiffuser.benchmark.methods",
    "load_planner": "vhdiffuser.planner.load",
    "make_maze": "vhdiffuser.envs.maze2d.environments",
    "register": "vhdiffuser.envs.registry",
    "register_controller": "vhdiffuser.control.base",
    "register_sampler": "vhdiffuser.diffusion.samplers",
    "replan_every": "vhdiffuser.envs.protocols",
    "replan_on_deviation": "vhdiffuser.envs.protocols",
    "single_shot": "vhdiffuser.envs.protocols",
    "train_dynamics": "vhdiffuser.recipes.train",
    "train_length": "vhdiffuser.recipes.train",
    "train_planner": "vhdiffuser.recipes.train",
}


def _register_ids() -> None:
    from vhdiffuser.envs.registry import register_ids

    register_ids()


after_import("gymnasium", _register_ids)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("vhdiffuser")
    if name not in _HOMES:
        raise AttributeError(f"module 'vhdiffuser' has no attribute '{name}'")
    from importlib import import_module

    from vhdiffuser.errors import TRAINING_PACKAGES, MissingExtraError

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in TRAINING_PACKAGES:
            raise
        raise MissingExtraError("train", f"vhdiffuser.{name}") from error


def __dir__() -> list[str]:
    """All public names, for tab completion."""
    return sorted([*__all__, "__version__", "__doc__", "__all__"])
