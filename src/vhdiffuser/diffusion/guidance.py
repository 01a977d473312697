"""Guidance away from forbidden regions: each reverse step moves the predicted clean trajectory down a cost's gradient.

The gradient is not taken through the network, so plans are bent, not rerouted. With a route graph, `planner/routing.py`
reroutes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray

CostFunction = Callable[[Any], Any]
"""A custom cost in torch operations: positions (B, M, goal_dim) in the environment's units -> (B, M), 0 where allowed
and differentiable elsewhere."""

_BETWEEN = 8
"""Points per segment between knots at which the cost is evaluated, so that regions between knots count."""
_MOVES = 4
"""Gradient steps per reverse step."""
_NEIGHBOURS = (0.25, 0.6, 1.0, 0.6, 0.25)
"""Fraction of a knot's displacement applied to its neighbours, so that the plan bends smoothly."""


class Cost(Protocol):
    """A cost of positions and its gradient."""

    def values(self, places: FloatArray) -> FloatArray:
        """Costs (B, M) of positions (B, M, goal_dim) in the environment's units; 0 where allowed."""
        ...

    def slopes(self, places: FloatArray) -> FloatArray:
        """Gradient (B, M, goal_dim) of the summed cost at positions (B, M, goal_dim)."""
        ...


class BoxCost:
    """Half the squared depth inside boxes (n, 2, goal_dim) of lower and upper corners, each grown by a margin."""

    def __init__(self, spec: EnvSpec, boxes: npt.ArrayLike, margin: FloatArray) -> None:
        corners = as_numbers("avoid", boxes)
        if corners.ndim != 3 or corners.shape[1:] != (2, spec.goal_dim) or not (corners[:, 0] <= corners[:, 1]).all():
            raise VhdError(
                f"avoid needs boxes (lower corner, upper corner) of {spec.goal_dim} numbers each, or a function "
                f"of positions; got an array of shape {corners.shape}."
            )
        self.low, self.high = corners[:, 0] - margin, corners[:, 1] + margin  # (n, goal_dim)

    def values(self, places: FloatArray) -> FloatArray:
        """(B, M, goal_dim) -> (B, M)."""
        depth = self._sides(places).min(axis=-1).clip(min=0)  # (B, M, n): to the nearest side
        return 0.5 * np.square(depth).sum(axis=-1)

    def slopes(self, places: FloatArray) -> FloatArray:
        """(B, M, goal_dim) -> (B, M, goal_dim): the depth, in the direction of the nearest side."""
        sides = self._sides(places)  # (B, M, n, goal_dim)
        depth = sides.min(axis=-1, keepdims=True).clip(min=0)
        nearest = sides == depth
        middle = (self.low + self.high) / 2
        inwards = np.where(places[..., None, :] < middle, 1.0, -1.0)  # deeper means further from that side
        return (depth * inwards * nearest / nearest.sum(axis=-1, keepdims=True).clip(min=1)).sum(axis=-2)

    def _sides(self, places: FloatArray) -> FloatArray:
        """(B, M, n, goal_dim): distance to the nearer of a box's two sides in each dimension, negative outside."""
        at = places[..., None, :]
        return np.minimum(at - self.low, self.high - at)


class Guidance:
    """Moves normalised knots (B, K, width) down the gradient of a cost on their positions."""

    def __init__(
        self, cost: Cost, dims: Sequence[int], center: FloatArray, scale: FloatArray, limit: float = np.inf
    ) -> None:
        """`dims` are the position dimensions of a knot, `center` and `scale` their normalisation. Knots stay within the
        normalised `limit`."""
        self.cost, self.dims, self.center, self.scale, self.limit = cost, list(dims), center, scale, limit

    @classmethod
    def of(cls, cost: Cost, spec: EnvSpec, normalizer: Normalizer, action_dim: int, limit: float = np.inf) -> Guidance:
        """Guidance for the knots of a planner."""
        dims = [action_dim + dim for dim in spec.goal_dims]
        return cls(cost, dims, spec.goal_of(normalizer.center), spec.goal_of(normalizer.scale), limit)

    def __call__(self, tau0: FloatArray) -> FloatArray:
        """Move the positions of tau0; a cost of half a squared distance moves them by about that distance."""
        places = tau0[..., self.dims] * self.scale + self.center  # (B, K, goal_dim) in units
        for _ in range(_MOVES):
            slope = at_knots(self.cost.slopes(between(places))) / _BETWEEN
            places = places - spread(slope)
        moved = tau0.copy()
        moved[..., self.dims] = (places - self.center) / self.scale
        return np.clip(moved, -self.limit, self.limit)


def between(knots: FloatArray) -> FloatArray:
    """(B, K, n) -> (B, (K - 1) _BETWEEN + 1, n): the knots and points on the segments between them."""
    B, _, n = knots.shape
    share = np.arange(_BETWEEN, dtype=np.float32)[:, None] / _BETWEEN
    first, second = knots[:, :-1, None], knots[:, 1:, None]  # (B, K - 1, 1, n)
    inner = first + share * (second - first)  # (B, K - 1, _BETWEEN, n)
    return np.concatenate([inner.reshape(B, -1, n), knots[:, -1:]], axis=1)


def at_knots(slopes: FloatArray) -> FloatArray:
    """Gradients (B, (K - 1) _BETWEEN + 1, n) at the points of `between` -> (B, K, n) at the knots."""
    B, _, n = slopes.shape
    share = np.arange(_BETWEEN, dtype=np.float32)[:, None] / _BETWEEN
    inner = slopes[:, :-1].reshape(B, -1, _BETWEEN, n)  # (B, K - 1, _BETWEEN, n)
    total = np.concatenate([((1 - share) * inner).sum(axis=2), slopes[:, -1:]], axis=1)
    total[:, 1:] += (share * inner).sum(axis=2)
    return total


def spread(slope: FloatArray) -> FloatArray:
    """(B, K, n) smoothed over neighbouring knots."""
    reach = len(_NEIGHBOURS) // 2
    padded = np.pad(slope, ((0, 0), (reach, reach), (0, 0)))
    K = slope.shape[1]
    return sum(np.float32(share) * padded[:, first : first + K] for first, share in enumerate(_NEIGHBOURS))  # type: ignore[return-value]
