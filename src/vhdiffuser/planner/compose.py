"""Plans of any length, composed of pieces that are denoised together.

One chain of knots spans start and goal. At every reverse step, overlapping windows of it, each of a length that the
network was trained on, are predicted in one batch, and their predictions are blended where they overlap: a knot's
weight is largest in the window whose middle it is nearest. The network was trained with clean ends, so the ends of
a window are clamped to the previous step's prediction: neighbours agree more with every step, and no window stops
at a waypoint.

Before the first step, the prediction is the Length Predictor's route, which tells the chain where to go. The route is a
suggestion with a radius: knots may deviate by that much, to cut a corner smoothly, and no further.
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
"""Number of points used to measure the distance to a route."""
_LEAST_WEIGHT = 1e-3
"""Weight of a window's ends in the blend; its middle has 1."""


@dataclass(frozen=True)
class Windows:
    """The chains and knots that the windows of a batch cover."""

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


@dataclass(frozen=True)
class Motion:
    """Which numbers of a knot are its place and its velocity, and how the two go together."""

    places: list[int]
    """Dimensions of the place."""
    velocities: list[int]
    """Dimensions of the velocity, in the same order; none where knots have no velocity."""
    rate: torch.Tensor
    """(goal_dim,) normalised velocity of a place that moves by 1 (normalised) from knot to knot."""
    rest: torch.Tensor
    """(goal_dim,) normalised velocity of a place that does not move."""

    @classmethod
    def at(cls, knot_seconds: float, spec: EnvSpec, normalizer: Normalizer, first: int, device: torch.device) -> Motion:
        """Of knots `knot_seconds` apart whose state begins at dimension `first`."""
        goal_dims, velocity_dims = list(spec.goal_dims), list(spec.velocity_dims or ())
        if not velocity_dims:
            return cls([first + dim for dim in goal_dims], [], torch.empty(0), torch.empty(0))
        rate = normalizer.scale[goal_dims] / normalizer.scale[velocity_dims] / knot_seconds
        rest = -normalizer.center[velocity_dims] / normalizer.scale[velocity_dims]
        return cls(
            [first + dim for dim in goal_dims],
            [first + dim for dim in velocity_dims],
            torch.from_numpy(rate).float().to(device),
            torch.from_numpy(rest).float().to(device),
        )

    def of(self, places: torch.Tensor) -> torch.Tensor:
        """(B, K, goal_dim) places -> (B, K, goal_dim) velocities, by central differences."""
        (change,) = torch.gradient(places, dim=1)
        return self.rest + change * self.rate


class Composed:
    """A `Clean` for chains: tau^0 of the whole from overlapping windows. Keeps its last prediction."""

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
        motion: Motion,
    ) -> None:
        """`window_clean` predicts windows of `padded` knots. rough (B, K, d): chains along route (B, R, goal_dim);
        counts (B,): their knots; `dims`: clamped dimensions of a window's first and last knot."""
        self.window_clean, self.estimate, self.route, self.radius = window_clean, rough, route, radius
        self.windows = Windows.over(counts, P, rough.device)
        self.P, self.padded, self.dims, self.motion = P, padded, dims, motion

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
        """tau0 (B, K, d) with every place that is further from the route than the radius moved back to it.

        A knot that was moved gets the velocity of its new neighbours: the curve through the knots follows velocities.
        """
        places = tau0[..., self.motion.places]  # (B, K, goal_dim)
        distance = (places[:, :, None] - self.route[:, None]).abs().amax(dim=-1)  # (B, K, R)
        nearest = distance.argmin(dim=-1, keepdim=True).expand(-1, -1, places.shape[-1])
        centre = self.route.gather(1, nearest)
        held = centre + (places - centre).clamp(-self.radius, self.radius)
        moved = tau0.clone()
        moved[..., self.motion.places] = held
        if self.motion.velocities:
            away = (held != places).any(dim=-1, keepdim=True)  # (B, K, 1)
            own = moved[..., self.motion.velocities]
            moved[..., self.motion.velocities] = torch.where(away, self.motion.of(held), own)
        return moved


def rough_chain(route: Route, start: torch.Tensor, K: int, motion: Motion) -> torch.Tensor:
    """(K, width) knots evenly along a route from the knot start (width,); velocities are the route's own."""
    places = route.at(np.linspace(0.0, route.total, K))  # (K, goal_dim)
    for _ in range(2):  # nothing moves round the corners of a polygon
        places[1:-1] = (places[:-2] + 2 * places[1:-1] + places[2:]) / 4
    chain = start.repeat(K, 1)
    along = torch.from_numpy(places).to(chain)
    chain[:, motion.places] = along
    if motion.velocities:
        chain[1:, motion.velocities] = motion.of(along[None])[0, 1:]
    return chain


def route_points(route: Route, count: int) -> FloatArray:
    """(count, goal_dim) points evenly along a route."""
    return route.at(np.linspace(0.0, route.total, count)).astype(np.float32)
