"""The three trainings, by dataset and recipe. The command line calls these and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.control.dynamics_task import DynamicsTask
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.task import PlannerTask, StepsBetween
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.recipes.recipe import Recipe, get_recipe
from vhdiffuser.training.loop import Status, train
from vhdiffuser.training.task import Task
from vhdiffuser.types import Episodes
from vhdiffuser.weights.places import find_model, run_folder, run_name

if TYPE_CHECKING:
    import torch

OnStatus = Callable[[Status], None]


def train_planner(
    dataset: Dataset | str,
    recipe: Recipe | str = "default",
    *,
    name: str | None = None,
    begin_with: Path | str | None = None,
    restart: bool = False,
    on_status: OnStatus | None = None,
) -> Path:
    """Train a diffusion planner (Algorithm 1); the path of its model file.

    `dataset` is a dataset or the name of its environment, `recipe` a recipe or its name (`get_recipe`, `changed`).
    The run is kept under `name` (by default the method's: `vhd`, `fh-H`), checkpoints itself, and goes on where it
    stopped when called again; `restart` begins anew. `begin_with` fine-tunes: a run of the environment or a model
    file. `on_status` is told of the progress.
    """
    data, environment, chosen = _resolved(dataset, recipe)
    config, normalizer, episodes = chosen.planner, data.normalizer(), _training_episodes(data, environment)

    def make(device: torch.device) -> Task:
        between = None if config.directness is None else _steps_between(data.spec.name, normalizer, device)
        return PlannerTask(
            episodes, data.spec, config, normalizer, data.fingerprint(), device, between, planning=chosen.planning
        )

    folder = run_folder(data.spec.name, name or run_name("planner", chosen.name, config.horizon))
    begin = _begin_with(data, begin_with)
    return train(make, chosen.planner_loop, folder, on_status or _ignore, begin, restart)


def train_length(
    dataset: Dataset | str,
    recipe: Recipe | str = "default",
    *,
    name: str | None = None,
    begin_with: Path | str | None = None,
    restart: bool = False,
    on_status: OnStatus | None = None,
) -> Path:
    """Train a Length Predictor: the shortest-step distance between states. Arguments as in `train_planner`."""
    data, environment, chosen = _resolved(dataset, recipe)
    episodes = _training_episodes(data, environment)

    def make(device: torch.device) -> Task:
        return LengthTask(episodes, data.spec, chosen.length, data.normalizer(), data.fingerprint(), device)

    folder = run_folder(data.spec.name, name or run_name("length", chosen.name))
    return train(make, chosen.length_loop, folder, on_status or _ignore, _begin_with(data, begin_with), restart)


def train_route(dataset: Dataset | str, recipe: Recipe | str = "default") -> Path:
    """Build the route graph of a dataset, in seconds to a minute; the path of its file.

    The graph joins places of the data by observed moves: `LengthPredictor.route` and composed plans need it.
    `train_length` builds it too.
    """
    data, environment, chosen = _resolved(dataset, recipe)
    episodes, normalizer = _training_episodes(data, environment), data.normalizer()
    points = data.spec.goal_of(normalizer.normalize(data.spec.planning_state(episodes.observations)))
    last = np.repeat(episodes.ends - 1, np.diff(episodes.ends, prepend=0))
    graph = RouteGraph.build(points, last, data.spec.T_max, chosen.length.relay_graph or RelayGraphConfig())
    path = run_folder(data.spec.name, run_name("route")) / "model.safetensors"
    return graph.save(path, data.spec, normalizer, data.fingerprint())


def train_dynamics(
    dataset: Dataset | str,
    recipe: Recipe | str = "default",
    *,
    name: str | None = None,
    begin_with: Path | str | None = None,
    restart: bool = False,
    on_status: OnStatus | None = None,
) -> Path:
    """Train an inverse dynamics model: the action from an observation and the plan ahead. Arguments as above."""
    data, _, chosen = _resolved(dataset, recipe)

    def make(device: torch.device) -> Task:
        normalizer = Normalizer.fit(data.episodes.observations)
        return DynamicsTask(data.episodes, data.spec, chosen.dynamics, normalizer, data.fingerprint(), device)

    folder = run_folder(data.spec.name, name or run_name("dynamics", chosen.name))
    return train(make, chosen.dynamics_loop, folder, on_status or _ignore, _begin_with(data, begin_with), restart)


def _resolved(dataset: Dataset | str, recipe: Recipe | str) -> tuple[Dataset, Environment, Recipe]:
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    # The data's own spec counts: a dataset in hand may differ from what is registered or saved under its name.
    environment = replace(environment_of(data.spec), spec=data.spec)
    return data, environment, get_recipe(environment, recipe) if isinstance(recipe, str) else recipe


def _training_episodes(data: Dataset, environment: Environment) -> Episodes:
    """All episodes, but for a share that is left for evaluation where no simulator can draw fresh instances."""
    return data.episodes.split(environment.held_out)[0] if environment.held_out else data.episodes


def _steps_between(name: str, normalizer: Normalizer, device: torch.device) -> StepsBetween:
    """The environment's Length Predictor, which must know the same data."""
    path = find_model(name, "length", "trained")
    if not path.is_file():
        raise VhdError(f"a Length Predictor chooses the crops, and there is none. Run `vhd train length {name}` first.")
    predictor = LengthPredictor.load(path, device)
    if predictor.normalizer.to_json() != normalizer.to_json():
        raise VhdError(f"{path} was trained on other data. Run `vhd train length {name} --restart` first.")
    return predictor.steps_between


def _begin_with(data: Dataset, given: Path | str | None) -> Path | None:
    if given is None or Path(given).is_file():
        return None if given is None else Path(given)
    return run_folder(data.spec.name, str(given)) / "model.safetensors"


def _ignore(status: Status) -> None:
    pass
