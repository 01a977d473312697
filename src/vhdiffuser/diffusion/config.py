"""Architecture and training data of a planner's network; stored with its weights and set by command-line options."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from vhdiffuser.arguments import check_fields, from_fields
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec


@dataclass(frozen=True)
class PlannerConfig:
    """The network and its training crops. `PlanningOptions` define how to plan with it."""

    dim: int = 32
    """Channels of the U-Net's first level."""
    dim_mults: tuple[int, ...] = (1, 2, 4)
    """Channels of each level, as multiples of `dim`; each level after the first halves the time resolution."""
    prediction: Literal["epsilon", "sample", "v_prediction"] = "v_prediction"
    """What the network predicts: the noise (the paper), the clean trajectory, or v."""
    diffusion_steps: int = 256
    """N: number of levels of the cosine noise schedule."""
    stride: int = 8
    """k: control steps between knots; 1 in the paper."""
    clamp: Literal["goal", "state"] = "goal"
    """What is clamped in the last state: its goal dimensions, or all dimensions."""
    horizon: int | None = None
    """Train only on crops of this many states (fixed-horizon baselines); none means random lengths."""
    longest: int | None = None
    """Train on crops of at most this many states; none means T_max (the paper). Longer plans are then composed of
    pieces (`PlanningOptions.piece`)."""
    gap: tuple[int, int] | None = None
    """Exclude crops of this many (inclusive) to that many states (exclusive), to test lengths unseen in training; none
    means no gap."""
    directness: float | None = None
    """Keep only crops at most this many times as long as the predicted distance between their ends; none keeps all
    crops (the paper). In data that circles and pauses, most crops are not worth imitating."""
    frame: float | None = None
    """Half width, in the environment's units, of a frame centred at the plan's start. The network then sees no absolute
    positions, and one network serves all mazes whose pieces look alike. None uses the limits of the data."""
    demonstration_first: bool = False
    """Draw a demonstration, then a crop of it (the paper); otherwise all crops are equally likely, so long
    demonstrations are drawn more often."""
    batch_size: int = 128
    """Crops per update, all of the same length."""
    action_dim: int = 0
    """Number of leading action dimensions per knot: 0 except for checkpoints of the original Diffuser."""

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
                raise VhdError(f"{name} must be in 1..{most:,}; got {getattr(self, name)}.")
        if not 1 <= len(self.dim_mults) <= 8 or not all(1 <= mult <= 64 for mult in self.dim_mults):
            raise VhdError(f"dim_mults needs 1 to 8 numbers, each in 1..64; got {self.dim_mults}.")
        if self.action_dim < 0:
            raise VhdError(f"action_dim must be >= 0; got {self.action_dim}.")
        if self.directness is not None and self.directness < 1:
            raise VhdError(f"directness must be >= 1 (or none to keep all crops); got {self.directness}.")
        if self.directness is not None and self.horizon is not None:
            raise VhdError("a fixed horizon must cover every distance and needs all crops: leave out directness.")
        for name, size in (("horizon", self.horizon), ("longest", self.longest)):
            if size is not None and size < 2:
                raise VhdError(f"{name} must be at least 2 states; got {size}.")
        if self.frame is not None and not 0 < self.frame < float("inf"):
            raise VhdError(f"frame must be a positive width (or none for the limits of the data); got {self.frame}.")
        if self.longest is not None and self.horizon is not None:
            raise VhdError("a fixed horizon has crops of one length: leave out `longest`.")
        if self.gap is not None and (self.horizon is not None or not 0 < self.gap[0] < self.gap[1]):
            raise VhdError(f"gap must be a range of lengths, without a fixed horizon; got {self.gap}.")
        if self.directness is not None and self.demonstration_first:
            raise VhdError("direct crops are chosen from the whole data: leave out directness or demonstration_first.")

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> PlannerConfig:
        """Inverse of `to_json`."""
        return from_fields(cls, value, "config")

    def network_normalizer(self, spec: EnvSpec, normalizer: Normalizer) -> Normalizer:
        """Maps states to the network's input: the data's normaliser, with positions in units of the frame."""
        if self.frame is None:
            return normalizer
        low, high = normalizer.low.copy(), normalizer.high.copy()
        low[list(spec.goal_dims)], high[list(spec.goal_dims)] = -self.frame, self.frame
        return Normalizer(low, high)

    def clamped_dims(self, spec: EnvSpec) -> tuple[list[int], list[int]]:
        """Clamped dimensions of the first and the last knot."""
        state = [self.action_dim + dim for dim in range(spec.state_dim)]
        goal = [self.action_dim + dim for dim in spec.goal_dims]
        return state, goal if self.clamp == "goal" else state
