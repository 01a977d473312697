"""How likely a system arrives within a horizon, learned from its own executions: conformal risk control.

The system is planner, controller and protocol together. Executions at several multiples of the predicted length, on
instances that are used for nothing else, give the share that does not arrive within its horizon, near each predicted
distance. `margin` inverts it: the smallest multiple whose share of failures is at most the accepted risk.

The share in a window of w instances is corrected to (failures + 1) / (w + 1). For exchangeable instances and a share
that falls with the horizon, the expected share of failures at the chosen multiple is then at most the risk
(Angelopoulos et al., Conformal Risk Control, 2024). It need not fall for ever: plans that are far too long dither. So
the share is fitted by a curve that falls to one minimum and rises after it, and nothing beyond the minimum is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.types import BoolArray, FloatArray, IntArray
from vhdiffuser.weights.sealed import content_digest

WINDOW, WINDOW_SHARE = 100, 0.06
"""Instances in a window of neighbouring predicted distances: that many, or that share of them if it is more, but at
most a quarter. 100 can promise a risk of 0.01."""
LOW, HIGH = 0.1, 0.9
"""Quantiles of the steps to arrival."""
FEWEST = 40
"""Instances that a calibration needs: 10 in a window."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Failures and steps to arrival by predicted distance and multiple of the predicted length."""

    steps: FloatArray
    """(W,) predicted steps at the middle of each window, increasing."""
    multiples: FloatArray
    """(K,) horizons tried, as multiples of f + 1 where f are the predicted steps; increasing."""
    failure: FloatArray
    """(W, K) share of instances that do not arrive within the horizon, corrected, in (0, 1]."""
    low: FloatArray
    """(W, K) lower quantile of the steps to arrival, as a share of the horizon, over those that arrive."""
    high: FloatArray
    """(W, K) upper quantile."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """What it was made from: models, options, controller, protocol, seed, n."""

    def __post_init__(self) -> None:
        shape = (len(self.steps), len(self.multiples))
        tables = {"failure": self.failure, "low": self.low, "high": self.high}
        for name, table in tables.items():
            if table.shape != shape or not np.isfinite(table).all() or (table < 0).any() or (table > 1).any():
                raise DataError(f"'{name}' must be {shape} shares in 0..1, got shape {table.shape}.")
        for name in ("steps", "multiples"):
            values = getattr(self, name)
            if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (np.diff(values) <= 0).any():
                raise DataError(f"'{name}' must be increasing numbers.")
        if (self.multiples <= 0).any() or (self.steps < 0).any() or (self.failure <= 0).any():
            raise DataError("multiples and failures must be above 0, and steps 0 or more.")

    def margin(self, steps: npt.ArrayLike, risk: float) -> tuple[FloatArray, FloatArray]:
        """(B,) predicted steps -> (B,) smallest multiples that keep the risk, and (B,) their failure probability.

        Where no multiple keeps it, the one of the least failure, whose probability is then above the risk.
        """
        curves = self._near(_normal(self.failure), steps)  # (B, K)
        places, accepted = np.log(self.multiples), float(_normal(np.array(risk)))
        best = curves.argmin(axis=1)
        multiples, scores = self.multiples[best].copy(), curves.min(axis=1)
        for row, curve in enumerate(curves):
            kept = np.flatnonzero(curve[: best[row] + 1] <= accepted)
            if not len(kept):
                continue
            at = int(kept[0])
            if at == 0:
                multiples[row], scores[row] = self.multiples[0], curve[0]
            else:  # between two multiples that were tried
                share = (accepted - curve[at - 1]) / (curve[at] - curve[at - 1])
                multiples[row] = np.exp(places[at - 1] + share * (places[at] - places[at - 1]))
                scores[row] = accepted
        return multiples, _share(scores)

    def probability(self, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(B,) predicted steps, (B,) horizons in states -> (B,) probability of arriving within the horizon.

        Beyond the horizons that were tried, that of the nearest is returned.
        """
        return 1 - _share(self._at(_normal(self.failure), steps, lengths))

    def interval(self, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(B,) predicted steps, (B,) horizons -> (B, 2): 10 and 90 % quantile of the steps to arrival, if it does."""
        length = np.asarray(lengths, np.float64)
        return np.stack([self._at(table, steps, lengths) * length for table in (self.low, self.high)], axis=-1)

    def _near(self, table: FloatArray, steps: npt.ArrayLike) -> FloatArray:
        """(W, K) -> (B, K): linear in log distance between two windows."""
        wanted = np.log1p(np.atleast_1d(np.asarray(steps, np.float64)))
        return np.stack([np.interp(wanted, np.log1p(self.steps), column) for column in table.T], axis=-1)

    def _at(self, table: FloatArray, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(W, K) -> (B,): linear in log multiple between two that were tried.

        Lengths are rounded up: L states are what multiples of (L - 1) / (f + 1) to L / (f + 1) give.
        """
        distances = np.atleast_1d(np.asarray(steps, np.float64))
        states = np.broadcast_to(np.asarray(lengths, np.float64), distances.shape)
        wanted = np.log((states - 0.5) / (distances + 1))
        curves, places = self._near(table, steps), np.log(self.multiples)
        return np.array([np.interp(x, places, curve) for x, curve in zip(wanted, curves, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict; six digits, so that the last bits of a machine's arithmetic do not show."""
        tables = {name: getattr(self, name) for name in ("steps", "multiples", "failure", "low", "high")}
        return {**{name: _rounded(table).tolist() for name, table in tables.items()}, "made": dict(self.made)}

    @property
    def lengths_digest(self) -> str:
        """SHA-256 of what the lengths of plans depend on: rows record it."""
        content = self.to_json()
        return content_digest({name: content[name] for name in ("steps", "multiples", "failure")})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Calibration:
        """The inverse of `to_json`."""
        try:
            names = ("steps", "multiples", "failure", "low", "high")
            steps, multiples, failure, low, high = (np.array(value[name], np.float64) for name in names)
            return cls(steps, multiples, failure, low, high, dict(value["made"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a calibration ({error!r})") from error


def fit(
    steps: FloatArray, multiples: FloatArray, lengths: IntArray, taken: IntArray, arrived: BoolArray
) -> Calibration:
    """A calibration from n instances executed at K multiples.

    `steps` (n,) are predicted; `lengths` (n, K) the horizons planned, `taken` (n, K) the steps executed, and `arrived`
    (n, K) says which came to the goal within the horizon.
    """
    n = len(steps)
    if n < FEWEST:
        raise DataError(f"{n} instances are too few to calibrate; give {FEWEST} or more.")
    order = np.argsort(steps, kind="stable")
    width = min(max(WINDOW, int(n * WINDOW_SHARE)), n // 4)
    firsts = np.linspace(0, n - width, 2 * (n // width) + 1).astype(int)  # each overlaps half of the next
    windows = [order[first : first + width] for first in firsts]
    middles = np.array([np.median(steps[window]) for window in windows])
    distinct = np.flatnonzero(np.diff(middles, prepend=-1.0) > 0)
    failure = np.array([(falling_then_rising(~arrived[windows[w]]) * width + 1) / (width + 1) for w in distinct])
    share = taken / lengths
    ends = np.array([[_quantiles(share[windows[w], k][arrived[windows[w], k]]) for k in range(len(multiples))]
                     for w in distinct])  # fmt: skip
    return Calibration(middles[distinct], multiples, failure, ends[..., 0], ends[..., 1])


def falling_then_rising(failed: BoolArray) -> FloatArray:
    """(w, K) failures -> (K,) shares: the least-squares curve that falls to one minimum and rises after it."""
    means = failed.mean(axis=0)
    fits = [np.concatenate([-_increasing(-means[: k + 1]), _increasing(means[k + 1 :])]) for k in range(len(means))]
    return fits[int(np.argmin([((fit - means) ** 2).sum() for fit in fits]))]


def _increasing(values: FloatArray) -> FloatArray:
    """Isotonic regression of (n,) values, by pooling neighbours that violate the order."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, m), (second, k) = blocks[-2:]
            blocks[-2:] = [((first * m + second * k) / (m + k), m + k)]
    return np.array([value for value, count in blocks for _ in range(count)])


def _quantiles(shares: FloatArray) -> FloatArray:
    """Two quantiles with the conformal ranks q (n + 1); the whole horizon where hardly any arrives."""
    if len(shares) < 2:
        return np.array([0.0, 1.0])
    return np.clip(np.quantile(shares, [LOW, HIGH], method="weibull"), 0.0, 1.0)


def _normal(share: FloatArray) -> FloatArray:
    """The normal quantile of a share of failures: linear in the log of the horizon if the one needed is lognormal."""
    from scipy.special import ndtri

    return ndtri(np.clip(share, 1e-6, 1 - 1e-3))


def _share(scores: FloatArray) -> FloatArray:
    """The inverse of `_normal`."""
    from scipy.special import ndtr

    return ndtr(scores)


def _rounded(values: FloatArray) -> FloatArray:
    return np.array([float(f"{value:.6g}") for value in values.ravel()]).reshape(values.shape)
