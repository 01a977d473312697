"""Plans of any length, composed of pieces that are denoised together.

One chain of knots spans start and goal. At each reverse step, overlapping windows of it, each of a length seen in
training, are predicted in one batch, and their predictions are blended where they overlap: a knot has the largest
weight in the window whose middle it is closest to. The network was trained with clean ends, so the ends of a window are
clamped to the previous step's prediction: neighbouring windows agree more with every step, and no window stops at a
waypoint.

Before the first step, the prediction is the Length Predictor's route, which guides the chain. Knots may deviate from
the route by a radius, to cut corners smoothly, but no further.
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
    """The chains and knots covered by the windows of a batch."""

    chain: IntArray
    """(W,) chain of each window."""
    knots: IntArray
    """(W, P) knots of each window."""
    shape: tuple[int, int]
    """(B, K) shape of the chains, which may be padded."""
    order: IntArray
    """(W P,) permutation of the windows' knots that groups those at the same position of the chains."""
    weights: FloatArray
    """(W P, 1) blending weights, in that order."""
    covered: IntArray
    """(n,) positions in the flattened chains that windows cover."""
    first: IntArray
    """(n,) index in `order` at which the knots of each such position begin."""
    seen: IntArray
    """(W, padded) positions of each window's knots in the flattened chains, with the last one repeated: the U-Net's own
    padding."""

    @classmethod
    def over(cls, counts: IntArray, P: int, K: int, padded: int) -> Windows:
        """Windows of P knots over chains of counts (B,) knots, each overlapping the next by at least half; chains are
        padded to K knots, windows to `padded`."""
        return _windows(tuple(counts.tolist()), P, K, padded)

    def blend(self, predicted: FloatArray) -> FloatArray:
        """Blend (W, P, d) predictions of windows to (B, K, d) chains; 0 past a chain's end."""
        d = predicted.shape[-1]
        weighted = predicted.reshape(-1, d).take(self.order, axis=0) * self.weights
        total = np.zeros((self.shape[0] * self.shape[1], d), np.float32)
        total[self.covered] = np.add.reduceat(weighted, self.first)
        return total.reshape(*self.shape, d)


@lru_cache(maxsize=256)
def _windows(counts: tuple[int, ...], P: int, K: int, padded: int) -> Windows:
    """Cached: plans with equal numbers of knots have equal windows."""
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
    """First knots of windows of P knots that cover K knots evenly, each overlapping the next by at least half."""
    count = -(-(K - P) // (P // 2)) + 1 if K > P else 1
    return np.linspace(0, max(K - P, 0), count).round().astype(int).tolist()


@dataclass(frozen=True)
class Motion:
    """Which dimensions of a knot are position and velocity, and how the two are related."""

    places: list[int]
    """Position dimensions."""
    velocities: list[int]
    """Velocity dimensions, in the same order; empty if knots have no velocity."""
    rate: FloatArray
    """(goal_dim,) normalised velocity of a position that changes by 1 (normalised) per knot."""
    rest: FloatArray
    """(goal_dim,) normalised velocity at rest."""

    @classmethod
    def at(cls, knot_seconds: float, spec: EnvSpec, normalizer: Normalizer, first: int) -> Motion:
        """For knots `knot_seconds` apart whose state begins at dimension `first`."""
        goal_dims, velocity_dims = list(spec.goal_dims), list(spec.velocity_dims or ())
        places, none = [first + dim for dim in goal_dims], np.empty(0, np.float32)
        if not velocity_dims:
            return cls(places, [], none, none)
        rate = normalizer.scale[goal_dims] / normalizer.scale[velocity_dims] / knot_seconds
        rest = -normalizer.center[velocity_dims] / normalizer.scale[velocity_dims]
        return cls(places, [first + dim for dim in velocity_dims], rate.astype(np.float32), rest.astype(np.float32))

    def of(self, places: FloatArray) -> FloatArray:
        """(B, K, goal_dim) velocities of (B, K, goal_dim) positions, by central differences."""
        change = np.empty_like(places)
        change[:, 1:-1] = (places[:, 2:] - places[:, :-2]) / 2
        change[:, 0], change[:, -1] = places[:, 1] - places[:, 0], places[:, -1] - places[:, -2]
        return self.rest + change * self.rate


class Composed:
    """A `Clean` for chains: tau^0 of the whole chain from overlapping windows. Keeps its last prediction."""

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
        which they may deviate by `radius`; counts (B,): numbers of knots; `dims`: clamped dimensions of a window's
        first and last knot; `slack`: maximum number of knots by which a knot may be ahead of or behind its timing on
        the route (default: unlimited)."""
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
        """Move positions of tau0 (B, K, d) that are farther from the route than the radius back to it.

        A moved knot gets the velocity of its new neighbours, since the curve through the knots follows velocities.
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
    """(K, width) knots evenly spaced along a route, starting at the knot start (width,), with the route's
    velocities."""
    places = route.evenly(K)  # (K, goal_dim)
    for _ in range(2):  # nothing moves around the corners of a polygon
        places[1:-1] = (places[:-2] + 2 * places[1:-1] + places[2:]) / 4
    chain = np.repeat(start[None], K, axis=0)
    along = places.astype(np.float32)
    chain[:, motion.places] = along
    if motion.velocities:
        chain[1:, motion.velocities] = motion.of(along[None])[0, 1:]
    return chain
