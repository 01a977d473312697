"""How long a system needs, by where it starts and where it goes: a correction of the predicted length.

The predicted length f + 1 is that of the shortest way in the data. What a planner and a controller need for it differs
from place to place: by corners, by how near the walls are, by errors of the network. `fit_needed` learns
c(s, g) = log(needed length / (f + 1)) from executions by ridge regression on piecewise linear functions of log(f + 1)
and on Gaussian bumps at pairs of places. Far from all pairs the bumps vanish, and the correction by distance is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.types import BoolArray, FloatArray, IntArray

WIDTHS = (0.15, 0.2, 0.3, 0.4, 0.8)
"""Widths of the bumps to choose from; places fill [-1, 1] in each dimension."""
PENALTIES = (0.1, 0.3, 1.0, 10.0)
"""Ridge penalties to choose from."""
CENTRES = 2500
"""Pairs of places with a bump, at most; at most half of the instances."""
BATCH = 4096
"""Pairs whose bumps are computed at a time."""
KNOTS = 6
"""Bends of the piecewise linear functions of log(f + 1)."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Needed:
    """The correction c(s, g)."""

    knots: FloatArray
    """(J,) values of log(f + 1) at which the correction bends, increasing."""
    centres: FloatArray
    """(C, 2 p) normalised pairs of places, start and goal, with a bump each; C may be 0."""
    width: float
    """Of the bumps."""
    weights: FloatArray
    """(1 + J + C,) constant, slopes, bumps."""
    limits: tuple[float, float]
    """Least and largest correction among the instances it was fitted to; nothing beyond is returned."""

    def __post_init__(self) -> None:
        parts = (self.knots, self.centres, self.weights, np.array([self.width, *self.limits]))
        if (
            self.knots.ndim != 1
            or self.centres.ndim != 2
            or self.weights.shape != (1 + len(self.knots) + len(self.centres),)
            or not all(np.isfinite(part).all() for part in parts)
            or self.width <= 0
        ):
            raise DataError("'needed' must hold knots (J,), centres (C, 2 p), 1 + J + C weights and a width above 0.")

    def correction(self, steps: npt.ArrayLike, places: FloatArray) -> FloatArray:
        """(B,) predicted steps, (B, 2 p) normalised pairs of places -> (B,) c."""
        if len(self.centres) and np.shape(places)[-1] != self.centres.shape[1]:
            raise DataError(f"pairs of places have {self.centres.shape[1]} numbers, got shape {np.shape(places)}.")
        x = np.log1p(np.asarray(steps, np.float64))
        parts = [slice(first, first + BATCH) for first in range(0, max(len(x), 1), BATCH)]
        found = [_features(x[p], places[p], self.knots, self.centres, self.width) @ self.weights for p in parts]
        return np.clip(np.concatenate(found), *self.limits)

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return {
            "knots": rounded(self.knots).tolist(),
            "centres": rounded(self.centres).tolist(),
            "width": self.width,
            "weights": rounded(self.weights).tolist(),
            "limits": rounded(np.array(self.limits)).tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Needed:
        """The inverse of `to_json`."""
        knots, centres, weights = (np.array(value[name], np.float64) for name in ("knots", "centres", "weights"))
        low, high = (float(limit) for limit in value["limits"])
        return cls(knots, centres if len(centres) else np.zeros((0, 0)), float(value["width"]), weights, (low, high))


def needed_lengths(lengths: IntArray, arrived: BoolArray) -> tuple[FloatArray, BoolArray]:
    """(n, K) horizons, increasing, and arrivals -> (n,) the length that each instance needs, and whether it has one.

    It lies between the two lengths that best part failures (below) from arrivals (above). An instance that arrives at
    all of them needs the least, unless that is the least that a plan can have; one that fails at all of them has none.
    """
    n, K = arrived.shape
    none = np.zeros((n, 1), int)
    early = np.concatenate([none, np.cumsum(arrived, axis=1)], axis=1)  # arrivals below the k-th
    late = np.concatenate([np.cumsum(~arrived[:, ::-1], axis=1)[:, ::-1], none], axis=1)  # failures from it on
    first = (early + late).argmin(axis=1)
    rows = np.arange(n)
    above, below = lengths[rows, np.minimum(first, K - 1)], lengths[rows, np.maximum(first - 1, 0)]
    clipped = (lengths[:, 0] == lengths[:, min(1, K - 1)]) & (first == 0)
    return np.where(first > 0, (above + below) / 2, above), (first < K) & ~clipped


def fit_needed(
    steps: FloatArray, places: FloatArray, needed: FloatArray, known: BoolArray
) -> tuple[Needed, FloatArray]:
    """The correction from n instances, and (n,) corrections of each by a fit without it.

    `needed` (n,) are the lengths of those instances that are `known` (n,) to have one. Width and penalty, and whether
    there are bumps at all, are chosen by cross-validation.
    """
    x, y = np.log1p(steps), np.log(needed) - np.log1p(steps)
    knots = np.unique(np.quantile(x[known], np.linspace(0, 1, KNOTS)))
    most = min(CENTRES, int(known.sum()) // 2)
    choices = [(places[:0], 1.0)] + [(covering(places[known], width / 2, most), width) for width in WIDTHS]
    fold = np.arange(len(x)) % FOLDS
    best: tuple[float, FloatArray] | None = None
    for centres, width in choices:
        features = _features(x, places, knots, centres, width)
        sums = [_sums(features, y, known & (fold == k)) for k in range(FOLDS)]
        squares, products = (sum((part[i] for part in sums), np.zeros(())) for i in (0, 1))
        for penalty in PENALTIES:
            apart = np.empty(len(x))
            for k in range(FOLDS):
                weights = _ridge(squares - sums[k][0], products - sums[k][1], penalty)
                apart[fold == k] = features[fold == k] @ weights
            error = float(np.abs(apart - y)[known].mean())
            if best is None or error < best[0]:
                weights = _ridge(squares, products, penalty)
                fitted = (features @ weights)[known]
                limits = float(fitted.min()), float(fitted.max())
                best, chosen = (error, np.clip(apart, *limits)), Needed(knots, centres, width, weights, limits)
    assert best is not None
    return chosen, best[1]


def covering(places: FloatArray, radius: float, most: int) -> FloatArray:
    """(C, k) of (n, k) places, rounded, such that all lie within the radius of one; C is at most `most`.

    One after the other, each that is farther from all chosen before.
    """
    chosen: list[int] = []
    nearest = np.full(len(places), np.inf)
    while len(chosen) < most and (left := np.flatnonzero(nearest > radius**2)).size:
        chosen.append(int(left[0]))
        nearest = np.minimum(nearest, ((places - places[left[0]]) ** 2).sum(axis=1))
    return places[chosen].round(3)


def _features(x: FloatArray, places: FloatArray, knots: FloatArray, centres: FloatArray, width: float) -> FloatArray:
    """(B, 1 + J + C): a constant, a slope from each knot on, a bump around each centre."""
    lines = np.concatenate([np.ones((len(x), 1)), np.maximum(x[:, None] - knots, 0.0)], axis=1)
    if not len(centres):
        return lines
    apart = (places**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * places @ centres.T  # (B, C), squared
    return np.concatenate([lines, np.exp(-np.maximum(apart, 0.0) / (2 * width**2))], axis=1)


def _sums(features: FloatArray, y: FloatArray, used: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Normal equations of least squares over the rows that are used: X^T X and X^T y."""
    X = features[used]
    return X.T @ X, X.T @ y[used]


def _ridge(squares: FloatArray, products: FloatArray, penalty: float) -> FloatArray:
    """Weights of least squares with a penalty on all but the constant, from its normal equations."""
    cost = np.full(len(products), penalty)
    cost[0] = 0.0
    return np.linalg.solve(squares + np.diag(cost), products)


def rounded(values: FloatArray) -> FloatArray:
    """To six digits, so that the last bits of a machine's arithmetic do not show."""
    return np.array([float(f"{value:.6g}") for value in values.ravel()]).reshape(values.shape)
