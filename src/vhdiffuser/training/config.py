"""Configuration of the training loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from vhdiffuser.arguments import check_fields
from vhdiffuser.errors import UnknownNameError, VhdError

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class LoopConfig:
    """Settings of the training loop."""

    updates: int = 10_000
    """Total number of gradient updates."""
    minutes: float | None = None
    """Stop after this many minutes if that comes first; the learning rate decays accordingly."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW, or Muon for the convolutions and AdamW for the rest."""
    learning_rate: float = 2e-4
    """Peak learning rate."""
    warmup: int = 200
    """Updates over which the learning rate rises from 0."""
    final_rate: float = 0.05
    """Learning rate at the end of the cosine decay, as a fraction of the peak."""
    weight_decay: float = 1e-4
    """Decoupled weight decay."""
    accumulate: int = 1
    """Mini-batches accumulated per update."""
    clip: float | None = 1.0
    """Maximum gradient norm; none disables clipping."""
    ema: float = 0.999
    """Decay of the exponential moving average (EMA) of the weights, which is saved and used."""
    ema_every: int = 1
    """Updates between EMA steps."""
    ema_from: int = 0
    """Update at which averaging starts; before it, the EMA equals the network."""
    precision: Precision = "auto"
    """`auto`: bf16 if the device supports it natively, otherwise fp32; the variable VHD_PRECISION overrides it."""
    device: str = "auto"
    """`auto`, or a torch device such as `cpu` or `cuda`."""
    threads: int | None = None
    """CPU threads (default: one or all cores, whichever is faster at the start). Weights depend on it by rounding."""
    seed: int = 0
    """Seed of weights and mini-batches."""
    checkpoint_minutes: float = 3.0
    """Minutes between checkpoints."""
    log_every: int = 50
    """Updates between log lines."""
    snapshot_every: int | None = None
    """Updates between snapshots of the EMA weights, kept as model files in the run's folder `snapshots`, for learning
    curves; none disables them."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("optimizer", self.optimizer, ["adamw", "muon"]),
            ("precision", self.precision, list(get_args(Precision))),
        ):
            if not isinstance(value, str) or value not in known:
                raise UnknownNameError(name, str(value), known)
        check_fields(self)
        limits = {
            "updates": (1, math.inf),
            "learning_rate": (0, math.inf),
            "warmup": (0, math.inf),
            "final_rate": (0, 1),
            "weight_decay": (0, math.inf),
            "accumulate": (1, math.inf),
            "ema": (0, 1),
            "ema_every": (1, math.inf),
            "ema_from": (0, math.inf),
            "checkpoint_minutes": (0, math.inf),
            "log_every": (1, math.inf),
            "seed": (0, math.inf),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                allowed = f">= {low}" if high == math.inf else f"from {low} to {high}"
                raise VhdError(f"{name} must be a number {allowed}; got {value}.")
        for name in ("clip", "minutes", "threads", "snapshot_every"):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise VhdError(f"{name} must be > 0, or none; got {value}.")
        if self.threads is not None and self.threads > 1024:
            raise VhdError(f"threads must be at most 1,024; got {self.threads}.")
