"""The paper's methods: their planners and plan lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vhdiffuser.diffusion.options import OptionChanges, PlanningOptions
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.files import sha256
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.calibrated import at_default_risk
from vhdiffuser.planner.foreign import ForeignPlanner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.recipes.recipe import PAPER_GAMMA
from vhdiffuser.results.configs import AS_SAVED, FOREIGN
from vhdiffuser.weights.places import Source, find_model

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class Method:
    """One row of Table II."""

    name: str
    """Name on the command line and in rows."""
    trained_on: int | None
    """Which of H1..H3 (0..2) is the length of the training crops; None for random lengths."""
    predicts: bool
    """Whether the Length Predictor sets each plan's length; otherwise it is the training horizon."""
    recipe: str = "default"
    """Recipe of its networks."""

    def horizon(self, environment: Environment) -> int | None:
        """Length of every plan; None if predicted."""
        return None if self.predicts else self.training_horizon(environment)

    def training_horizon(self, environment: Environment) -> int | None:
        """Length of the training crops; None if random."""
        return None if self.trained_on is None else environment.horizons[self.trained_on]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("vhd", None, predicts=True),
        # The paper does not say which fixed horizon FH+LP was trained on; the middle one is the fairest choice.
        Method("fh-lp", 1, predicts=True),
        Method("fh-h1", 0, predicts=False),
        Method("fh-h2", 1, predicts=False),
        Method("fh-h3", 2, predicts=False),
    )
}
TABLE_METHODS = tuple(METHODS)
"""The rows of Table II."""
# The same methods with networks trained by the recipe `paper`, without our changes.
METHODS |= {
    f"{method.name}-paper": replace(method, name=f"{method.name}-paper", recipe="paper") for method in METHODS.values()
}


def get_method(name: str) -> Method:
    """Return the method of this name; raises `UnknownNameError`."""
    if not isinstance(name, str) or name not in METHODS:
        raise UnknownNameError("method", str(name), list(METHODS))
    return METHODS[name]


def controller_for(methods: Sequence[str], environment: Environment) -> str:
    """Name of the controller for comparing methods: the environment's own.

    The paper reads plans by index, one action each; so do methods of the recipe `paper`, even if the environment's own
    controller follows the path.
    """
    recipes = {get_method(name).recipe for name in methods}
    if environment.controller != "path_following" or "paper" not in recipes:
        return environment.controller
    if len(recipes) > 1:
        raise VhdError(
            f"{environment.name}: methods of the recipe `paper` read plans by index, the others follow the "
            "path. Run them in separate commands, or set one --controller for all."
        )
    return "inverse_dynamics"


@dataclass(frozen=True)
class PlannerChoice:
    """A planner ready to use, with everything that results record about it."""

    planner: BatchPlanner
    """The planner, with its Length Predictor if the method needs one."""
    options: PlanningOptions
    """Planning options."""
    models: dict[str, str]
    """Digest of each model file, by kind."""
    saved: PlanningOptions | None = None
    """Options saved with the planner; None if it was never saved."""
    horizon: int | None = None
    """Length of every plan, overriding the method's."""

    @classmethod
    def of(cls, planner: Planner, models: dict[str, str]) -> PlannerChoice:
        """A planner with its current options."""
        return cls(planner, planner.options, models, planner.saved_options)

    @property
    def candidates(self) -> int:
        """Plans sampled per returned plan."""
        return self.options.candidates

    def method(self, name: str) -> Method:
        """The method of this name."""
        return get_method(name)

    def describe(self) -> dict[str, Any]:
        """What results record: all planning options, which of them are as saved with the planner, and the models."""
        options = _recorded(self.options)
        saved = {} if self.saved is None else _recorded(self.saved)
        return {**options, AS_SAVED: [key for key in options if options[key] == saved.get(key)], "models": self.models}


@dataclass(frozen=True)
class ForeignChoice:
    """A third-party planner in place of a method, under its own name."""

    planner: ForeignPlanner
    """The planner."""

    horizon = None
    models: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        if self.planner.name in METHODS:  # otherwise rows would be mixed up
            raise VhdError(f"'{self.planner.name}' is the name of one of our methods: give the planner another `name`.")

    @property
    def candidates(self) -> int:
        """Plans sampled per returned plan, according to the planner."""
        return self.planner.candidates

    def method(self, name: str) -> Method:
        """A method that chooses the length of each plan itself."""
        return Method(name, None, predicts=False)

    def describe(self) -> dict[str, Any]:
        """What results record: the planner's origin and its candidates."""
        return {FOREIGN: self.planner.describe(), "candidates": self.candidates, "models": self.models}


AnyChoice = PlannerChoice | ForeignChoice


