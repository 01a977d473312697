"""f_theta(s, g): random Fourier features, a normalised MLP, a softplus ("Models" in Sec. V-B of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import NetworkConfig


class FourierEncoder(nn.Module):
    """phi(x) = [sin(2 pi x B), cos(2 pi x B), x], with B drawn once and stored in the model file."""

    B: torch.Tensor

    def __init__(self, dim: int, config: NetworkConfig) -> None:
        super().__init__()
        self.register_buffer("B", torch.randn(dim, config.features) * config.feature_scale)
        self.out_dim = 2 * config.features + dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., dim) -> (..., out_dim)."""
        # Angles need full precision: in bfloat16 they would be off by tenths of a radian.
        with torch.autocast(x.device.type, enabled=False):
            angle = 2 * math.pi * (x.float() @ self.B)
            return torch.cat([angle.sin(), angle.cos(), x], dim=-1)


MakeEncoder = Callable[[int, NetworkConfig], nn.Module]
"""Makes an encoder for `dim` inputs. The module must have `out_dim`; losses and planner do not depend on it."""


class LengthNetwork(nn.Module):
    """f_theta(s, g) = softplus(MLP(z(s, g))), z = [phi(s), phi(g), phi(s) - phi(g)].

    State and goal have different dimensions (the goal is a position without velocity), so each has its own
    encoder; the relative channel compares the goal dimensions of s with g in the goal's encoder.
    """

    def __init__(
        self,
        state_dim: int,
        goal_dims: tuple[int, ...],
        quantiles: int,
        config: NetworkConfig,
        make_encoder: MakeEncoder = FourierEncoder,
    ) -> None:
        super().__init__()
        self.goal_dims = list(goal_dims)
        self.relative = config.relative
        self.phi_s = make_encoder(state_dim, config)
        self.phi_g = make_encoder(len(goal_dims), config)
        width = _out_dim(self.phi_s) + (1 + config.relative) * _out_dim(self.phi_g)
        layers: list[nn.Module] = []
        for _ in range(config.depth):
            layers += [nn.Linear(width, config.width), nn.LayerNorm(config.width), nn.ReLU()]
            width = config.width
        self.mlp = nn.Sequential(*layers)
        self.head = nn.Linear(width, quantiles)

    def forward(self, s: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """Normalised s (..., d) and g (..., goal_dim) -> (..., quantiles); the first is f_theta."""
        phi_g = self.phi_g(g)
        z = [self.phi_s(s), phi_g]
        if self.relative:
            z.append(self.phi_g(s[..., self.goal_dims]) - phi_g)
        hidden = self.mlp(torch.cat(z, dim=-1))
        with torch.autocast(hidden.device.type, enabled=False):  # one step in T_max is finer than bfloat16
            return nn.functional.softplus(self.head(hidden.float()))


def _out_dim(encoder: nn.Module) -> int:
    size = getattr(encoder, "out_dim", None)
    if not isinstance(size, int):
        raise VhdError(f"encoder {type(encoder).__name__} needs an integer `out_dim`: the size of its output.")
    return size
