"""The paper's methods: their planners and plan lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
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
    """Which of H1..H3 (0..2) is the length of the training crops; None: random lengths."""
    predicts: bool
    """Whether the Length Predictor sets each plan's length; otherwise it is the training horizon."""
    recipe: str = "default"
    """How its networks are trained."""

    def horizon(self, environment: Environment) -> int | None:
        """Length of every plan, or None if it is predicted."""
        return None if self.predicts else self.training_horizon(environment)

    def training_horizon(self, environment: Environment) -> int | None:
        """Length of the training crops, or None if it is random."""
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
    )
}
TABLE_METHODS = tuple(METHODS)
"""The rows of Table II."""
# The same with networks trained by the recipe `paper`: nothing of ours.
METHODS |= {
    f"{method.name}-paper": replace(method, name=f"{method.name}-paper", recipe="paper") for method in METHODS.values()
}


def get_method(name: str) -> Method:
    """The method of that name."""
    if not isinstance(name, str) or name not in METHODS:
        raise UnknownNameError("method", str(name), list(METHODS))
    return METHODS[name]


def controller_for(methods: Sequence[str], environment: Environment) -> str:
    """Name of the controller under which methods are compared: the environment's own.

    The paper reads plans by their index, one action each: so do methods of the recipe `paper`, also where the
    environment's own controller follows the path.
    """
    recipes = {get_method(name).recipe for name in methods}
    if environment.controller != "path_following" or "paper" not in recipes:
        return environment.controller
    if len(recipes) > 1:
        raise VhdError(
            f"{environment.name}: methods of the recipe `paper` read plans by their index, the others follow the path. "
            "Run them in two commands, or name one --controller for all."
        )
    return "inverse_dynamics"


@dataclass(frozen=True)
class PlannerChoice:
    """A planner ready to use, with everything about it that results record."""

    planner: BatchPlanner
    """The planner, with its Length Predictor if the method needs one."""
    options: PlanningOptions
    """Its planning options."""
    models: dict[str, str]
    """Digest of each model file, by kind."""
    saved: PlanningOptions | None = None
    """The options saved with the planner; None if it was never saved."""
    horizon: int | None = None
    """Length of every plan, in place of the method's."""

    @classmethod
    def of(cls, planner: Planner, models: dict[str, str]) -> PlannerChoice:
        """A planner with its current options."""
        return cls(planner, planner.options, models, planner.saved_options)

    def describe(self) -> dict[str, Any]:
        """What results record: every planning option, which of them are as saved with the planner, and the models."""
        options = _recorded(self.options)
        saved = {} if self.saved is None else _recorded(self.saved)
        return {**options, AS_SAVED: [key for key in options if options[key] == saved.get(key)], "models": self.models}


def _recorded(options: PlanningOptions) -> dict[str, Any]:
    """Planning options by their names in results, where `steps` means executed steps."""
    return {"sampler_steps" if name == "steps" else name: value for name, value in options.to_json().items()}


PlannerSource = Callable[[str, str], PlannerChoice]
"""(method, environment) -> planner. Raises `DataError` if weights are missing, and says how to train them."""


def load_method(
    name: str, environment: Environment | str, source: Source = "auto", **options: Unpack[OptionChanges]
) -> PlannerChoice:
    """A method's planner for an environment, ready for `evaluate` and the benchmark.

    `source` selects its models: `auto` (yours if you trained them, otherwise the shipped ones), `trained`, `shipped` or
    a folder. `options` change its planning options.

    >>> choice = load_method("vhd", "maze2d-umaze", candidates=4)     # doctest: +SKIP
    """
    known = environment if isinstance(environment, Environment) else get_environment(environment)
    return load_choice(method_models(get_method(name), known, source), known, source, **options)


def load_choice(
    paths: dict[str, Path], environment: Environment, source: Source = "auto", **options: Unpack[OptionChanges]
) -> PlannerChoice:
    """A planner from model files by kind: `planner` and, where lengths are predicted, `length`.

    Composed plans need the environment's route graph too, which `source` finds.
    """
    lengths = (2, max(environment.spec.T_max, *environment.horizons))
    planner = Planner.load(paths["planner"], outside="ignore", lengths=lengths).with_options(**options)
    if "length" in paths:
        if planner.options.piece and planner.config.horizon is None:
            paths = {**paths, "route": _route_graph(environment, planner.options.piece, source)}
        planner.length_predictor = LengthPredictor.load(paths["length"], routes=paths.get("route"))
    return PlannerChoice.of(planner, {kind: sha256(path) for kind, path in paths.items()})


def method_models(method: Method, environment: Environment, source: Source = "auto") -> dict[str, Path]:
    """The method's model files by kind; a `DataError` says how to train a missing one."""
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
    """The route graph for composed plans; a `DataError` says how to build it or do without."""
    path = find_model(environment.name, "route", source)
    if not path.is_file():
        raise DataError(
            f"{environment.name}: plans are composed of pieces of {piece} states along routes, and there is no route "
            f"graph {path}. Make it with `vhd train route {environment.name}`, or plan whole with `--piece 0`."
        )
    return path


def missing_methods(environment: Environment, source: Source = "auto") -> dict[str, DataError]:
    """Methods of the table whose weights are missing, each with the error that says how to train them."""
    missing: dict[str, DataError] = {}
    for name in TABLE_METHODS:
        try:
            method_models(get_method(name), environment, source)
        except DataError as error:
            missing[name] = error
    return missing
