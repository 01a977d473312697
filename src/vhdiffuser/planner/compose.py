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
from functools import lru_cache

import numpy as np

from vhdiffuser.diffusion.sampler import Clean
from vhdiffuser.length.route import Route
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray

ROUTE_POINTS = 512
"""Number of points used to measure the distance to a route."""
_LEAST_WEIGHT = 1e-3
"""Weight of a window's ends in the blend; its middle has 1."""


@dataclass(frozen=True)
class Windows:
    """The chains and knots that the windows of a batch cover."""

    chain: IntArray
    """(W,) the chain of each window."""
    knots: IntArray
    """(W, P) its knots."""
    shape: tuple[int, int]
    """(B, K) of the chains, which may be padded."""
    order: IntArray
    """(W P,) their knots, those of the same place in the chains together."""
    weights: FloatArray
    """(W P, 1) share of each in its place's blend, in that order."""
    covered: IntArray
    """(n,) places in the flattened chains that windows cover."""
    first: IntArray
    """(n,) where the knots of each such place begin in `order`."""
    seen: IntArray
    """(W, padded) places of its knots in the flattened chains, the last one repeated: the U-Net's own padding."""

    @classmethod
    def over(cls, counts: IntArray, P: int, K: int, padded: int) -> Windows:
        """Windows of P knots over chains of counts (B,) knots, each overlapping the next by half or more; chains are
        padded to K knots, windows to `padded`."""
        return _windows(tuple(counts.tolist()), P, K, padded)

    def blend(self, predicted: FloatArray) -> FloatArray:
        """(W, P, d) predictions of windows -> (B, K, d) of chains; 0 beyond a chain's end."""
        d = predicted.shape[-1]
        weighted = predicted.reshape(-1, d).take(self.order, axis=0) * self.weights
        total = np.zeros((self.shape[0] * self.shape[1], d), np.float32)
        total[self.covered] = np.add.reduceat(weighted, self.first)
        return total.reshape(*self.shape, d)


@lru_cache(maxsize=256)
def _windows(counts: tuple[int, ...], P: int, K: int, padded: int) -> Windows:
    """Plans of the same numbers of knots have the same windows."""
    pairs = [(chain, first) for chain, own in enumerate(counts) for first in window_starts(own, P)]
    chain, first = np.array(pairs).T
    knots = first[:, None] + np.arange(P)
    middle = np.linspace(0, 1, P, dtype=np.float32)
    weight = (2 * np.minimum(middle, 1 - middle)).clip(min=_LEAST_WEIGHT)  # (P,): largest in the middle
    place = (chain[:, None] * K + knots).ravel()
    order = place.argsort(kind="stable")
    covered, begin, count = np.unique(place[order], return_index=True, return_counts=True)
    weights = np.broadcast_to(weight, knots.shape).ravel()[order]
    shares = weights / np.repeat(np.add.reduceat(weights, begin), count)
    seen = chain[:, None] * K + first[:, None] + np.minimum(np.arange(padded), P - 1)
    return Windows(chain, knots, (len(counts), K), order, shares[:, None], covered, begin, seen)


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
    rate: FloatArray
    """(goal_dim,) normalised velocity of a place that moves by 1 (normalised) from knot to knot."""
    rest: FloatArray
    """(goal_dim,) normalised velocity of a place that does not move."""

    @classmethod
    def at(cls, knot_seconds: float, spec: EnvSpec, normalizer: Normalizer, first: int) -> Motion:
        """Of knots `knot_seconds` apart whose state begins at dimension `first`."""
        goal_dims, velocity_dims = list(spec.goal_dims), list(spec.velocity_dims or ())
        places, none = [first + dim for dim in goal_dims], np.empty(0, np.float32)
        if not velocity_dims:
            return cls(places, [], none, none)
        rate = normalizer.scale[goal_dims] / normalizer.scale[velocity_dims] / knot_seconds
        rest = -normalizer.center[velocity_dims] / normalizer.scale[velocity_dims]
        return cls(places, [first + dim for dim in velocity_dims], rate.astype(np.float32), rest.astype(np.float32))

    def of(self, places: FloatArray) -> FloatArray:
        """(B, K, goal_dim) places -> (B, K, goal_dim) velocities, by central differences."""
        change = np.empty_like(places)
        change[:, 1:-1] = (places[:, 2:] - places[:, :-2]) / 2
        change[:, 0], change[:, -1] = places[:, 1] - places[:, 0], places[:, -1] - places[:, -2]
        return self.rest + change * self.rate


