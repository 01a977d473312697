"""Plans of any length, composed of pieces that are denoised together.

One chain of knots reaches from the start to the goal. At every reverse step overlapping windows of it, each of a
length that the network was trained on, are predicted in one batch, and where they overlap their predictions are
blended: most weight to the window in whose middle a knot lies. The network has always seen clean ends, so the ends of
a window are fixed to what the step before predicted there: neighbours agree more with every step, and no window stops
at a waypoint.

Before the first step the prediction is the Length Predictor's route, which is where the chain knows which way to go.
The route is a suggestion with a radius: knots may leave it by that much, to cut a corner smoothly, and no further.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from vhdiffuser.diffusion.sampler import Clean
from vhdiffuser.length.route import Route
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray, IntArray

ROUTE_POINTS = 512
"""Points by which the distance to a route is measured."""
_LEAST_WEIGHT = 1e-3
"""Weight of a window's own ends in the blend; a middle has 1."""


@dataclass(frozen=True)
class Windows:
    """Which knots of which chains the windows of a batch see."""

    chain: torch.Tensor
    """(W,) the chain of each window."""
    knots: torch.Tensor
    """(W, P) its knots."""
    weight: torch.Tensor
    """(P,) their weights in the blend."""

    @classmethod
    def over(cls, counts: IntArray, P: int, device: torch.device) -> Windows:
        """Windows of P knots over chains of counts (B,) knots, each overlapping the next by half or more."""
        pairs = [(chain, first) for chain, K in enumerate(counts) for first in window_starts(int(K), P)]
        chain, first = torch.tensor(pairs, device=device).T
        middle = torch.linspace(0, 1, P, device=device)
        weight = (2 * torch.minimum(middle, 1 - middle)).clamp(min=_LEAST_WEIGHT)
        return cls(chain, first[:, None] + torch.arange(P, device=device), weight)

    def blend(self, predicted: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """(W, P, d) predictions of windows -> (B, K, d) of chains; 0 beyond a chain's end."""
        total = predicted.new_zeros(shape)
        weights = predicted.new_zeros((*shape[:2], 1))
        place = (self.chain[:, None].expand_as(self.knots), self.knots)
        total.index_put_(place, predicted * self.weight[:, None], accumulate=True)
        weights.index_put_(place, self.weight[:, None].expand(*self.knots.shape, 1), accumulate=True)
        return total / weights.clamp(min=_LEAST_WEIGHT)


def window_starts(K: int, P: int) -> list[int]:
    """First knots of the windows of P knots that cover K knots evenly, each overlapping the next by half or more."""
    count = -(-(K - P) // (P // 2)) + 1 if K > P else 1
    return np.linspace(0, max(K - P, 0), count).round().astype(int).tolist()


class Composed:
    """A `Clean` for chains: tau^0 of the whole from overlapping windows. Remembers what it predicted last."""

    def __init__(
        self,
        window_clean: Clean,
        rough: torch.Tensor,
        route: torch.Tensor,
        radius: float,
        counts: IntArray,
        P: int,
        padded: int,
        dims: tuple[list[int], list[int]],
        goal_dims: list[int],
    ) -> None:
        """`window_clean` predicts windows of `padded` knots. rough (B, K, d): chains along route (B, R, goal_dim);
        counts (B,): their knots; `dims`: what is known of a window's first and last knot."""
        self.window_clean, self.estimate, self.route, self.radius = window_clean, rough, route, radius
        self.windows = Windows.over(counts, P, rough.device)
        self.P, self.padded, self.dims, self.goal_dims = P, padded, dims, goal_dims

    def __call__(self, tau: torch.Tensor, level: int) -> torch.Tensor:
        windows, P = self.windows, self.P
        place = (windows.chain[:, None], windows.knots)
        seen, known = tau[place], self.estimate[place]  # (W, P, d)
        for knot, dims in ((0, self.dims[0]), (P - 1, self.dims[1])):
            seen[:, knot, dims] = known[:, knot, dims]
        ends = seen[:, -1:].expand(-1, self.padded - P, -1)  # the U-Net's own padding
        predicted = self.window_clean(torch.cat([seen, ends], dim=1), level)[:, :P].clone()
        for knot, dims in ((0, self.dims[0]), (P - 1, self.dims[1])):
            predicted[:, knot, dims] = known[:, knot, dims]
        self.estimate = self._near_route(windows.blend(predicted, tau.shape))
        return self.estimate

    def _near_route(self, tau0: torch.Tensor) -> torch.Tensor:
        """tau0 (B, K, d) with every place that is further from the route than the radius moved back to it."""
        places = tau0[..., self.goal_dims]  # (B, K, goal_dim)
        distance = (places[:, :, None] - self.route[:, None]).abs().amax(dim=-1)  # (B, K, R)
        nearest = distance.argmin(dim=-1, keepdim=True).expand(-1, -1, len(self.goal_dims))
        centre = self.route.gather(1, nearest)
        moved = tau0.clone()
        moved[..., self.goal_dims] = centre + (places - centre).clamp(-self.radius, self.radius)
        return moved


def rough_chain(
    route: Route, start: FloatArray, K: int, knot_seconds: float, spec: EnvSpec, normalizer: Normalizer
) -> FloatArray:
    """(K, d) knots evenly along a route from start (d,), all normalised; velocities are the route's own."""
    goal_dims = list(spec.goal_dims)
    places = route.at(np.linspace(0.0, route.total, K))  # (K, goal_dim)
    for _ in range(2):  # nothing moves round the corners of a polygon
        places[1:-1] = (places[:-2] + 2 * places[1:-1] + places[2:]) / 4
    chain = np.tile(start, (K, 1)).astype(np.float32)
    chain[:, goal_dims] = places
    if spec.velocity_dims is not None:
        moving = np.zeros((K, spec.state_dim), np.float32)
        units = places * normalizer.scale[goal_dims]
        moving[:, list(spec.velocity_dims)] = np.gradient(units, axis=0) / knot_seconds
        velocity_dims = list(spec.velocity_dims)
        chain[1:, velocity_dims] = normalizer.normalize(moving)[1:, velocity_dims]
    return chain


def route_points(route: Route, count: int) -> FloatArray:
    """(count, goal_dim) points evenly along a route."""
    return route.at(np.linspace(0.0, route.total, count)).astype(np.float32)
