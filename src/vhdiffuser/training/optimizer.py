"""The optimiser of a training, and its learning rate at every update."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.muon import Muon


def make_optimizer(config: LoopConfig, network: nn.Module) -> torch.optim.Optimizer:
    """The optimiser that the configuration names."""
    if config.optimizer == "muon":
        return Muon(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    return torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )


def learning_rate(config: LoopConfig, update: int, progress: float) -> float:
    """Linear warm-up, then a cosine from the peak to `final_rate` of it."""
    cosine = config.final_rate + (1 - config.final_rate) * 0.5 * (1 + np.cos(np.pi * min(progress, 1.0)))
    return config.learning_rate * min(1.0, (update + 1) / max(config.warmup, 1)) * float(cosine)
