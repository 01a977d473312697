"""Sweeps: a grid of recipe fields over environments and training seeds; each point is trained and evaluated.

Points share trainings where they can: fields of `planning` need none. Finished work is on disk, so a sweep can be
resumed. A sweep is for tuning, so test seeds of 100 and above are refused (docs/seeds.md).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import as_seed, as_whole
from vhdiffuser.benchmark.evaluate import evaluate
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.cluster import GraphTask, LocalPool, RayPool, run_graph
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.registry import get_environment, reference_of
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path, sha256
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import PAPER_GAMMA, PARTS, Recipe, get_recipe
from vhdiffuser.recipes.train import train_length, train_planner
from vhdiffuser.results.cells import FIRST_TEST_SEED
from vhdiffuser.weights.places import find_model, run_folder

_TRAINED = {"planner": ("planner", "planner_loop"), "length": ("length", "length_loop")}
"""Parts of a recipe that each network's training depends on."""


@dataclass(frozen=True)
class SweepConfig:
    """What to try, and how to evaluate it."""

    environments: tuple[str, ...]
    grid: Mapping[str, tuple[Any, ...]]
    """Values of each field, by its name in the recipe: `planner.stride`, `length.network.width`."""
    recipe: str = "default"
    """Recipe to vary."""
    seeds: tuple[int, ...] = (0,)
    """Training seeds."""
    n: int = 100
    """Instances per point and protocol."""
    protocols: tuple[str, ...] = ("ss",)
    test_seed: int = 0
    """Seed of the instances."""

    def __post_init__(self) -> None:
        as_whole("n (instances of each point)", self.n, least=1)
        for seed in (*self.seeds, self.test_seed):
            as_seed(seed)
        if self.test_seed >= FIRST_TEST_SEED:
            raise VhdError(
                f"test seed {self.test_seed} is reserved for published figures, and a sweep would tune on it. "
                f"Use seeds 0 to {FIRST_TEST_SEED - 1}."
            )
        for name in ("environments", "seeds", "protocols"):
            if not getattr(self, name):
                raise VhdError(f"no {name[:-1]} given; pass one or more {name}.")

    def points(self) -> list[Point]:
        """All points of the grid."""
        values = [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]
        return [
            Point(env, chosen, seed, _changed(get_recipe(env, self.recipe), chosen, seed))
            for env in self.environments
            for chosen in values
            for seed in self.seeds
        ]


@dataclass(frozen=True)
class Point:
    """One environment, one value of each field, one training seed."""

    environment: str
    values: Mapping[str, Any]
    seed: int
    recipe: Recipe = field(repr=False)

    @property
    def name(self) -> str:
        """A unique name, the same in every sweep."""
        return _digest([self.environment, dict(self.values), self.seed, self.recipe.name])

    def trains(self, kind: str) -> bool:
        """Whether this point trains its own planner or Length Predictor; otherwise the existing one is used."""
        return any(name.split(".")[0] in _TRAINED[kind] for name in self.values)

    def run(self, kind: str) -> str:
        """Name of the training run of its planner or Length Predictor, shared by all points with equal training."""
        parts = [asdict(getattr(self.recipe, part)) for part in _TRAINED[kind]]
        return f"sweep-{kind}-{_digest([self.environment, parts])}"


