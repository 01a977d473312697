"""Planning options: stored with a planner's weights, changed by `Planner.with_options`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.errors import UnknownNameError, VhdError

if TYPE_CHECKING:
    from typing_extensions import Unpack


MOST_CANDIDATES = 10_000
"""Maximum number of candidates; they are sampled together, and more would take gigabytes."""
MOST_WAITING = 10_000
"""Maximum number of states that a plan spends at its goal."""
LEAST_KNOTS = 4
"""Minimum number of knots per piece of a composed plan."""


class OptionChanges(TypedDict, total=False):
    """Keyword arguments that change `PlanningOptions`; omitted or None means no change."""

    sampler: str | None
    steps: int | None
    gamma: float | None
    smoothing: float | None
    stretch: float | None
    candidates: int | None
    piece: int | None
    tube: float | None
    risk: float | None
    retime: float | None
    wait: int | None


@dataclass(frozen=True)
class PlanningOptions:
    """Everything that affects a plan besides the network, the start-goal pair, the length and the seed."""

    sampler: str = "ddim"
    """Sampler: `ddpm`, `ddim`, `dpm++`, or a registered one."""
    steps: int = 5
    """Reverse steps per plan; at most the network's `diffusion_steps`."""
    gamma: float = 1.0
    """Margin on the predicted length: the paper's, set by hand. 1 is no margin; a calibrated planner needs none."""
    smoothing: float = 12.0
    """Smoothing time of the plan's curve, in control steps; 0 makes it pass through every knot."""
    stretch: float = 1.0
    """Factor by which plans are slower than the data: 1/stretch of the plan's length is sampled, then spread over all
    of it. For robots slower than their data; 1 in the paper. Fixed-horizon planners are never stretched."""
    candidates: int = 1
    """Candidates sampled per plan; the one that least violates predicted distances is returned. 1 means no
    selection."""
    piece: int = 0
    """States per piece: longer plans are composed of overlapping pieces along the Length Predictor's route and may have
    any length. 0 samples every plan in one piece (the paper), with at most T_max states."""
    tube: float = 1.2
    """Maximum distance of a composed plan from its route, in radii of the route graph's regions."""
    risk: float | None = None
    """Accepted probability of not arriving within the plan's length: a calibrated planner (`vhd calibrate`) uses the
    shortest length that meets it. None uses gamma."""
    retime: float | None = None
    """Plans shorter than this many times the predicted distance are sampled at that length and then retimed: sped up to
    their own length within the data's maximum speed and acceleration, most on straights, least in turns. None samples
    every plan at its own length (the paper)."""
    wait: int = 0
    """States that a plan adds to its length and spends at its goal, for robots that arrive late. 0 in the paper.
    Fixed-horizon planners never wait."""

    def __post_init__(self) -> None:
        check_fields(self)
        SAMPLERS.require(self.sampler)
        if self.steps < 1:
            raise VhdError(f"steps must be >= 1; got {self.steps}.")
        if not 0 < self.gamma < float("inf"):
            raise VhdError(f"gamma must be > 0 (1 is no margin); got {self.gamma}.")
        if not 0 <= self.smoothing < float("inf"):
            raise VhdError(f"smoothing must be a time in control steps, >= 0; got {self.smoothing}.")
        if not 1 <= self.stretch < float("inf"):
            raise VhdError(f"stretch must be >= 1 (1 is the data's speed); got {self.stretch}.")
        if not 1 <= self.candidates <= MOST_CANDIDATES:
            raise VhdError(f"candidates must be in 1 (no selection) to {MOST_CANDIDATES:,}; got {self.candidates}.")
        if not 0 < self.tube < float("inf"):
            raise VhdError(f"tube must be > 0 (1 is one radius of a region); got {self.tube}.")
        if self.piece < 0:
            raise VhdError(f"piece must be a number of states, or 0 (plans in one piece); got {self.piece}.")
        if self.retime is not None and not 0 < self.retime < float("inf"):
            raise VhdError(
                f"retime must be > 0 (a multiple of the predicted distance, such as gamma); got {self.retime}."
            )
        if not 0 <= self.wait <= MOST_WAITING:
            raise VhdError(f"wait must be a number of states from 0 (no waiting) to {MOST_WAITING:,}; got {self.wait}.")
        if self.risk is not None and not 0 < self.risk < 1:
            raise VhdError(f"risk must be a probability between 0 and 1, such as 0.05; got {self.risk}.")

    def changed(self, **changes: Unpack[OptionChanges]) -> PlanningOptions:
        """A copy with the given changes; None means no change. Gamma and risk both choose the length: one of them
        given alone replaces the other."""
        if unknown := set(changes) - {field.name for field in fields(self)}:
            raise UnknownNameError("planning option", sorted(unknown)[0], [field.name for field in fields(self)])
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        if "gamma" in given and "risk" not in given:
            given["risk"] = None
        if "risk" in given and "gamma" not in given:
            given["gamma"] = 1.0
        return replace(self, **given)

    def within(self, config: PlannerConfig) -> PlanningOptions:
        """A copy with at most as many reverse steps as the network has noise levels, and pieces of at least four
        knots."""
        piece = max(self.piece, LEAST_KNOTS * config.stride) if self.piece else 0
        return replace(self, steps=min(self.steps, config.diffusion_steps), piece=piece)

    def checked_for(self, config: PlannerConfig) -> PlanningOptions:
        """Return these options if they are valid for a network with that config; raises `VhdError`."""
        if self.steps > config.diffusion_steps:
            raise VhdError(
                f"steps must be in 1..{config.diffusion_steps} (the planner's diffusion steps); got {self.steps}."
            )
        if self.piece and self.piece < LEAST_KNOTS * config.stride:
            raise VhdError(
                f"piece must be at least {LEAST_KNOTS} knots of {config.stride} control steps; got {self.piece} states."
            )
        if self.wait and config.clamp == "state":
            raise VhdError(
                f"wait {self.wait}: this planner fixes the whole last state of a plan, which may be moving. Use wait=0."
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PlanningOptions:
        """Inverse of `to_json`; options missing in an older file get their defaults."""
        return from_fields(cls, value, "planning")
