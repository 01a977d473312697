"""How long, how fast and where to train: the values of a training loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from vhdiffuser.errors import UnknownNameError, VhdError

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class LoopConfig:
    """How long, how fast and where to train."""

    updates: int = 10_000
    """Gradient updates in all."""
    minutes: float | None = None
    """Stop after this many minutes of training, if that comes first; the learning rate decays to fit."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW, or Muon for the convolutions and AdamW for the rest."""
    learning_rate: float = 2e-4
    """Peak learning rate."""
    warmup: int = 200
    """Updates over which the learning rate rises from 0."""
    final_rate: float = 0.05
    """Share of the peak learning rate at the end of the cosine decay."""
    weight_decay: float = 1e-4
    """Weight decay, apart from the gradient."""
    accumulate: int = 1
    """Mini-batches whose gradients make one update."""
    clip: float | None = 1.0
    """Largest gradient norm; none for no clipping."""
    ema: float = 0.999
    """Decay of the weights' exponential moving average (EMA), which is what is saved and used."""
    ema_every: int = 1
    """Updates between two steps of the EMA."""
    ema_from: int = 0
    """Update at which averaging begins; before it the EMA is the network itself."""
    precision: Precision = "auto"
    """`auto` takes bf16 where the device computes in it, fp32 elsewhere; the variable VHD_PRECISION overrides that."""
    device: str = "auto"
    """`auto`, or a torch device such as `cpu` or `cuda`."""
    threads: int | None = None
    """CPU threads; torch's own choice by default."""
    seed: int = 0
    """Seed of the weights and of every mini-batch."""
    checkpoint_minutes: float = 3.0
    """Minutes between two checkpoints."""
    log_every: int = 50
    """Updates between two lines of the log."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("optimizer", self.optimizer, ["adamw", "muon"]),
            ("precision", self.precision, list(get_args(Precision))),
        ):
            if value not in known:
                raise UnknownNameError(name, value, known)
        for name in ("updates", "warmup", "accumulate", "ema_every", "ema_from", "log_every", "seed"):
            if not isinstance(getattr(self, name), int):
                raise VhdError(f"{name} must be a whole number, got {getattr(self, name)!r}.")
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
                allowed = f"{low} or more" if high == math.inf else f"{low} to {high}"
                raise VhdError(f"{name} must be a number of {allowed}, got {value}.")
        for name in ("clip", "minutes", "threads"):
            if (value := getattr(self, name)) is not None and not 0 < value < math.inf:
                raise VhdError(f"{name} must be above 0, or none, got {value}.")