def parse_grid(texts: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Parse `planner.stride=4,8` etc.: comma-separated values, each a JSON value or a word."""
    grid: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values or name.partition(".")[0] not in PARTS:
            raise VhdError(
                f"'{text}': write a field as PART.FIELD=VALUE,VALUE, e.g. planner.stride=4,8. Parts: "
                f"{', '.join(PARTS)} (`vhd recipes show ENV` lists their fields)."
            )
        if name in grid:
            raise VhdError(f"{name} is given twice; give all its values at once.")
        grid[name] = tuple(_value(value) for value in re.split(r",(?![^\[]*\])", values))
    return grid


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _changed(recipe: Recipe, values: Mapping[str, Any], seed: int) -> Recipe:
    parts: dict[str, Any] = {"planner_loop": {"seed": seed}, "length_loop": {"seed": seed}}
    for name, value in values.items():
        part, *inner = name.split(".")
        if not inner:
            raise VhdError(f"'{name}' is a part of the recipe; name one of its fields, as in {name}.FIELD.")
        place, known = parts.setdefault(part, {}), getattr(recipe, part)
        for step in inner[:-1]:
            place, known = place.setdefault(step, {}), getattr(known, step, None)
        if not is_dataclass(known) or not hasattr(known, inner[-1]):
            fields = ", ".join(asdict(getattr(recipe, part)))
            raise VhdError(f"recipe '{recipe.name}' has no field {name}. Fields of {part}: {fields}.")
        place[inner[-1]] = value
    return recipe.changed(**parts)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Sweep:
    """A sweep and the folder of its results."""

    config: SweepConfig
    folder: Path

    def __post_init__(self) -> None:
        """Refuse a folder of another sweep and impossible points before anything is trained."""
        asked = json.loads(json.dumps(asdict(self.config)))
        path = self.folder / "sweep.json"
        if path.exists():
            there = json.loads(path.read_text(encoding="utf-8"))
            if there != asked:
                differ = [key for key in asked if there.get(key) != asked[key]]
                raise DataError(
                    f"{path}: belongs to another sweep (different {', '.join(differ)}). Choose another folder."
                )
        for point in self.config.points():
            get_environment(point.environment).require_simulator()
            if not dataset_path(point.environment).is_file() and (point.trains("planner") or point.trains("length")):
                raise DataError(f"{point.environment}: no dataset. Run `vhd data get {point.environment}` first.")
            for kind in ("planner", "length"):
                if not point.trains(kind) and not find_model(point.environment, kind).is_file():
                    raise DataError(
                        f"{point.environment}: the grid does not change its {kind}, and no trained one exists. "
                        f"Run `vhd train {kind} {point.environment}` first."
                    )
        with atomic_path(path) as temporary:
            temporary.write_text(json.dumps(asked, indent=2) + "\n", encoding="utf-8")

    def result_path(self, point: Point) -> Path:
        """File of a point's result."""
        return self.folder / "points" / f"{point.name}.json"

    def tasks(self) -> dict[str, GraphTask]:
        """Remaining work: each training once, and the evaluation of each point after its trainings."""
        tasks: dict[str, GraphTask] = {}
        for point in self.config.points():
            if self.result_path(point).is_file():
                continue
            needs = []
            for kind in ("length", "planner"):
                if point.trains(kind):
                    name = f"train {kind} {point.environment} {point.run(kind)}"
                    tasks[name] = GraphTask(_train, (kind, point, reference_of(point.environment)))
                    needs.append(name)
            where = (self.folder / "rows" / point.name).absolute()
            arguments = (point, self.config, where, reference_of(point.environment))
            tasks[f"evaluate {point.name}"] = GraphTask(_evaluate, arguments, tuple(needs))
        return tasks

    def run(self, pool: RayPool | LocalPool) -> Iterator[tuple[str, int]]:
        """Run the sweep; yields each finished task and the total number of tasks."""
        tasks = self.tasks()
        by_name = {f"evaluate {point.name}": point for point in self.config.points()}
        for name, result in run_graph(tasks, pool):
            if (point := by_name.get(name)) is not None:
                value = {"environment": point.environment, "seed": point.seed, "values": dict(point.values), **result}
                with atomic_path(self.result_path(point)) as temporary:
                    temporary.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
            yield name, len(tasks)

    def results(self) -> list[dict[str, Any]]:
        """Results of all finished points, best first."""
        paths = [self.result_path(point) for point in self.config.points()]
        found = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
        first = self.config.protocols[0]
        return sorted(found, key=lambda result: (-result[first]["success_rate"], result[first]["steps"]))


def _train(kind: str, point: Point, reference: str) -> str:
    """Train one network, or resume its training, in a process that may not know the environment yet."""
    get_environment(reference)
    recipe = point.recipe
    one = {"threads": 1}
    recipe = recipe.changed(planner_loop=one, length_loop=one)
    if kind == "length":
        return str(train_length(point.environment, recipe, name=point.run(kind)))
    # Planning options are applied in the evaluation, so points that differ only in them share this training.
    planning = get_recipe(point.environment, recipe.name).planning
    return str(train_planner(point.environment, replace(recipe, planning=planning), name=point.run(kind)))


def _evaluate(point: Point, config: SweepConfig, folder: Path, reference: str) -> dict[str, Any]:
    """Success rate and executed steps of a point, by protocol, in a process that may not know the environment yet."""
    get_environment(reference)
    paths = {
        kind: run_folder(point.environment, point.run(kind)) / "model.safetensors"
        if point.trains(kind)
        else find_model(point.environment, kind)
        for kind in ("planner", "length")
    }
    route = find_model(point.environment, "route")
    predictor = LengthPredictor.load(paths["length"], routes=route if route.is_file() else None)
    planner = Planner.load(paths["planner"], predictor, outside="ignore")
    chosen = {name.partition(".")[2]: value for name, value in point.values.items() if name.startswith("planning.")}
    if planner.options.gamma == 1 and not {"gamma", "risk"} & set(chosen):
        chosen["gamma"] = PAPER_GAMMA  # just trained, so not calibrated
    planner = planner.with_options(**chosen)
    choice = PlannerChoice.of(planner, {kind: sha256(path) for kind, path in paths.items()})
    summaries = evaluate(
        choice, point.environment, config.n, protocols=config.protocols, seeds=config.test_seed, folder=folder
    )
    return {
        summary.protocol: {
            "n": summary.n,
            "success_rate": summary.success_rate,
            "success_rate_interval": summary.success_rate_interval,
            "steps": summary.average_executed_steps,
        }
        for summary in summaries
    }
