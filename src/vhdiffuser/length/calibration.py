"""Probability of arriving within a horizon, learned from executions by conformal risk control.

The system is planner, controller and protocol together. Executions at several multiples of the predicted length, on
instances that are used for nothing else, say two things. First, what length an instance of these places typically needs
(`length/needed.py`): the *expected* length. Second, the share that does not arrive within a multiple of it, near each
expected distance. `margin` inverts that: the smallest multiple whose share of failures is at most the accepted risk.

Expected lengths of calibration instances come from fits without them; `length/refinement.py` compares what the tables
promise with executions of further instances and corrects them. The share in a window of w instances is corrected
to (failures + 1) / (w + 1). For exchangeable instances and a share that falls with the horizon, the expected share of
failures at the chosen multiple is then at most the risk (Angelopoulos et al., Conformal Risk Control, 2024). It need
not fall for ever: plans that are far too long dither. So the share is fitted by a curve that falls to one minimum and
rises after it, and nothing beyond the minimum is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import erfc, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.length.needed import BATCH, Needed, covering, fit_needed, needed_lengths, rounded
from vhdiffuser.types import BoolArray, FloatArray, IntArray
from vhdiffuser.weights.sealed import content_digest

WINDOW, WINDOW_SHARE = 100, 0.125
"""Instances in a window of neighbouring expected distances: that many, or that share of them if it is more, but at
most a quarter. 100 can promise a risk of 0.01."""
GRID = np.array(
    [0.5, 0.6, 0.7, 0.8, 0.85, 0.88, 0.91, 0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06, 1.08, 1.1, 1.13, 1.16, 1.2, 1.25,
     1.32, 1.4, 1.6, 2.0, 2.5]
)  # fmt: skip
"""Multiples of the expected length at which failures are tabulated."""
LOW, HIGH = 0.1, 0.9
"""Quantiles of the steps to arrival."""
FEWEST = 40
"""Instances that a calibration needs: 10 in a window."""
WITHIN = (np.arange(10)[::-1] + 0.5) / 10
"""An arrival at step k happens between k - 1 and k: it counts as ten arrivals, so long before k."""
_UNTRIED = 0.05
"""So far below the shortest horizon tried, in its log, an instance counts as failed."""
MOST_PLACES = 500
"""Places that a calibration keeps to tell pairs like its instances from others."""
_TABLES = ("steps", "multiples", "failure", "low", "high")


@dataclass(frozen=True, eq=False)
class Calibration:
    """Failures and steps to arrival by expected distance and multiple of the expected length."""

    steps: FloatArray
    """(W,) expected steps e at the middle of each window, increasing."""
    multiples: FloatArray
    """(K,) horizons, as multiples of e + 1; increasing."""
    failure: FloatArray
    """(W, K) fraction of instances that do not arrive within the horizon, corrected, in (0, 1]."""
    low: FloatArray
    """(W, K) lower quantile of the steps to arrival, as a fraction of the horizon, over instances that arrive."""
    high: FloatArray
    """(W, K) upper quantile."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """What it was made from: models, options, controller, protocol, seed, n."""
    needed: Needed | None = None
    """From predicted to expected steps; None: they are the same."""
    default_risk: float | None = None
    """Risk of a loaded planner for which neither a risk nor gamma is given; None: its gamma."""
    elsewhere: Elsewhere | None = None
    """What holds for pairs unlike its instances; None: nothing else is known (`length/pairs.py`)."""

    def __post_init__(self) -> None:
        shape = (len(self.steps), len(self.multiples))
        tables = {"failure": self.failure, "low": self.low, "high": self.high}
        for name, table in tables.items():
            if table.shape != shape or not np.isfinite(table).all() or (table < 0).any() or (table > 1).any():
                raise DataError(f"'{name}' must be {shape} fractions in 0..1; got shape {table.shape}.")
        for name in ("steps", "multiples"):
            values = getattr(self, name)
            if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (np.diff(values) <= 0).any():
                raise DataError(f"'{name}' must be increasing.")
        if (self.multiples <= 0).any() or (self.steps < 0).any() or (self.failure <= 0).any():
            raise DataError("multiples and failures must be above 0, and steps 0 or more.")
        if self.default_risk is not None and not 0 < self.default_risk < 1:
            raise DataError(f"'default_risk' must be a probability between 0 and 1, got {self.default_risk}.")

    @cached_property
    def scores(self) -> FloatArray:
        """(W, K) normal quantiles of the failures."""
        return normal_of(self.failure)

    def expected(self, steps: npt.ArrayLike, places: FloatArray) -> FloatArray:
        """(B,) predicted steps f, (B, 2 p) normalised starts and goals -> (B,) expected steps e."""
        predicted = np.atleast_1d(np.asarray(steps, np.float64))
        if self.needed is None:
            return predicted
        return np.maximum(np.exp(self.needed.correction(predicted, places)) * (predicted + 1) - 1, 0.0)

    def margin(self, steps: npt.ArrayLike, risk: float) -> tuple[FloatArray, FloatArray]:
        """(B,) expected steps -> (B,) smallest multiples that keep the risk, and (B,) their failure probability.

        If no multiple meets it, the one with the lowest failure probability, which then exceeds the risk.
        """
        curves = self._near(self.scores, steps)  # (B, K)
        places, accepted = np.log(self.multiples), float(normal_of(np.array(risk)))
        best = curves.argmin(axis=1)
        multiples, scores = self.multiples[best].copy(), curves.min(axis=1)
        for row, curve in enumerate(curves):
            kept = np.flatnonzero(curve[: best[row] + 1] <= accepted)
            if not len(kept):
                continue
            at = int(kept[0])
            if at == 0:
                multiples[row], scores[row] = self.multiples[0], curve[0]
            else:  # between two multiples
                share = (accepted - curve[at - 1]) / (curve[at] - curve[at - 1])
                multiples[row] = np.exp(places[at - 1] + share * (places[at] - places[at - 1]))
                scores[row] = accepted
        return multiples, share_of(scores)

    def probability(self, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(B,) expected steps, (B,) horizons in states -> (B,) probability of arriving within the horizon.

        Outside the range of tried horizons, the nearest one applies.
        """
        return 1 - share_of(self.at(self.scores, steps, lengths))

    def interval(self, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(B,) expected steps, (B,) horizons -> (B, 2): 10 and 90 % quantile of the time of arrival, if it does arrive.

        In control steps. An arrival at step k happens between k - 1 and k, so quantiles need not be whole.
        """
        length = np.asarray(lengths, np.float64)
        return np.stack([self.at(table, steps, lengths) * length for table in (self.low, self.high)], axis=-1)

    def _near(self, table: FloatArray, steps: npt.ArrayLike) -> FloatArray:
        """(W, K) -> (B, K), interpolated linearly in log distance between windows."""
        wanted = np.log1p(np.atleast_1d(np.asarray(steps, np.float64)))
        return np.stack([np.interp(wanted, np.log1p(self.steps), column) for column in table.T], axis=-1)

    def at(self, table: FloatArray, steps: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
        """(W, K) -> (B,): linear in log multiple between two.

        Lengths are rounded up: L states are what multiples of (L - 1) / (e + 1) to L / (e + 1) give.
        """
        distances = np.atleast_1d(np.asarray(steps, np.float64))
        states = np.broadcast_to(np.asarray(lengths, np.float64), distances.shape)
        wanted = np.log((states - 0.5) / (distances + 1))
        curves, places = self._near(table, steps), np.log(self.multiples)
        return np.array([np.interp(x, places, curve) for x, curve in zip(wanted, curves, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict; six digits, so that the last bits of a machine's arithmetic do not show."""
        tables = {name: rounded(getattr(self, name)).tolist() for name in _TABLES}
        needed = None if self.needed is None else self.needed.to_json()
        content = {**tables, "needed": needed, "default_risk": self.default_risk, "made": dict(self.made)}
        return content if self.elsewhere is None else {**content, "elsewhere": self.elsewhere.to_json()}

    @property
    def lengths_digest(self) -> str:
        """SHA-256 of everything that plan lengths depend on; recorded in rows."""
        content = self.to_json()
        used = {name: content[name] for name in ("steps", "multiples", "failure", "needed")}
        if (other := self.elsewhere) is not None:
            used["elsewhere"] = {**other.to_json(), "calibration": other.calibration.lengths_digest}
        return content_digest(used)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Calibration:
        """Inverse of `to_json`."""
        try:
            steps, multiples, failure, low, high = (np.array(value[name], np.float64) for name in _TABLES)
            needed = None if value.get("needed") is None else Needed.from_json(value["needed"])
            elsewhere = None if value.get("elsewhere") is None else Elsewhere.from_json(value["elsewhere"])
            made, risk = dict(value["made"]), value.get("default_risk")
            return cls(steps, multiples, failure, low, high, made, needed, risk, elsewhere)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a calibration ({error!r})") from error


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """A second calibration, for pairs with an end where the instances of the first neither start nor end.

    Some environments draw all instances around a few places, such as the centres of a maze's cells. What is learned
    there says little about the rest.
    """

    calibration: Calibration
    """Of instances that may be anywhere."""
    places: FloatArray
    """(P, p) normalised places such that every end of the first's instances lies within the radius of one."""
    radius: float
    """That radius."""

    def __post_init__(self) -> None:
        if self.places.ndim != 2 or not len(self.places) or not np.isfinite(self.places).all() or not self.radius > 0:
            raise DataError("'elsewhere' must hold places (P, p) and a radius above 0.")

    @classmethod
    def of(cls, calibration: Calibration, pairs: FloatArray, least: float) -> Elsewhere:
        """Beside a calibration of instances with (n, 2 p) normalised places. Nearer than `least` is the same place."""
        ends = pairs.reshape(-1, pairs.shape[1] // 2)
        radius = least
        while len(places := covering(ends, radius, MOST_PLACES + 1)) > MOST_PLACES:
            radius *= 1.25
        return cls(calibration, places, radius)

    def holds(self, pairs: FloatArray) -> BoolArray:
        """(B, 2 p) normalised starts and goals -> (B,) whether one of them is at none of the places."""
        ends = pairs.reshape(-1, self.places.shape[1])  # (2 B, p)
        near = np.empty(len(ends), bool)
        for first in range(0, len(ends), BATCH):
            part = ends[first : first + BATCH]
            apart = (part**2).sum(axis=1)[:, None] + (self.places**2).sum(axis=1) - 2 * part @ self.places.T
            near[first : first + BATCH] = (apart <= self.radius**2).any(axis=1)
        return ~(near[::2] & near[1::2])

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return {"calibration": self.calibration.to_json(), "places": self.places.tolist(), "radius": self.radius}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Elsewhere:
        """Inverse of `to_json`."""
        places = np.array(value["places"], np.float64)
        return cls(Calibration.from_json(value["calibration"]), places, float(value["radius"]))


def fit(steps: FloatArray, places: FloatArray, lengths: IntArray, taken: IntArray, arrived: BoolArray) -> Calibration:
    """A calibration from n instances executed at K horizons each.

    `steps` (n,) are predicted, `places` (n, 2 p) normalised starts and goals; `lengths` (n, K) the horizons planned,
    increasing in each row, `taken` (n, K) the steps executed, and `arrived` (n, K) says which came to the goal within
    the horizon.
    """
    n = len(steps)
    if n < FEWEST:
        raise DataError(f"{n} instances are too few to calibrate; give {FEWEST} or more.")
    needed, apart = fit_needed(steps, places, *needed_lengths(lengths, arrived))
    expected = np.maximum(np.exp(apart) * (steps + 1) - 1, 0.0)
    order = np.argsort(expected, kind="stable")
    width = min(max(WINDOW, int(n * WINDOW_SHARE)), n // 4)
    firsts = np.linspace(0, n - width, 2 * (n // width) + 1).astype(int)  # windows overlap by half
    windows = [order[first : first + width] for first in firsts]
    middles = np.array([np.median(expected[window]) for window in windows])
    distinct = np.flatnonzero(np.diff(middles, prepend=-1.0) > 0)
    tried = np.log((lengths - 0.5) / (expected[:, None] + 1))  # (n, K)
    failed, times, weights = _at_multiples(tried, lengths, taken, arrived)
    failure, low, high = np.empty((3, len(distinct), len(GRID)))
    for row, number in enumerate(distinct):
        window = windows[number]
        failure[row] = (falling_then_rising(failed[window].mean(axis=0)) * width + 1) / (width + 1)
        for column in range(len(GRID)):
            low[row, column], high[row, column] = _quantiles(times[window, column], weights[window, column])
    return Calibration(middles[distinct], GRID, failure, low, high, needed=needed)


def _at_multiples(
    tried: FloatArray, lengths: IntArray, taken: IntArray, arrived: BoolArray
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """What n instances do at each of G multiples, from K horizons that were executed, (n, K) each.

    (n, G) failures, at the nearest of the K; (n, G, 10) times of arrival as shares of the horizon, linear in its log
    between two that were executed, and (n, G) how much they count. `tried` are the logs of the K as multiples. Horizons
    below all K count as failures, unless the K begin with the least length of all: plans are never shorter.
    """
    n, K = tried.shape
    rows, last = np.arange(n), max(K - 1, 1)
    shares = (taken[..., None] - WITHIN) / lengths[..., None]  # (n, K, 10)
    failed, weights = np.empty((n, len(GRID)), bool), np.empty((n, len(GRID)))
    times = np.empty((n, len(GRID), len(WITHIN)))
    least = np.where(lengths[:, 0] > lengths.min(), tried[:, 0] - _UNTRIED, -np.inf)
    for g, place in enumerate(np.log(GRID)):
        above = np.minimum(np.clip((tried < place).sum(axis=1), 1, last), K - 1)
        below = np.maximum(above - 1, 0)
        gap = tried[rows, above] - tried[rows, below]
        share = np.clip((place - tried[rows, below]) / np.where(gap > 0, gap, 1.0), 0.0, 1.0)
        failed[:, g] = ~arrived[rows, np.where(share > 0.5, above, below)] | (place < least)
        first, second = (1 - share) * arrived[rows, below], share * arrived[rows, above]
        weights[:, g] = first + second
        mixed = first[:, None] * shares[rows, below] + second[:, None] * shares[rows, above]
        times[:, g] = mixed / np.maximum(weights[:, g], 1e-9)[:, None]
    return failed, times, weights


def falling_then_rising(means: FloatArray) -> FloatArray:
    """(K,) shares of failures -> (K,): the least-squares curve that falls to one minimum and rises after it."""
    fits = [np.concatenate([-increasing(-means[: k + 1]), increasing(means[k + 1 :])]) for k in range(len(means))]
    return fits[int(np.argmin([((fit - means) ** 2).sum() for fit in fits]))]


def increasing(values: FloatArray) -> FloatArray:
    """Isotonic regression of (n,) values: pools adjacent violators."""
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (first, m), (second, k) = blocks[-2:]
            blocks[-2:] = [((first * m + second * k) / (m + k), m + k)]
    return np.array([value for value, count in blocks for _ in range(count)])


def _quantiles(times: FloatArray, weights: FloatArray) -> FloatArray:
    """(2,) quantiles of (w, 10) shares of the horizon with (w,) weights; the whole horizon where hardly any arrives."""
    if weights.sum() < 2:
        return np.array([0.0, 1.0])
    values, counts = times.ravel(), np.repeat(weights, times.shape[1])
    order = np.argsort(values)
    ranks = np.cumsum(counts[order]) - counts[order] / 2
    return np.clip(np.interp([LOW, HIGH], ranks / counts.sum(), values[order]), 0.0, 1.0)


def normal_of(share: FloatArray) -> FloatArray:
    """Normal quantile of a failure fraction: linear in the log horizon if the required horizon is lognormal."""
    quantile = NormalDist().inv_cdf  # scipy's would take longer to import than a plan takes
    return np.reshape([quantile(value) for value in np.clip(share, 1e-6, 1 - 1e-3).ravel().tolist()], np.shape(share))


def share_of(scores: FloatArray) -> FloatArray:
    """Inverse of `_normal`."""
    return np.reshape([erfc(-value / sqrt(2)) / 2 for value in scores.ravel().tolist()], scores.shape)