def _recorded(options: PlanningOptions) -> dict[str, Any]:
    """Planning options under their names in results, where `steps` means executed steps."""
    return {"sampler_steps" if name == "steps" else name: value for name, value in options.to_json().items()}


PlannerSource = Callable[[str, str], AnyChoice]
"""(method, environment) -> planner. Raises `DataError` with the training command if weights are missing."""


def load_method(
    name: str, environment: Environment | str, source: Source = "auto", **options: Unpack[OptionChanges]
) -> PlannerChoice:
    """Load a method's planner for an environment, for `evaluate` and the benchmark.

    `source` selects the models: `auto` (yours if you trained them, otherwise the shipped ones), `trained`, `shipped` or
    a folder. `options` change the planning options. As with `load_planner`, a calibrated planner chooses lengths by its
    default risk unless they name a gamma; FH+LP, which has no calibration, by the paper's rule. Raises `DataError` if
    models are missing.

    >>> choice = load_method("vhd", "maze2d-umaze", candidates=4)     # doctest: +SKIP
    """
    known = environment if isinstance(environment, Environment) else get_environment(environment)
    method = get_method(name)
    if method.predicts and method.trained_on is not None and options.get("gamma") is None:
        options["gamma"] = PAPER_GAMMA
    return load_choice(method_models(method, known, source), known, source, **options)


def load_choice(
    paths: dict[str, Path], environment: Environment, source: Source = "auto", **options: Unpack[OptionChanges]
) -> PlannerChoice:
    """Load a planner from model files by kind: `planner` and, if lengths are predicted, `length`.

    Composed plans also need the environment's route graph, found through `source`.
    """
    lengths = (2, max(environment.spec.T_max, *environment.horizons))
    planner = Planner.load(paths["planner"], outside="ignore", lengths=lengths).with_options(**options)
    if "length" in paths:
        if planner.options.piece and planner.config.horizon is None:
            paths = {**paths, "route": _route_graph(environment, planner.options.piece, source)}
        planner.length_predictor = LengthPredictor.load(paths["length"], routes=paths.get("route"))
    return _choice(at_default_risk(planner, options), paths)


def load_folder(folder: Path, **options: Unpack[OptionChanges]) -> PlannerChoice:
    """Load the planner from a folder of exported models (`vhd models export`), for `evaluate` and the benchmark."""
    planner = Planner.from_pretrained(folder, outside="ignore", **options)
    paths = {kind: folder / f"{kind}.safetensors" for kind in ("planner", "length", "route")}
    return _choice(planner, {kind: path for kind, path in paths.items() if path.is_file()})


def _choice(planner: Planner, paths: Mapping[str, Path]) -> PlannerChoice:
    """A planner, with the digests of its model files and of the calibration that chooses its lengths."""
    models = {kind: sha256(path) for kind, path in paths.items()}
    if planner.options.risk is not None and planner.calibration is not None:
        models["calibration"] = planner.calibration.lengths_digest
    return PlannerChoice.of(planner, models)


def method_models(method: Method, environment: Environment, source: Source = "auto") -> dict[str, Path]:
    """The method's model files by kind; raises `DataError` with the training command if one is missing."""
    horizon = method.training_horizon(environment)
    paths = {"planner": find_model(environment.name, "planner", source, horizon, method.recipe)}
    if method.predicts:
        paths["length"] = find_model(environment.name, "length", source, recipe=method.recipe)
    for kind, path in paths.items():
        if not path.is_file():
            option = f" --horizon {horizon}" if kind == "planner" and horizon is not None else ""
            option += f" --recipe {method.recipe}" if method.recipe != "default" else ""
            raise DataError(
                f"{environment.name}: method '{method.name}' needs the {kind} model {path}, which does not "
                f"exist. Train it with `vhd train {kind} {environment.name}{option}`."
            )
    return paths


def _route_graph(environment: Environment, piece: int, source: Source) -> Path:
    """The route graph for composed plans; raises `DataError` if it is missing."""
    path = find_model(environment.name, "route", source)
    if not path.is_file():
        raise DataError(
            f"{environment.name}: plans are composed of pieces of {piece} states along routes, but the route "
            f"graph {path} does not exist. Build it with `vhd train route {environment.name}`, or plan in one "
            "piece with `--piece 0`."
        )
    return path


def missing_methods(environment: Environment, source: Source = "auto") -> dict[str, DataError]:
    """Methods of the table with missing weights, each with the error that says how to train them."""
    missing: dict[str, DataError] = {}
    for name in TABLE_METHODS:
        try:
            method_models(get_method(name), environment, source)
        except DataError as error:
            missing[name] = error
    return missing
