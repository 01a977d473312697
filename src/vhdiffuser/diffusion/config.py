"""Architecture and training of a planner's network: saved with its weights, and options of the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec


@dataclass(frozen=True)
class PlannerConfig:
    """The network and its training crops. `PlanningOptions` says how to plan with it."""

    dim: int = 32
    """Channels of the U-Net's first level."""
    dim_mults: tuple[int, ...] = (1, 2, 4)
    """Channels of each level, as multiples of `dim`; each level after the first halves the time resolution."""
    prediction: Literal["epsilon", "sample", "v_prediction"] = "v_prediction"
    """What the network predicts: the noise (the paper), the clean trajectory, or v."""
    diffusion_steps: int = 256
    """N: levels of the cosine noise schedule."""
    stride: int = 8
    """k: control steps between two knots; 1 in the paper."""
    clamp: Literal["goal", "state"] = "goal"
    """What is clamped of the last state: its goal dimensions, or all of it."""
    horizon: int | None = None
    """Train only on crops of this many states (fixed-horizon baselines); none: random lengths."""
    longest: int | None = None
    """Train on crops of at most this many states; none: T_max (the paper). Longer plans are then composed of pieces
    (`PlanningOptions.piece`)."""
    gap: tuple[int, int] | None = None
    """Train on no crop of this many to that many states (the first included, the second not); none: no gap. To ask what
    a planner makes of lengths that it never saw."""
    directness: float | None = None
    """Keep only crops at most this many times as long as the predicted distance between their ends; none: every crop
    (the paper). In data that circles and pauses, most crops are not worth imitating."""
    frame: float | None = None
    """Half the width, in the environment's units, of a frame that starts where the plan starts: the network then knows
    no absolute place, and one network serves all mazes whose pieces look alike. None: the limits of the data."""
    demonstration_first: bool = False
    """Draw a demonstration, then a crop of it (the paper); otherwise every crop of the data is as likely as any other,
    so that long demonstrations are drawn more often."""
    batch_size: int = 128
    """Crops per update; they share one length."""
    action_dim: int = 0
    """Leading action dimensions of each knot: 0, except for checkpoints of the original Diffuser."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("prediction", self.prediction, ["epsilon", "sample", "v_prediction"]),
            ("clamp", self.clamp, ["goal", "state"]),
        ):
            if not isinstance(value, str) or value not in known:
                raise UnknownNameError(name, str(value), known)
        check_fields(self)
        for name, most in (("dim", 4096), ("diffusion_steps", 10_000), ("stride", 10_000), ("batch_size", 10**6)):
            if not 1 <= getattr(self, name) <= most:
                raise VhdError(f"{name} must lie in 1..{most:,}, got {getattr(self, name)}.")
        if not 1 <= len(self.dim_mults) <= 8 or not all(1 <= mult <= 64 for mult in self.dim_mults):
            raise VhdError(f"dim_mults needs 1 to 8 numbers, each in 1..64, got {self.dim_mults}.")
        if self.action_dim < 0:
            raise VhdError(f"action_dim must not be negative, got {self.action_dim}.")
        if self.directness is not None and self.directness < 1:
            raise VhdError(f"directness must be 1 or more (or none: every crop), got {self.directness}.")
        if self.directness is not None and self.horizon is not None:
            raise VhdError("a fixed horizon must serve every distance and needs every crop: leave directness out.")
        for name, size in (("horizon", self.horizon), ("longest", self.longest)):
            if size is not None and size < 2:
                raise VhdError(f"{name} must be at least 2 states, got {size}.")
        if self.frame is not None and not 0 < self.frame < float("inf"):
            raise VhdError(f"frame must be a positive width (or none: the limits of the data), got {self.frame}.")
        if self.longest is not None and self.horizon is not None:
            raise VhdError("a fixed horizon has crops of one length: leave `longest` out.")
        if self.gap is not None and (self.horizon is not None or not 0 < self.gap[0] < self.gap[1]):
            raise VhdError(f"gap is a range of lengths for planners without a fixed horizon, got {self.gap}.")
        if self.directness is not None and self.demonstration_first:
            raise VhdError("direct crops are chosen from the whole data: leave out directness or demonstration_first.")

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PlannerConfig:
        """The inverse of `to_json`."""
        return from_fields(cls, value, "config")

    def network_normalizer(self, spec: EnvSpec, normalizer: Normalizer) -> Normalizer:
        """Maps states to the network's numbers: the data's normaliser, with places in units of the frame."""
        if self.frame is None:
            return normalizer
        low, high = normalizer.low.copy(), normalizer.high.copy()
        low[list(spec.goal_dims)], high[list(spec.goal_dims)] = -self.frame, self.frame
        return Normalizer(low, high)

    def clamped_dims(self, spec: EnvSpec) -> tuple[list[int], list[int]]:
        """Clamped dimensions of the first and of the last knot."""
        state = [self.action_dim + dim for dim in range(spec.state_dim)]
        goal = [self.action_dim + dim for dim in spec.goal_dims]
        return state, goal if self.clamp == "goal" else state
