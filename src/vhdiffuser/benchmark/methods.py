"""The paper's methods: what each plans with, and how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.files import sha256
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.configs import AS_SAVED
from vhdiffuser.weights.places import Source, find_model

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Method:
    """One row of Table II."""

    name: str
    """Name on the command line and in rows."""
    trained_on: int | None
    """Which of H1..H3 (0..2) the planner's training crops have; None: random lengths."""
    predicts: bool
    """Whether the Length Predictor sets each plan's length; otherwise it is the training horizon."""
    recipe: str = "default"
    """How its networks are trained."""

    def horizon(self, environment: Environment) -> int | None:
        """Length of every plan, None where it is predicted."""
        return None if self.predicts else self.training_horizon(environment)

    def training_horizon(self, environment: Environment) -> int | None:
        """Length of the training crops, None where it is random."""
        return None if self.trained_on is None else environment.horizons[self.trained_on]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("vhd", None, predicts=True),
        # The paper does not say which fixed horizon FH+LP is trained on; the middle one is the fairest.
        Method("fh-lp", 1, predicts=True),
        Method("fh-h1", 0, predicts=False),
        Method("fh-h2", 1, predicts=False),
        Method("fh-h3", 2, predicts=False),
        # Not a row of the table: VHD trained by the paper's and Diffuser's values alone.
        Method("vhd-paper", None, predicts=True, recipe="paper"),
    )
}


TABLE_METHODS = ("vhd", "fh-lp", "fh-h1", "fh-h2", "fh-h3")
"""The rows of Table II."""


def get_method(name: str) -> Method:
    """The method of that name."""
    try:
        return METHODS[name]
    except KeyError:
        raise UnknownNameError("method", name, list(METHODS)) from None


@dataclass(frozen=True)
class PlannerChoice:
    """A planner ready to use, and everything about it that a result must record."""

    planner: BatchPlanner
    """The planner, with its Length Predictor where the method needs one."""
    options: PlanningOptions
    """What it plans with."""
    models: dict[str, str]
    """Digest of each model file, by kind."""
    saved: PlanningOptions | None = None
    """What was saved with the planner; None where it never was."""

    @classmethod
    def of(cls, planner: Planner, models: dict[str, str]) -> PlannerChoice:
        """A planner with the options that it has now."""
        return cls(planner, planner.options, models, planner.saved_options)

    def describe(self) -> dict[str, Any]:
        """What results record: every planning option, those that are as saved with the planner, and the models."""
        options = _recorded(self.options)
        saved = {} if self.saved is None else _recorded(self.saved)
        return {**options, AS_SAVED: [key for key in options if options[key] == saved.get(key)], "models": self.models}


def _recorded(options: PlanningOptions) -> dict[str, Any]:
    """Planning options by their names in results, where a row's `steps` are those of its execution."""
    return {"sampler_steps" if name == "steps" else name: value for name, value in options.to_json().items()}


PlannerSource = Callable[[str, str], PlannerChoice]
"""(method, environment) -> planner. Raises `DataError` where there are no weights, and says how to make them."""


def load_method(
    name: str, environment: Environment | str, source: Source = "auto", **options: Unpack[OptionChanges]
) -> PlannerChoice:
    """A method's planner for an environment, ready for `evaluate` and the benchmark.

    `source` says where its models are: `auto` (those that you trained, else those that ship), `trained`, `shipped` or
    a folder. `options` change what it plans with.

    >>> choice = load_method("vhd", "maze2d-umaze", candidates=4)     # doctest: +SKIP
    """
    known = environment if isinstance(environment, Environment) else get_environment(environment)
    method = get_method(name)
    paths = method_models(method, known, source)
    lengths = (2, max(known.spec.T_max, *known.horizons))
    planner = Planner.load(paths["planner"], outside="ignore", lengths=lengths).with_options(**options)
    if method.predicts:
        if planner.options.piece and planner.config.horizon is None:
            paths["route"] = _route_graph(known, planner.options.piece, source)
        planner.length_predictor = LengthPredictor.load(paths["length"], routes=paths.get("route"))
    return PlannerChoice.of(planner, {kind: sha256(path) for kind, path in paths.items()})


def method_models(method: Method, environment: Environment, source: Source = "auto") -> dict[str, Path]:
    """The method's model files by kind; a `DataError` says how to make one that is not there."""
    horizon = method.training_horizon(environment)
    paths = {"planner": find_model(environment.name, "planner", source, horizon, method.recipe)}
    if method.predicts:
        paths["length"] = find_model(environment.name, "length", source, recipe=method.recipe)
    for kind, path in paths.items():
        if not path.is_file():
            option = f" --horizon {horizon}" if kind == "planner" and horizon is not None else ""
            option += f" --recipe {method.recipe}" if method.recipe != "default" else ""
            raise DataError(
                f"{environment.name}: method '{method.name}' needs the {kind} model {path}, which is not there. "
                f"Make it with `vhd train {kind} {environment.name}{option}`."
            )
    return paths


def _route_graph(environment: Environment, piece: int, source: Source) -> Path:
    """The route graph that plans are composed by; a `DataError` says how to make it or do without."""
    path = find_model(environment.name, "route", source)
    if not path.is_file():
        raise DataError(
            f"{environment.name}: plans are composed of pieces of {piece} states along routes, and there is no route "
            f"graph {path}. Make it with `vhd train route {environment.name}`, or plan whole with `--piece 0`."
        )
    return path


def missing_methods(environment: Environment, source: Source = "auto") -> dict[str, DataError]:
    """Those of the table's methods whose weights are not there, each with how to make them."""
    missing: dict[str, DataError] = {}
    for name in TABLE_METHODS:
        try:
            method_models(get_method(name), environment, source)
        except DataError as error:
            missing[name] = error
    return missing
