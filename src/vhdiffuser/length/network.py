"""f_theta(s, g): random Fourier features, a normalised MLP, a softplus ("Models" in Sec. V-B of the paper)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig, goal_dims
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.torch_network import state_dict
from vhdiffuser.types import EnvSpec, FloatArray
from vhdiffuser.weights.format import load_model


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
"""Creates an encoder for `dim` inputs. The module must have `out_dim`; losses and planner do not depend on it."""


class LengthNetwork(nn.Module):
    """f_theta(s, g) = softplus(MLP(z(s, g))), z = [phi(s), phi(g), phi(s) - phi(g)].

    If goals are full states, as in the paper, one encoder (one B) serves both. If a goal has only some of the state's
    dimensions (a position without velocity), each has its own encoder, and the relative channel compares the goal
    dimensions of s with g in the goal's encoding.
    """

    def __init__(
        self,
        state_dim: int,
        goal_dims: tuple[int, ...] | None,
        quantiles: int,
        config: NetworkConfig,
        make_encoder: MakeEncoder = FourierEncoder,
    ) -> None:
        """`goal_dims` are the state dimensions that form a goal; None means full states."""
        super().__init__()
        self.goal_dims = None if goal_dims is None else list(goal_dims)
        self.relative = config.relative
        self.phi_s = make_encoder(state_dim, config)
        self.phi_g = None if goal_dims is None else make_encoder(len(goal_dims), config)
        width = _out_dim(self.phi_s) + (1 + config.relative) * _out_dim(self.phi_g or self.phi_s)
        self.mlp, width = _normalised_mlp(width, config)
        self.head = nn.Linear(width, quantiles)

    def forward(self, s: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """Normalised s (..., d) and g (..., goal_dim) -> (..., quantiles); the first is f_theta."""
        phi_s = self.phi_s(s)
        if self.phi_g is None:
            phi_g, here = self.phi_s(g), phi_s
        else:
            phi_g, here = self.phi_g(g), self.phi_g(s[..., self.goal_dims]) if self.relative else phi_s
        z = [phi_s, phi_g, here - phi_g] if self.relative else [phi_s, phi_g]
        hidden = self.mlp(torch.cat(z, dim=-1))
        with torch.autocast(hidden.device.type, enabled=False):  # one step in T_max is finer than bfloat16
            return nn.functional.softplus(self.head(hidden.float()))


class QuasimetricNetwork(nn.Module):
    """f_theta(s, g) = mean over components of max_j [x_j(s) - y_j(g)]_+: a quasimetric between latent vectors.

    This is the asymmetric part of MRN (Liu et al. 2023), repeated. If y_j is the distance from a position to a landmark
    j, it is the landmark bound of graph search, exact if a shortest path continues to a landmark. x(s) is y at the
    state's position plus the effect of its other dimensions (velocities): x(s) = y(p) + r(s) - r(s at rest). So x = y
    at rest, f(g, g) = 0, and f(s, g) <= f(s, h) + f(h, g) for any position h at rest.
    """

    rest: torch.Tensor

    def __init__(
        self,
        state_dim: int,
        goal_dims: tuple[int, ...] | None,
        quantiles: int,
        config: NetworkConfig,
        components: int,
        latent: int,
        rest: FloatArray | None = None,
        make_encoder: MakeEncoder = FourierEncoder,
    ) -> None:
        """`goal_dims` as in `LengthNetwork`; `rest` (state_dim,) is the normalised state with zero velocities."""
        super().__init__()
        self.goal_dims = list(range(state_dim) if goal_dims is None else goal_dims)
        self.shape = (quantiles, components, latent)
        self.register_buffer("rest", torch.zeros(state_dim) if rest is None else torch.from_numpy(rest).float())
        self.phi_g = make_encoder(len(self.goal_dims), config)
        self.mlp, width = _normalised_mlp(_out_dim(self.phi_g), config)
        self.head = nn.Linear(width, math.prod(self.shape))
        self.phi_s = None
        if len(self.goal_dims) < state_dim:
            self.phi_s = make_encoder(state_dim, config)
            self.motion_mlp, width = _normalised_mlp(_out_dim(self.phi_s), config)
            self.motion_head = nn.Linear(width, math.prod(self.shape))

    def forward(self, s: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        """Normalised s (..., d) and g (..., goal_dim) -> (..., quantiles); each is a quasimetric."""
        x, y = self._latent(s[..., self.goal_dims]), self._latent(g)
        if self.phi_s is not None:
            still = self.rest.expand_as(s).clone()
            still[..., self.goal_dims] = s[..., self.goal_dims]
            x = x + self._motion(s) - self._motion(still)
        with torch.autocast(s.device.type, enabled=False):  # one step in T_max is finer than bfloat16
            ahead = (x - y).float().clamp(min=0).unflatten(-1, self.shape)
            return ahead.amax(dim=-1).mean(dim=-1)

    def _latent(self, place: torch.Tensor) -> torch.Tensor:
        hidden = self.mlp(self.phi_g(place))
        with torch.autocast(hidden.device.type, enabled=False):
            return self.head(hidden.float())

    def _motion(self, s: torch.Tensor) -> torch.Tensor:
        assert self.phi_s is not None
        hidden = self.motion_mlp(self.phi_s(s))
        with torch.autocast(hidden.device.type, enabled=False):
            return self.motion_head(hidden.float())


def make_length_network(
    spec: EnvSpec,
    config: LengthConfig,
    make_encoder: MakeEncoder = FourierEncoder,
    normalizer: Normalizer | None = None,
) -> LengthNetwork | QuasimetricNetwork:
    """Create f_theta for an environment; a quasimetric head needs the normaliser to know the state at rest."""
    dims = None if config.full_state_goals else spec.goal_dims
    sizes = (spec.state_dim, dims, len(config.quantiles), config.network)
    if not config.quasimetric:
        return LengthNetwork(*sizes, make_encoder)
    rest = None if normalizer is None else normalizer.normalize(np.zeros(spec.state_dim, np.float32))
    return QuasimetricNetwork(*sizes, config.quasimetric, config.latent, rest, make_encoder)


def _normalised_mlp(width: int, config: NetworkConfig) -> tuple[nn.Sequential, int]:
    """Linear, LayerNorm, ReLU, `depth` times; also returns the width of its output."""
    layers: list[nn.Module] = []
    for _ in range(config.depth):
        layers += [nn.Linear(width, config.width), nn.LayerNorm(config.width), nn.ReLU()]
        width = config.width
    return nn.Sequential(*layers), width


def _out_dim(encoder: nn.Module) -> int:
    size = getattr(encoder, "out_dim", None)
    if not isinstance(size, int):
        raise VhdError(f"encoder {type(encoder).__name__} needs an integer `out_dim`: the size of its output.")
    return size


def steps_between(
    path: Path, device: torch.device
) -> tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], Normalizer]:
    """A trained predictor's steps between normalised planning states (n, d) and (n, d), evaluated by torch on a device:
    (n,).

    For trainings that use it at every update; also returns the normaliser.
    """
    tensors, header = load_model(path, "length")
    spec, config = EnvSpec.from_json(header.spec), LengthConfig.from_json(header.config)
    dims = goal_dims(spec, config)
    network = make_length_network(spec, config)
    network.load_state_dict(state_dict(tensors))
    network.to(device).eval()

    @torch.no_grad()
    def steps(s: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        return network(s, end[:, list(dims)])[:, 0].clamp(max=1.0) * spec.T_max

    return steps, Normalizer.from_json(header.normalizer)
