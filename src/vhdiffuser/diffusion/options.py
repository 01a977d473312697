"""How to plan with a trained network: saved with its weights, changed by `Planner.with_options`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import UnknownNameError, VhdError

if TYPE_CHECKING:
    from typing_extensions import Unpack


class OptionChanges(TypedDict, total=False):
    """Keywords that change `PlanningOptions`; what is left out or None stays as it is."""

    sampler: str | None
    steps: int | None
    gamma: float | None
    smoothing: float | None
    stretch: float | None
    candidates: int | None
    piece: int | None


@dataclass(frozen=True)
class PlanningOptions:
    """Everything that changes a plan beside the network, the pair, the length and the seed."""

    sampler: str = "ddim"
    """Reverse process: `ddpm`, `ddim`, `dpm++`, or the name of a registered one."""
    steps: int = 5
    """Reverse steps of one plan; at most the network's `diffusion_steps`."""
    gamma: float = 1.3
    """Margin on the predicted length; 1 is no margin."""
    smoothing: float = 12.0
    """Time, in control steps, over which a plan's curve evens out the network's faults; 0: through every knot."""
    stretch: float = 1.0
    """How many times as slowly as the data moves a plan is to be followed: the noise has 1/stretch of the plan's
    length, and the curve through its knots is laid over all of it. For a robot that is held up; 1 is the paper's.
    A fixed horizon is not stretched."""
    candidates: int = 1
    """Candidates drawn per plan; the one that least violates predicted distances is returned. 1 is no selection."""
    piece: int = 0
    """States of a piece: a longer plan is composed of overlapping pieces along the Length Predictor's route, and may be
    of any length. 0: every plan is drawn whole (the paper), in at most T_max states."""

    def __post_init__(self) -> None:
        for name in ("steps", "gamma", "smoothing", "stretch", "candidates", "piece"):
            if isinstance(value := getattr(self, name), np.generic):  # such as numpy.linspace gives
                object.__setattr__(self, name, value.item())
        for name in ("steps", "candidates", "piece"):
            if not isinstance(getattr(self, name), int) or isinstance(getattr(self, name), bool):
                raise VhdError(f"{name} must be a whole number, got {getattr(self, name)!r}.")
        for name in ("gamma", "smoothing", "stretch"):
            if not isinstance(getattr(self, name), int | float) or isinstance(getattr(self, name), bool):
                raise VhdError(f"{name} must be a number, got {getattr(self, name)!r}.")
        if not isinstance(self.sampler, str):
            raise VhdError(f"sampler is the name of one, such as 'ddim'; got {self.sampler!r}.")
        SAMPLERS.require(self.sampler)
        if self.steps < 1:
            raise VhdError(f"steps must be at least 1, got {self.steps}.")
        if not 0 < self.gamma < float("inf"):
            raise VhdError(f"gamma must be above 0 (1 is no margin), got {self.gamma}.")
        if not 0 <= self.smoothing < float("inf"):
            raise VhdError(f"smoothing must be a time in control steps, 0 or more, got {self.smoothing}.")
        if not 1 <= self.stretch < float("inf"):
            raise VhdError(f"stretch must be 1 (the data's pace) or more, got {self.stretch}.")
        if self.candidates < 1:
            raise VhdError(f"candidates must be at least 1 (no selection), got {self.candidates}.")
        if self.piece < 0:
            raise VhdError(f"piece must be a number of states, or 0 (plans are drawn whole), got {self.piece}.")

    def changed(self, **changes: Unpack[OptionChanges]) -> PlanningOptions:
        """The same but for what is given; None stands for what is not."""
        if unknown := set(changes) - {field.name for field in fields(self)}:
            raise UnknownNameError("planning option", sorted(unknown)[0], [field.name for field in fields(self)])
        return replace(self, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]

    def within(self, config: PlannerConfig) -> PlanningOptions:
        """These, with no more reverse steps than a network of that config has levels."""
        return replace(self, steps=min(self.steps, config.diffusion_steps))

    def checked_for(self, config: PlannerConfig) -> PlanningOptions:
        """These, if a network of that config can be sampled so."""
        if self.steps > config.diffusion_steps:
            raise VhdError(
                f"steps must lie in 1..{config.diffusion_steps} (the planner's diffusion steps), got {self.steps}."
            )
        if self.piece and self.piece < 4 * config.stride:
            raise VhdError(f"piece must be at least 4 knots of {config.stride} control steps, got {self.piece} states.")
        return self

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PlanningOptions:
        """The inverse of `to_json`; options that an older file does not name have their defaults."""
        return cls(**value)