class Composed:
    """A `Clean` for chains: tau^0 of the whole from overlapping windows. Keeps its last prediction."""

    def __init__(
        self,
        window_clean: Clean,
        rough: FloatArray,
        route: FloatArray,
        radius: FloatArray | float,
        counts: IntArray,
        P: int,
        padded: int,
        dims: tuple[list[int], list[int]],
        motion: Motion,
        slack: float | None = None,
    ) -> None:
        """`window_clean` predicts windows of `padded` knots. rough (B, K, d): chains along route (B, R, goal_dim), from
        which they may deviate by `radius`; counts (B,): their knots; `dims`: clamped dimensions of a window's first and
        last knot; `slack`: knots by which a knot may be ahead of its place on the route, or behind it (default: any
        number)."""
        self.window_clean, self.estimate, self.route, self.radius = window_clean, rough, route, radius
        self.windows = Windows.over(counts, P, rough.shape[1], padded)
        self.P, self.dims, self.motion = P, dims, motion
        self._along = np.ascontiguousarray(np.moveaxis(route, -1, 0)[:, :, None])  # (goal_dim, B, 1, R)
        self._elsewhere: BoolArray | None = None
        if slack is not None:
            knots = np.arange(rough.shape[1])[:, None]  # (K, 1)
            place = np.linspace(0, counts - 1, route.shape[1], axis=-1)[:, None]  # (B, 1, R), in knots
            self._elsewhere = (np.abs(place - knots) > slack + 1) & (knots < counts[:, None, None])  # (B, K, R)

    def __call__(self, tau: FloatArray, level: int) -> FloatArray:
        place, P, (first, last) = self.windows.seen, self.P, self.dims
        width = tau.shape[-1]
        seen = tau.reshape(-1, width).take(place, axis=0)  # (W, padded, d)
        known = self.estimate.reshape(-1, width)
        start, end = known.take(place[:, 0], axis=0)[:, first], known.take(place[:, -1], axis=0)[:, last]  # (W, n)
        seen[:, 0, first], seen[:, P - 1 :, last] = start, end[:, None]
        predicted = self.window_clean(seen, level)[:, :P].copy()
        predicted[:, 0, first], predicted[:, -1, last] = start, end
        self.estimate = self._near_route(self.windows.blend(predicted))
        return self.estimate

    def _near_route(self, tau0: FloatArray) -> FloatArray:
        """tau0 (B, K, d) with every place that is further from the route than the radius moved back to it.

        A knot that was moved gets the velocity of its new neighbours: the curve through the knots follows velocities.
        """
        places = tau0[..., self.motion.places]  # (B, K, goal_dim)
        distance = places[:, :, None, 0] - self._along[0]  # (B, K, R)
        np.abs(distance, out=distance)
        other = np.empty_like(distance)
        for dim in range(1, places.shape[-1]):
            np.abs(np.subtract(places[:, :, None, dim], self._along[dim], out=other), out=other)
            np.maximum(distance, other, out=distance)
        if self._elsewhere is not None:
            distance = np.where(self._elsewhere, np.inf, distance)
        nearest = distance.argmin(axis=-1)  # (B, K)
        centre = self.route[np.arange(len(nearest))[:, None], nearest]
        offset = places - centre
        held = centre + np.minimum(np.maximum(offset, -self.radius), self.radius)
        moved = tau0.copy()
        moved[..., self.motion.places] = held
        away = (np.abs(offset) > self.radius).any(axis=-1, keepdims=True)  # (B, K, 1)
        if self.motion.velocities and away.any():
            own = moved[..., self.motion.velocities]
            moved[..., self.motion.velocities] = np.where(away, self.motion.of(held), own)
        return moved


def rough_chain(route: Route, start: FloatArray, K: int, motion: Motion) -> FloatArray:
    """(K, width) knots evenly along a route from the knot start (width,); velocities are the route's own."""
    places = route.evenly(K)  # (K, goal_dim)
    for _ in range(2):  # nothing moves round the corners of a polygon
        places[1:-1] = (places[:-2] + 2 * places[1:-1] + places[2:]) / 4
    chain = np.repeat(start[None], K, axis=0)
    along = places.astype(np.float32)
    chain[:, motion.places] = along
    if motion.velocities:
        chain[1:, motion.velocities] = motion.of(along[None])[0, 1:]
    return chain
