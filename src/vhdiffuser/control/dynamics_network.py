"""The inverse dynamics model in torch."""

from __future__ import annotations

import torch
from torch import nn

from vhdiffuser.control.inverse_dynamics import DynamicsConfig, proprioception_dims
from vhdiffuser.types import EnvSpec


class InverseDynamics(nn.Module):
    """MLP: [proprioception, relative plan at each step ahead] -> action."""

    def __init__(self, spec: EnvSpec, config: DynamicsConfig) -> None:
        super().__init__()
        width = len(proprioception_dims(spec, config)) + (1 + config.directions) * len(config.ahead) * spec.goal_dim
        layers: list[nn.Module] = []
        for _ in range(config.layers):
            layers += [nn.Linear(width, config.hidden), nn.LayerNorm(config.hidden), nn.ReLU()]
            width = config.hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, spec.action_dim))

    def forward(self, body: torch.Tensor, relative: torch.Tensor) -> torch.Tensor:
        """body (B, p) normalised, relative (B, ahead, goal_dim or 2 goal_dim; see `seen_plan`) -> (B, m)."""
        return self.layers(torch.cat([body, relative.flatten(1)], dim=1))
