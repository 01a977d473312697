"""How a planner's network is built and trained: saved with its weights, and shown on the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import EnvSpec


@dataclass(frozen=True)
class PlannerConfig:
    """The network and its training data: what a trained planner is. `PlanningOptions` says how to plan with it."""

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
    horizon: int | None = None
    """Train on crops of this many states only (the fixed-horizon baselines); none for random lengths."""
    longest: int | None = None
    """Train on crops of at most this many states; none for T_max (the paper). Longer plans are then composed of pieces
    (`PlanningOptions.piece`)."""
    directness: float | None = None
    """Crops are kept that are at most this many times as long as the Length Predictor says their ends are apart; none
    for every crop (the paper). Data that circles and stands about is mostly crops that no plan should look like."""
    batch_size: int = 128
    """Crops in one update; they share one length."""
    action_dim: int = 0
    """Leading numbers of every knot that are actions: 0, but for checkpoints of the original Diffuser."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("prediction", self.prediction, ["epsilon", "sample", "v_prediction"]),
            ("clamp", self.clamp, ["goal", "state"]),
        ):
            if value not in known:
                raise UnknownNameError(name, value, known)
        for name in ("diffusion_steps", "stride", "batch_size"):
            if getattr(self, name) < 1:
                raise VhdError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.directness is not None and self.directness < 1:
            raise VhdError(f"directness must be 1 or more (or none: every crop), got {self.directness}.")
        if self.directness is not None and self.horizon is not None:
            raise VhdError("a fixed horizon must serve every distance and takes every crop: leave directness out.")
        for name, size in (("horizon", self.horizon), ("longest", self.longest)):
            if size is not None and size < 2:
                raise VhdError(f"{name} must be at least 2 states, got {size}.")
        if self.longest is not None and self.horizon is not None:
            raise VhdError("a fixed horizon has crops of one length: leave `longest` out.")

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
