"""Conformal horizons: the fit against references, promises kept on fresh draws, and what cannot be promised."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from vhdiffuser.errors import DataError
from vhdiffuser.length.calibration import Calibration, falling_then_rising, fit
from vhdiffuser.length.needed import Needed, covering, fit_needed, needed_lengths
from vhdiffuser.length.refinement import refine

MULTIPLES = np.array([0.6, 0.7, 0.8, 0.86, 0.91, 0.95, 0.99, 1.03, 1.07, 1.12, 1.18, 1.25, 1.4, 1.6, 2.0])


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


def anywhere(rng: np.random.Generator, n: int) -> np.ndarray:
    """Pairs of places that say nothing about what is needed."""
    return rng.uniform(-1, 1, (n, 4))


def calibrated(rng: np.random.Generator, n: int = 400, floor: float = 0.0) -> Calibration:
    steps, needed = draw(rng, n, floor)
    return fit(steps, anywhere(rng, n), *executed(steps, needed, MULTIPLES))


def realised(calibration: Calibration, rng: np.random.Generator, risk: float, n: int = 4000) -> tuple[float, ...]:
    """Failures over all, of the near and of the far third of fresh instances."""
    steps, needed = draw(rng, n)
    expected = calibration.expected(steps, anywhere(rng, n))
    margins, _ = calibration.margin(expected, risk)
    failed = np.ceil(needed * (steps + 1)) > np.ceil(margins * (expected + 1))
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
    expected = calibration.expected(steps, anywhere(rng, len(steps)))
    low, high = calibration.interval(expected, lengths).T
    inside = np.clip(np.minimum(taken, high) - np.maximum(taken - 1, low), 0, 1)[arrived]
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
    shares = np.interp(MULTIPLES, [0.6, 0.8, 1.1, 1.2, 2.0], [1.0, 0.6, 0.0, 0.0, 0.6])
    n = 400
    steps = np.linspace(20, 200, n)
    arrived = (np.arange(n)[:, None] * 0.618) % 1 >= shares  # an even spread over distances
    lengths = np.ceil(MULTIPLES * (steps[:, None] + 1)).astype(int)
    calibration = fit(steps, np.zeros((n, 4)), lengths, lengths, arrived)
    expected = calibration.expected(steps, np.zeros((n, 4)))
    for risk in (0.2, 0.05, 0.001):
        margins = calibration.margin(expected, risk)[0]
        assert (margins * (expected + 1) <= 1.25 * (steps + 1)).all()
    middle = expected[n // 2]
    assert calibration.probability([middle], [2 * steps[n // 2] + 2])[0] == pytest.approx(0.4, abs=0.08)


def test_horizons_shorter_than_all_that_were_tried_count_as_failures(rng):
    """Four of five arrive at the shortest horizon tried: what fewer steps would do is not known, so not promised."""
    steps, needed = draw(rng, 2000)
    tables = executed(steps, np.where(rng.random(2000) < 0.8, 0.5, needed), np.array([1.0, 1.1, 1.25, 1.5]))
    calibration = fit(steps, anywhere(rng, 2000), *tables)
    expected = calibration.expected(steps, anywhere(rng, 2000))
    at_least = calibration.margin(expected, 0.3)[0] * (expected + 1) / (steps + 1)
    assert np.quantile(at_least, 0.05) > 0.9
    far = steps > 30  # the nearest have the least length of all, which is taken for the planner's own least
    assert calibration.probability(expected, 0.7 * (steps + 1))[far].max() < 0.1


def test_the_curve_is_the_best_of_those_with_one_minimum(rng):
    for _ in range(20):
        means = (rng.random((60, 8)) < rng.uniform(0, 1, 8)).mean(axis=0)
        curve = falling_then_rising(means)
        fits = []
        for k in range(8):
            left = isotonic_regression(means[: k + 1], increasing=False).x
            right = isotonic_regression(means[k + 1 :]).x if k < 7 else np.zeros(0)
            fits.append(((np.concatenate([left, right]) - means) ** 2).sum())
        assert ((curve - means) ** 2).sum() == pytest.approx(min(fits))


def test_what_places_need_is_learned_and_shortens_horizons(rng):
    """Goals on one side need up to 35 % more than on the other: known by place, not all horizons need be long."""

    def drawn(n: int) -> tuple[np.ndarray, ...]:
        steps, places = np.exp(rng.uniform(np.log(30), np.log(300), n)), anywhere(rng, n)
        needed = np.exp(0.15 * places[:, 2] + rng.normal(0, 0.03, n))
        return steps, places, needed

    steps, places, needed = drawn(1500)
    tables = executed(steps, needed, MULTIPLES)
    by_place, by_distance = fit(steps, places, *tables), fit(steps, np.zeros_like(places), *tables)
    steps, places, needed = drawn(4000)
    lengths = {}
    for name, calibration in {"place": by_place, "distance": by_distance}.items():
        expected = calibration.expected(steps, places)
        lengths[name] = np.ceil(calibration.margin(expected, 0.05)[0] * (expected + 1))
    late = needed * (steps + 1) > lengths["place"]
    assert late.mean() == pytest.approx(0.05, abs=0.025)
    assert lengths["place"].mean() < 0.95 * lengths["distance"].mean()
    correction = np.log(by_place.expected(steps, places) + 1) - np.log1p(steps)
    assert np.corrcoef(correction, places[:, 2])[0, 1] > 0.98


def planned(
    rng: np.random.Generator, known: Calibration, risks: tuple[float, ...], n: int = 3000, *, slower=lambda steps: 1.03
) -> tuple[np.ndarray, ...]:
    """Expected steps (n,), and lengths, steps and arrivals (R, n) of instances that need `slower` times as long."""
    steps, needed = draw(rng, n)
    expected = known.expected(steps, anywhere(rng, n))
    arrival = np.ceil(slower(steps) * needed * (steps + 1)).astype(int)
    lengths = np.stack([np.ceil(known.margin(expected, risk)[0] * (expected + 1)).astype(int) for risk in risks])
    return expected, lengths, np.minimum(arrival, lengths), arrival <= lengths


def covered(known: Calibration, expected: np.ndarray, lengths: np.ndarray, taken: np.ndarray, arrived: np.ndarray):
    """Share of arrivals inside their interval."""
    low, high = known.interval(expected, lengths).T
    return np.clip(np.minimum(taken, high) - np.maximum(taken - 1, low), 0, 1)[arrived].mean()


def test_promises_are_corrected_by_what_came_of_them(rng):
    """Instances that need 3 % more than those it was fitted to: too many fail, until it is told."""
    calibration = calibrated(rng, 2000)
    tried = planned(rng, calibration, (0.2, 0.05, 0.01))
    assert (~tried[3][1]).mean() > 0.06
    mended = refine(calibration, *tried)
    risks = (0.2, 0.1, 0.05)
    expected, *tables = planned(rng, mended, risks)
    for risk, lengths, taken, arrived in zip(risks, *tables, strict=True):
        assert (~arrived).mean() == pytest.approx(risk, rel=0.3)
        assert covered(mended, expected, lengths, taken, arrived) == pytest.approx(0.8, abs=0.04)


def test_promises_are_corrected_near_and_far(rng):
    """The nearest need 0.6 standard deviations more than those it was fitted to, the farthest 0.6 less."""

    def slower(steps: np.ndarray) -> np.ndarray:
        far = np.log(steps / 20)
        return np.exp(np.interp(far, [0, np.log(20)], [0.6, -0.6]) * (0.04 + 0.04 * far))

    def shares(known: Calibration) -> list[float]:
        expected, _, _, arrived = planned(rng, known, (0.1,), 6000, slower=slower)
        thirds = np.array_split(np.argsort(expected), 3)
        return [float((~arrived[0, third]).mean()) for third in thirds]

    calibration = calibrated(rng, 2000)
    near, _, far = shares(calibration)
    assert near > 0.13
    assert far < 0.08
    mended = refine(calibration, *planned(rng, calibration, (0.2, 0.05, 0.01), slower=slower))
    assert shares(mended) == pytest.approx([0.1] * 3, abs=0.04)


def test_promises_are_corrected_at_each_risk_near_and_far(rng, monkeypatch):
    """A tenth of the near pairs stumbles, which matters at small risks only: no line in risk and distance says so."""
    risks = (0.2, 0.1, 0.05, 0.01)

    def slower(steps: np.ndarray) -> np.ndarray:
        return np.where((rng.random(len(steps)) < 0.1) & (steps < 60), 1.25, 1.0)

    def off(known: Calibration) -> float:
        """Largest error of the shares of failures in the near and the far half, at risks of 0.1 and 0.05."""
        expected, _, _, arrived = planned(rng, known, risks[1:3], 12000, slower=slower)
        near = expected < 60
        return max(abs((~row[part]).mean() / risk - 1) for row, risk in zip(arrived, risks[1:3], strict=True)
                   for part in (near, ~near))  # fmt: skip

    def mended(known: Calibration) -> Calibration:
        for _ in range(2):
            known = refine(known, *planned(rng, known, risks, 6000, slower=slower))
        return known

    calibration = calibrated(rng, 2000)
    assert off(mended(calibration)) < 0.5
    monkeypatch.setattr("vhdiffuser.length.refinement.LOCAL", 1e-3)
    assert off(mended(calibration)) > 0.65, "without the local part"


def test_the_interval_holds_at_every_risk(rng):
    """Arrivals that spread more, the longer the horizon is than needed: one shift for all risks would not do."""
    calibration = calibrated(rng, 2000)
    risks = (0.2, 0.05, 0.01)

    def wandering() -> tuple[np.ndarray, ...]:
        expected, lengths, taken, arrived = planned(rng, calibration, risks, slower=lambda steps: 1.0)
        spare = (lengths - taken) * rng.random(taken.shape[1])
        return expected, lengths, np.where(arrived, (taken + spare).astype(int), taken), arrived

    mended = refine(calibration, *wandering())
    expected, *tables = wandering()
    rows = list(zip(*tables, strict=True))
    assert [covered(mended, expected, *row) for row in rows] == pytest.approx([0.8] * 3, abs=0.03)
    assert max(abs(covered(calibration, expected, *row) - 0.8) for row in rows) > 0.03, "without it, it does not"


def test_the_length_needed_parts_failures_from_arrivals():
    lengths = np.tile([10, 20, 30, 40], (5, 1))
    arrived = np.array([[0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1]], bool)
    needed, known = needed_lengths(lengths, arrived)
    assert needed[[0, 1, 2]].tolist() == [25, 15, 10]
    assert needed[4] in (10, 25), "one arrival too few or one too many: equally good"
    assert known.tolist() == [True, True, True, False, True]
    clipped = np.array([[8, 8, 12]])
    assert not needed_lengths(clipped, np.ones((1, 3), bool))[1][0], "8 may be more than it needs"


def test_a_few_places_cover_all_and_lie_apart(rng):
    places = anywhere(rng, 500)
    chosen = covering(places, 0.5, 500)
    apart = np.linalg.norm(places[:, None] - chosen, axis=-1)
    assert (apart.min(axis=1) <= 0.501).all()
    between = np.linalg.norm(chosen[:, None] - chosen, axis=-1)[~np.eye(len(chosen), dtype=bool)]
    assert between.min() > 0.499
    assert len(covering(places, 0.5, 7)) == 7


def test_what_each_of_many_pairs_of_cells_needs_is_learned(rng):
    """Each pair of cells has a needed length of its own, known from a handful of noisy instances."""
    cells = np.linspace(-1, 1, 6)
    pairs = np.stack(np.meshgrid(cells, cells, [-1.0, 0.2], [0.6], indexing="ij"), axis=-1).reshape(-1, 4)  # 72
    own = rng.normal(0, 0.15, len(pairs))

    def drawn(n: int) -> tuple[np.ndarray, ...]:
        which = rng.integers(len(pairs), size=n)
        steps = np.full(n, 100.0)
        return steps, pairs[which] + rng.uniform(-0.03, 0.03, (n, 4)), own[which] + rng.normal(0, 0.05, n), which

    steps, places, noisy, _ = drawn(1000)
    needed, apart = fit_needed(steps, places, 101 * np.exp(noisy), np.ones(1000, bool))
    assert (noisy - apart).std() == pytest.approx(0.05, rel=0.15), "nothing is left but the noise"
    steps, places, _, which = drawn(5000)  # more than are computed at a time
    assert (needed.correction(steps, places) - own[which]).std() < 0.025


def test_far_from_all_pairs_only_the_distance_counts(rng):
    steps, places = np.full(400, 100.0), anywhere(rng, 400)
    needed, _ = fit_needed(steps, places, 100 * (1 + 0.2 * (places[:, 0] > 0)), np.ones(400, bool))
    assert len(needed.centres)
    far = needed.correction([100.0], np.full((1, 4), 50.0))
    assert far[0] == pytest.approx(needed.limits[0], abs=0.25)
    back = Needed.from_json(json.loads(json.dumps(needed.to_json())))
    assert back.correction(steps, places) == pytest.approx(needed.correction(steps, places), abs=1e-3)
    with pytest.raises(DataError, match="4 numbers"):
        needed.correction([100.0], np.zeros((1, 6)))
    with pytest.raises(DataError, match="weights"):
        Needed.from_json({**needed.to_json(), "weights": [1.0]})


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
