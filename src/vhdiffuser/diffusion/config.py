"""The recipe of a planner: saved with its weights, and shown on the command line."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import EnvSpec

SAMPLERS = ("ddpm", "ddim", "dpm++")


def checked_smoothing(value: float) -> float:
    """The value, if plans can be smoothed by it."""
    if not 0 <= value < float("inf"):
        raise VhdError(f"smoothing must be a time in control steps, 0 or more, got {value}.")
    return value


@dataclass(frozen=True)
class PlannerConfig:
    """How a planner is built, trained and sampled. The defaults are the default recipe."""

    dim: int = 32
    """Channels of the U-Net's first level."""
    dim_mults: tuple[int, ...] = (1, 2, 4)
    """Channels of every level, as multiples of `dim`; each level but the first halves time."""
    prediction: Literal["epsilon", "sample", "v_prediction"] = "v_prediction"
    """What the network predicts: the noise (the paper), the clean trajectory, or v."""
    diffusion_steps: int = 256
    """N: levels of the cosine noise schedule."""
    stride: int = 8
    """k: control steps between two knots; 1 is the plain method."""
    clamp: Literal["goal", "state"] = "goal"
    """What is fixed of the last state: its goal dimensions, or all of it."""
    smoothing: float = 12.0
    """Time, in control steps, over which a plan's curve evens out the network's faults; 0: through every knot."""
    stretch: float = 1.0
    """How many times as slowly as the data moves a plan is to be followed: the noise has 1/stretch of the plan's
    length, and the curve through its knots is laid over all of it. For a robot that is held up; 1 is the paper's.
    A fixed horizon is not stretched."""
    horizon: int | None = None
    """Train on crops of this many states only (the fixed-horizon baselines); none for random lengths."""
    directness: float | None = None
    """Crops are kept that are at most this many times as long as the Length Predictor says their ends are apart; none
    for every crop (the paper). Data that circles and stands about is mostly crops that no plan should look like."""
    evening: float = 0.0
    """Time, in control steps, over which the data's states are averaged before crops are cut (the deviation of a
    Gaussian window); 0: as recorded. A walking body sways about its path, and a plan should be the path."""
    batch_size: int = 128
    """Crops in one update; they share one length."""
    sampler: Literal["ddpm", "ddim", "dpm++"] = "ddim"
    """Reverse steps used for planning unless told otherwise."""
    steps: int = 5
    """Reverse steps of one plan unless told otherwise; at most `diffusion_steps`."""
    gamma: float = 1.3
    """Margin on the predicted length in planning, unless told otherwise; 1 is no margin."""
    action_dim: int = 0
    """Leading numbers of every knot that are actions: 0, but for checkpoints of the original Diffuser."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("prediction", self.prediction, ["epsilon", "sample", "v_prediction"]),
            ("clamp", self.clamp, ["goal", "state"]),
            ("sampler", self.sampler, list(SAMPLERS)),
        ):
            if value not in known:
                raise UnknownNameError(name, value, known)
        for name in ("diffusion_steps", "stride", "batch_size", "steps"):
            if getattr(self, name) < 1:
                raise VhdError(f"{name} must be at least 1, got {getattr(self, name)}.")
        checked_smoothing(self.smoothing)
        if not 1 <= self.stretch < float("inf"):
            raise VhdError(f"stretch must be 1 (the data's pace) or more, got {self.stretch}.")
        if not 0 <= self.evening < float("inf"):
            raise VhdError(f"evening must be a time in control steps, 0 or more, got {self.evening}.")
        if not 0 < self.gamma < float("inf"):
            raise VhdError(f"gamma must be above 0 (1 is no margin), got {self.gamma}.")
        if self.steps > self.diffusion_steps:
            raise VhdError(f"steps ({self.steps}) cannot exceed diffusion_steps ({self.diffusion_steps}).")
        if self.directness is not None and self.directness < 1:
            raise VhdError(f"directness must be 1 or more (or none: every crop), got {self.directness}.")
        if self.directness is not None and self.horizon is not None:
            raise VhdError("a fixed horizon must serve every distance and takes every crop: leave directness out.")
        if self.horizon is not None and self.horizon < 2:
            raise VhdError(f"horizon must be at least 2 states, got {self.horizon}.")

    @classmethod
    def default(cls, spec: EnvSpec) -> PlannerConfig:
        """The default recipe: the stride is the power of two that gives the longest plan about 40 knots.

        More knots cost time and, for these networks, gain nothing: what moves between them is noise.
        The ant's data circles about, and an ant on its way is often held up at corners: it learns from direct
        crops, and its plans leave it time.
        """
        stride = 2 ** max(0, round(math.log2(spec.T_max / 40)))
        if spec.name == "antmaze-medium":
            return cls(stride=stride, directness=2.2, smoothing=4.0, stretch=1.5, gamma=2.4)
        return cls(stride=stride)

    @classmethod
    def paper(cls, spec: EnvSpec) -> PlannerConfig:
        """The paper's recipe, with Diffuser's published values where the paper is silent."""
        steps = 64 if spec.name == "maze2d-umaze" else 256
        return cls(
            dim_mults=(1, 4, 8),
            prediction="epsilon",
            diffusion_steps=steps,
            stride=1,
            clamp="state",
            smoothing=0.0,
            batch_size=32,
            sampler="ddpm",
            steps=steps,
        )

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PlannerConfig:
        """The inverse of `to_json`."""
        return cls(**{**value, "dim_mults": tuple(value["dim_mults"])})

    def clamped_dims(self, spec: EnvSpec) -> tuple[list[int], list[int]]:
        """Dimensions of a knot that are known of the first and of the last state."""
        state = [self.action_dim + dim for dim in range(spec.state_dim)]
        goal = [self.action_dim + dim for dim in spec.goal_dims]
        return state, goal if self.clamp == "goal" else state
