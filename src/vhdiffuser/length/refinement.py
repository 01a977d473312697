"""Correction of a calibration by executions of other instances at the horizons that it chooses.

Between the horizons that `length/calibration.py` fits, failures are interpolated, and where they fall steeply that is
too cautious. Here each horizon is the one that a risk chooses, so that promises can be compared with outcomes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vhdiffuser.length.calibration import HIGH, LOW, WITHIN, Calibration, increasing, share_of
from vhdiffuser.types import BoolArray, FloatArray, IntArray

NEIGHBOURS = 0.12
"""Width of the kernel that says which instances are near a window, as a share of all instances."""
OVERALL, LOCAL = 0.3, 0.15
"""Deviations of the normal priors of the regression's coefficients and of the local corrections."""


def refine(
    calibration: Calibration, expected: FloatArray, lengths: IntArray, taken: IntArray, arrived: BoolArray
) -> Calibration:
    """The calibration with its tables corrected by executions of n other instances, planned by it at R risks.

    `expected` (n,) are their expected steps; `lengths`, `taken` and `arrived` are (R, n), one row per risk. Failures
    are corrected overall, then near each distance at each risk. Both ends of the interval are moved by what leaves a
    tenth of a risk's arrivals beyond; between risks that is linear in the promised share's normal quantile z.
    """
    z = np.stack([calibration.at(calibration.scores, expected, row) for row in lengths])  # (R, n)
    scores = _locally(calibration, *_overall(calibration, expected, z, arrived), expected, arrived)
    failure = share_of(scores)
    some = arrived.any(axis=1)
    if not some.any():
        return replace(calibration, failure=failure)
    levels = np.median(z, axis=1)[some]
    order = np.argsort(levels, kind="stable")
    ends = []
    for table, share in ((calibration.low, LOW), (calibration.high, HIGH)):
        shifts = []
        for row in np.flatnonzero(some)[order]:
            times = (taken[row, :, None] - WITHIN) / lengths[row, :, None]  # (n, 10)
            off = times - calibration.at(table, expected, lengths[row])[:, None]
            shifts.append(np.quantile(off[arrived[row]], share))
        ends.append(np.clip(table + np.interp(calibration.scores, levels[order], shifts), 0.0, 1.0))
    return replace(calibration, failure=failure, low=ends[0], high=ends[1])


def _overall(
    calibration: Calibration, expected: FloatArray, z: FloatArray, arrived: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """The tables' scores (W, K) and the promises z (R, n), corrected by a probit regression of failures.

    On z and on the log distance x, standardised: a + b z + c x, with a, b and c drawn to 0, 1 and 0.
    """
    from scipy.optimize import minimize
    from scipy.special import log_ndtr

    far = np.log1p(expected)
    middle, spread = far.mean(), max(float(far.std()), 1e-6)
    x = (far - middle) / spread
    sign = np.where(arrived, -1.0, 1.0)

    def cost(abc: FloatArray) -> float:
        a, b, c = abc
        prior = (a**2 + (b - 1) ** 2 + c**2) / (2 * OVERALL**2)
        return float(-log_ndtr(sign * (a + b * z + c * x)).sum() + prior)

    bounds = [(-1, 1), (0.5, 2), (-0.5, 0.5)]
    a, b, c = minimize(cost, np.array([0.0, 1.0, 0.0]), method="L-BFGS-B", bounds=bounds).x
    rows = np.clip((np.log1p(calibration.steps) - middle) / spread, x.min(), x.max())  # (W,)
    return a + b * calibration.scores + c * rows[:, None], a + b * z + c * x


def _locally(
    calibration: Calibration, scores: FloatArray, z: FloatArray, expected: FloatArray, arrived: BoolArray
) -> FloatArray:
    """Scores (W, K), moved in each window by what the outcomes at each risk ask for, among instances of its distance.

    A line through three coefficients cannot say that near pairs fail too often at one risk and not at another. The move
    at a risk is that of a probit regression with a constant alone, drawn to 0; between risks it is linear in z.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_ndtr

    n, sign = len(expected), np.where(arrived, -1.0, 1.0)
    ranks = np.argsort(np.argsort(expected, kind="stable"), kind="stable")
    windows = np.searchsorted(np.sort(expected), calibration.steps)  # their ranks
    moved = np.empty_like(scores)
    for w, rank in enumerate(windows):
        near = np.exp(-0.5 * ((ranks - rank) / (NEIGHBOURS * n)) ** 2)  # (n,)
        levels = z @ near / near.sum()  # (R,)
        moves = np.empty(len(levels))
        for r, signed in enumerate(sign):

            def cost(move: float, r: int = r, signed: FloatArray = signed, near: FloatArray = near) -> float:
                return float(-(near * log_ndtr(signed * (z[r] + move))).sum() + move**2 / (2 * LOCAL**2))

            moves[r] = minimize_scalar(cost, bounds=(-1, 1), method="bounded").x
        order = np.argsort(levels, kind="stable")
        moves = increasing((levels + moves)[order]) - levels[order]  # a higher promise stays a higher one
        moved[w] = scores[w] + np.interp(scores[w], levels[order], moves)
    return moved
