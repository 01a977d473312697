"""Conformal horizons: the fit against references, promises kept on fresh draws, and what cannot be promised."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from vhdiffuser.errors import DataError
from vhdiffuser.length.calibration import Calibration, falling_then_rising, fit

MULTIPLES = np.array([0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 2.0])


def draw(rng: np.random.Generator, n: int, floor: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Predicted steps, and the multiple that each instance needs: more, and more spread, for far ones."""
    steps = np.exp(rng.uniform(np.log(20), np.log(400), n))
    needed = np.exp(rng.normal(0.05 * np.log(steps / 20), 0.04 + 0.04 * np.log(steps / 20), n))
    needed[rng.random(n) < floor] = np.inf
    return steps, needed


def executed(steps: np.ndarray, needed: np.ndarray, multiples: np.ndarray) -> tuple[np.ndarray, ...]:
    """Horizons, steps taken and arrivals (n, K): an instance arrives after `needed` times the predicted length."""
    lengths = np.ceil(multiples * (steps[:, None] + 1)).astype(int)
    arrival = np.ceil(np.minimum(needed, 1e6) * (steps + 1)).astype(int)[:, None]
    return lengths, np.minimum(arrival, lengths), arrival <= lengths


def calibrated(rng: np.random.Generator, n: int = 400, floor: float = 0.0) -> Calibration:
    steps, needed = draw(rng, n, floor)
    return fit(steps, MULTIPLES, *executed(steps, needed, MULTIPLES))


def realised(calibration: Calibration, rng: np.random.Generator, risk: float, n: int = 4000) -> tuple[float, ...]:
    """Failures over all, of the near and of the far third of fresh instances."""
    steps, needed = draw(rng, n)
    margins, _ = calibration.margin(steps, risk)
    failed = np.ceil(needed * (steps + 1)) > np.ceil(margins * (steps + 1))
    near, far = np.quantile(steps, [1 / 3, 2 / 3])
    return float(failed.mean()), float(failed[steps < near].mean()), float(failed[steps > far].mean())


@pytest.mark.parametrize("risk", [0.2, 0.1, 0.05])
def test_the_risk_is_kept_on_fresh_instances_near_and_far(risk):
    """On average over calibrations: not above the risk but for chance, and not far below it."""
    rng = np.random.default_rng(1)
    shares = np.array([realised(calibrated(rng), rng, risk) for _ in range(20)]).mean(axis=0)
    assert (shares < risk + 0.02).all()
    assert shares[0] > 0.6 * risk


def test_the_interval_covers_four_of_five_arrivals(rng):
    calibration = calibrated(rng, 2000)
    steps, needed = draw(rng, 4000)
    lengths, taken, arrived = (table[:, 0] for table in executed(steps, needed, np.array([1.3])))
    low, high = calibration.interval(steps, lengths).T
    inside = ((taken >= low) & (taken <= high))[arrived]
    assert inside.mean() == pytest.approx(0.8, abs=0.03)


def test_the_margin_is_the_shortest_that_keeps_the_risk(rng):
    calibration = calibrated(rng)
    steps = np.array([25.0, 100.0, 350.0])
    margins, failure = calibration.margin(steps, 0.1)
    assert failure == pytest.approx([0.1] * 3)
    lengths = margins * (steps + 1) + 0.5  # rounded up: half a state more on average
    assert calibration.probability(steps, lengths) == pytest.approx([0.9] * 3)
    assert (calibration.probability(steps, 0.97 * lengths) < 0.9).all()
    tighter, _ = calibration.margin(steps, 0.02)
    assert (tighter > margins).all()


def test_what_no_horizon_keeps_is_said_and_the_best_is_given(rng):
    calibration = calibrated(rng, 2000, floor=0.1)
    margins, failure = calibration.margin([50.0, 300.0], 0.05)
    assert failure == pytest.approx([0.1, 0.1], abs=0.04)
    assert calibration.probability([50.0, 300.0], margins * np.array([51, 301]) + 0.5) == pytest.approx(1 - failure)
    assert (calibration.margin([50.0, 300.0], 0.2)[1] <= 0.2 + 1e-9).all()


def test_a_horizon_that_is_too_long_is_not_chosen():
    """Failures fall to nothing at 1.1 and rise again, so that at 2.0 more fail than at 0.9."""
    shares = np.array([1.0, 0.9, 0.6, 0.3, 0.1, 0.0, 0.0, 0.1, 0.3, 0.6])
    n = 400
    steps = np.linspace(20, 200, n)
    arrived = (np.arange(n)[:, None] * 0.618) % 1 >= shares  # an even spread over distances
    lengths = np.ceil(MULTIPLES * (steps[:, None] + 1)).astype(int)
    calibration = fit(steps, MULTIPLES, lengths, lengths, arrived)
    for risk in (0.2, 0.05, 0.001):
        assert (calibration.margin(steps, risk)[0] <= 1.2 + 1e-9).all()
    assert calibration.probability([100.0], [202])[0] == pytest.approx(0.4, abs=0.05)


def test_the_curve_is_the_best_of_those_with_one_minimum(rng):
    for _ in range(20):
        failed = rng.random((60, 8)) < rng.uniform(0, 1, 8)
        means, curve = failed.mean(axis=0), falling_then_rising(failed)
        fits = []
        for k in range(8):
            left = isotonic_regression(means[: k + 1], increasing=False).x
            right = isotonic_regression(means[k + 1 :]).x if k < 7 else np.zeros(0)
            fits.append(((np.concatenate([left, right]) - means) ** 2).sum())
        assert ((curve - means) ** 2).sum() == pytest.approx(min(fits))


def test_it_survives_json_and_a_damaged_one_is_refused(rng):
    calibration = calibrated(rng)
    text = json.dumps(calibration.to_json())
    back = Calibration.from_json(json.loads(text))
    assert back.margin([30.0, 200.0], 0.05)[0] == pytest.approx(calibration.margin([30.0, 200.0], 0.05)[0], rel=1e-4)
    assert json.dumps(back.to_json()) == text
    for change in ({"failure": [[0.5]]}, {"steps": [3, 2]}, {"multiples": "x"}, {"made": None}, {"low": None}):
        with pytest.raises(DataError):
            Calibration.from_json({**json.loads(text), **change})


def test_a_handful_of_instances_is_refused(rng):
    with pytest.raises(DataError, match="too few"):
        calibrated(rng, 20)
