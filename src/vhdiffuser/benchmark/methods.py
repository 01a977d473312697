"""The paper's methods: what each plans with, and how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError, UnknownNameError
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.types import EnvSpec


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

    def horizon(self, spec: EnvSpec) -> int | None:
        """Length of every plan, None where it is predicted."""
        return None if self.predicts else self.training_horizon(spec)

    def training_horizon(self, spec: EnvSpec) -> int | None:
        """Length of the training crops, None where it is random."""
        return None if self.trained_on is None else spec.horizons[self.trained_on]


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
    sampler: str
    """Reverse process."""
    sampler_steps: int
    """Its steps."""
    gamma: float
    """Margin on the predicted length."""
    candidates: int
    """Plans drawn for each plan used; 1 means no selection."""
    models: dict[str, str]
    """Digest of each model file, by kind."""
    smoothing: float | None = None
    """Time, in control steps, over which plans are evened out; none where the planner has no such thing."""

    def describe(self) -> dict[str, Any]:
        """What results record."""
        return {
            "sampler": self.sampler,
            "sampler_steps": self.sampler_steps,
            "gamma": self.gamma,
            "smoothing": self.smoothing,
            "candidates": self.candidates,
            "models": self.models,
        }


PlannerSource = Callable[[str, str], PlannerChoice]
"""(method, environment) -> planner. Raises `VhdError` (see `require_weights`) where there are no weights."""


def require_weights(method: Method, spec: EnvSpec, kind: str, path: Path) -> None:
    """An error that says which command makes `path`, where it is not there."""
    if path.is_file():
        return
    horizon = method.training_horizon(spec)
    option = f" --horizon {horizon}" if kind == "planner" and horizon is not None else ""
    option += f" --recipe {method.recipe}" if method.recipe != "default" else ""
    raise DataError(
        f"{spec.name}: method '{method.name}' needs the {kind} model {path}, which is not there. "
        f"Make it with `vhd train {kind} {spec.name}{option}`."
    )
