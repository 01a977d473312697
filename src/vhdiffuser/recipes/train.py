"""The training functions, given a dataset and a recipe; the command line calls these."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.control.dynamics_task import DynamicsTask
from vhdiffuser.data.store import Dataset
from vhdiffuser.diffusion.task import PlannerTask, StepsBetween
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError, warn
from vhdiffuser.files import atomic_path
from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.distil import distil_length
from vhdiffuser.length.load import load_length_predictor
from vhdiffuser.length.network import steps_between
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.recipes.own_rollouts import own_rollouts
from vhdiffuser.recipes.recipe import Recipe, get_recipe
from vhdiffuser.training.loop import Status, train
from vhdiffuser.training.task import Task
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import save_model
from vhdiffuser.weights.places import FAST_LENGTH, Source, find_model, run_folder, run_name

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
    """Train a diffusion planner (Algorithm 1) and return the path of its model file.

    `dataset` is a dataset or the name of its environment, `recipe` a recipe or its name (see `get_recipe` and
    `Recipe.changed`). The run is stored under `name` (default: the method's name, `vhd` or `fh-H`), writes checkpoints,
    and resumes when called again; `restart` starts over. `begin_with` names a run of this environment or a model file
    to fine-tune. `on_status` is called with the progress. Raises `DataError` if the dataset is missing or too short.
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
    """Train a Length Predictor, the shortest-step distance between states, and return the path of its model file.

    Arguments as in `train_planner`. If the recipe uses a relay graph, it is saved as the route graph as well
    (`train_route`).
    """
    data, environment, chosen = _resolved(dataset, recipe)
    episodes = _training_episodes(data, environment)

    def make(device: torch.device) -> Task:
        return LengthTask(episodes, data.spec, chosen.length, data.normalizer(), data.fingerprint(), device)

    if chosen.length.strengthening_from >= chosen.length_loop.updates:
        warn(
            f"{chosen.length_loop.updates:,} updates are few: phase III of the Length Predictor, which learns "
            f"distances across episodes, starts at update {chosen.length.strengthening_from:,} at the earliest. Train "
            "for longer, or fit the phases with LengthConfig.scheduled."
        )
    folder = run_folder(data.spec.name, name or run_name("length", chosen.name))
    path = train(make, chosen.length_loop, folder, on_status or _ignore, _begin_with(data, begin_with), restart)
    if chosen.length.relay_graph is not None and os.environ.get("RANK", "0") == "0":
        train_route(data, chosen)
    return path


def train_route(dataset: Dataset | str, recipe: Recipe | str = "default") -> Path:
    """Build a dataset's route graph, in seconds to a minute, and return the path of its file.

    The graph connects landmarks in the data by observed transitions; `LengthPredictor.route` and composed plans need
    it. `train_length` builds it as well.
    """
    data, environment, chosen = _resolved(dataset, recipe)
    episodes, normalizer = _training_episodes(data, environment), data.normalizer()
    points = data.spec.goal_of(normalizer.normalize(data.spec.planning_state(episodes.observations)))
    last = np.repeat(episodes.ends - 1, np.diff(episodes.ends, prepend=0))
    config, scale = chosen.length.relay_graph or RelayGraphConfig(), data.spec.goal_of(normalizer.scale)
    graph = RouteGraph.build(points, last, data.spec.T_max, config, scale)
    path = run_folder(data.spec.name, run_name("route")) / "model.safetensors"
    return graph.save(path, data.spec, normalizer, data.fingerprint())


def train_fast_length(
    dataset: Dataset | str, source: Source = "auto", on_update: Callable[[int, int], None] | None = None
) -> Path:
    """Fit a small network to the answers of the environment's Length Predictor and return the path of its model file.

    It takes one to three minutes and answers eight times as many queries per second: load it with
    `load_length_predictor(name, fast=True, source="auto")`.
    `source` says which Length Predictor; `on_update` receives the updates done, and their total.
    """
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    teacher = load_length_predictor(data.spec.name, source=source)
    states = data.spec.planning_state(data.episodes.observations)
    student = distil_length(teacher, states, on_update=on_update)
    path = run_folder(data.spec.name, run_name(FAST_LENGTH)) / "model.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(path, student.network.tensors, replace(student.header(), data_fingerprint=data.fingerprint()))
    return path


def train_dynamics(
    dataset: Dataset | str,
    recipe: Recipe | str = "default",
    *,
    name: str | None = None,
    begin_with: Path | str | None = None,
    restart: bool = False,
    on_status: OnStatus | None = None,
) -> Path:
    """Train an inverse dynamics model (observation and upcoming plan to action) and return the path of its model file.

    Arguments as in `train_planner`. With `rounds`, each DAgger round is a separate run within the run's folder; the
    last one's model is the result.
    """
    data, environment, chosen = _resolved(dataset, recipe)

    config = chosen.dynamics
    make_teacher = None if config.teacher_ahead is None else environment.teacher
    teacher = None if make_teacher is None else make_teacher()
    normalizer = Normalizer.spread(data.episodes.observations)

    def make(device: torch.device, own: Episodes | None = None) -> Task:
        return DynamicsTask(
            data.episodes, data.spec, config, normalizer, data.fingerprint(), device, teacher=teacher, own=own
        )

    folder = run_folder(data.spec.name, name or run_name("dynamics", chosen.name))
    begin, loop, tell = _begin_with(data, begin_with), chosen.dynamics_loop, on_status or _ignore
    if not config.rounds:
        return train(make, loop, folder, tell, begin, restart)
    result = folder / "model.safetensors"
    if result.is_file() and not restart:
        return result
    path, own = train(make, loop, folder / "round-0", tell, begin, restart), None
    recorded = data.episodes.split(config.held_out)[0]
    for number in range(1, config.rounds + 1):
        visited = own_rollouts(path, environment, recorded, number, config.rollouts)
        own = visited if own is None else own.joined(visited)
        path = train(partial(make, own=own), loop, folder / f"round-{number}", tell, path, restart)
    with atomic_path(result) as temporary:
        temporary.write_bytes(path.read_bytes())
    return result


def _resolved(dataset: Dataset | str, recipe: Recipe | str) -> tuple[Dataset, Environment, Recipe]:
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    # Use the dataset's own spec, which may differ from the registered or saved one of that name.
    environment = replace(environment_of(data.spec), spec=data.spec)
    return data, environment, get_recipe(environment, recipe) if isinstance(recipe, str) else recipe


def _training_episodes(data: Dataset, environment: Environment) -> Episodes:
    """All episodes or, if no simulator can draw fresh test instances, all but a held-out fraction."""
    return data.episodes.split(environment.held_out)[0] if environment.held_out else data.episodes


def _steps_between(name: str, normalizer: Normalizer, device: torch.device) -> StepsBetween:
    """Distances predicted by the environment's Length Predictor, which must be trained on the same data."""
    path = find_model(name, "length", "trained")
    if not path.is_file():
        raise VhdError(f"selecting crops needs a Length Predictor. Run `vhd train length {name}` first.")
    predict, known = steps_between(path, device)
    if known.to_json() != normalizer.to_json():
        raise VhdError(f"{path} was trained on other data. Run `vhd train length {name} --restart` first.")
    return predict


def _begin_with(data: Dataset, given: Path | str | None) -> Path | None:
    if given is None or Path(given).is_file():
        return None if given is None else Path(given)
    return run_folder(data.spec.name, str(given)) / "model.safetensors"


def _ignore(status: Status) -> None:
    pass
