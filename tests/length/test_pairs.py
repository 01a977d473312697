"""Two calibrations in one: pairs like the first's instances, and pairs elsewhere."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from vhdiffuser.errors import DataError
from vhdiffuser.length.calibration import MOST_PLACES, Calibration, Elsewhere, fit
from vhdiffuser.length.pairs import Pairs

MULTIPLES = np.array([0.6, 0.7, 0.8, 0.86, 0.91, 0.95, 0.99, 1.03, 1.07, 1.12, 1.18, 1.25, 1.4, 1.6, 2.0])
CELLS = np.array([[x, y] for x in (-0.8, 0.0, 0.8) for y in (-0.8, 0.0, 0.8)])


def around_cells(rng: np.random.Generator, n: int) -> np.ndarray:
    ends = CELLS[rng.integers(len(CELLS), size=(n, 2))] + rng.uniform(-0.05, 0.05, (n, 2, 2))
    return ends.reshape(n, 4)


def anywhere(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-1, 1, (n, 4))


def fitted(rng: np.random.Generator, places: np.ndarray, spread: float) -> Calibration:
    """The length needed is that predicted, times a lognormal factor."""
    n = len(places)
    steps = rng.uniform(20, 400, n)
    lengths = np.ceil(MULTIPLES * (steps[:, None] + 1)).astype(int)
    arrival = np.ceil(np.exp(rng.normal(0, spread, n)) * (steps + 1)).astype(int)[:, None]
    return fit(steps, places, lengths, np.minimum(arrival, lengths), arrival <= lengths)


@pytest.fixture(scope="module")
def both() -> Calibration:
    rng = np.random.default_rng(0)
    cells = around_cells(rng, 1500)
    first, second = fitted(rng, cells, 0.04), fitted(rng, anywhere(rng, 1500), 0.15)
    return replace(first, elsewhere=Elsewhere.of(second, cells, 0.04))


@pytest.mark.parametrize("risk", [0.2, 0.05])
@pytest.mark.parametrize(("draw", "spread"), [(around_cells, 0.04), (anywhere, 0.15)])
def test_each_pair_gets_the_margin_of_pairs_like_it(both: Calibration, draw, spread: float, risk: float) -> None:
    """The first calibration alone would fail in half of the pairs elsewhere."""
    rng = np.random.default_rng(1)
    places, steps = draw(rng, 4000), rng.uniform(20, 400, 4000)
    pairs = Pairs.of(both, steps, places)
    margins, failure = pairs.margin(risk)
    lengths = np.ceil(margins * (pairs.expected + 1))
    failed = np.ceil(np.exp(rng.normal(0, spread, 4000)) * (steps + 1)) > lengths
    assert failed.mean() == pytest.approx(risk, abs=0.25 * risk + 0.015)
    assert failure == pytest.approx(risk)
    assert 1 - pairs.probability(lengths).mean() == pytest.approx(risk, abs=0.02)
    low, high = pairs.interval(lengths).T
    assert (low <= high).all()
    if draw is anywhere:
        alone, _ = Pairs.of(replace(both, elsewhere=None), steps, places).margin(0.05)
        assert (alone < pairs.margin(0.05)[0]).mean() > 0.9


def test_a_pair_is_elsewhere_if_one_of_its_ends_is(both: Calibration) -> None:
    at, off = CELLS[0] + 0.02, CELLS[0] + 0.4
    pairs = np.array([[*at, *at], [*at, *off], [*off, *at], [*off, *off]])
    assert both.elsewhere is not None
    assert both.elsewhere.holds(pairs).tolist() == [False, True, True, True]
    rng = np.random.default_rng(2)
    assert both.elsewhere.holds(around_cells(rng, 500)).mean() < 0.02
    assert both.elsewhere.holds(anywhere(rng, 500)).mean() > 0.9


def test_no_pairs_and_a_single_pair_are_pairs_too(both: Calibration) -> None:
    none = Pairs.of(both, np.zeros(0), np.zeros((0, 4)))
    assert none.margin(0.05)[0].shape == none.probability([]).shape == (0,)
    one = Pairs.of(both, 50.0, np.array([*CELLS[0], *CELLS[1]]))
    assert one.margin(0.05)[0].shape == (1,)


def test_where_instances_are_everywhere_nothing_is_elsewhere() -> None:
    """Places that would not fit into the file are told apart more coarsely."""
    rng = np.random.default_rng(3)
    places = rng.uniform(-1, 1, (4000, 6))
    found = Elsewhere.of(fitted(rng, places[:200], 0.1), places, 0.03)
    assert len(found.places) <= MOST_PLACES
    assert found.radius > 0.1
    assert found.holds(rng.uniform(-1, 1, (500, 6))).mean() < 0.05


def test_it_is_written_and_read_as_one_file(both: Calibration) -> None:
    again = Calibration.from_json(json.loads(json.dumps(both.to_json())))
    assert again.to_json() == both.to_json()
    assert again.lengths_digest == both.lengths_digest
    assert replace(both, elsewhere=None).lengths_digest != both.lengths_digest
    assert "elsewhere" not in replace(both, elsewhere=None).to_json()
    damaged = both.to_json()
    damaged["elsewhere"] = {**damaged["elsewhere"], "radius": 0.0}
    with pytest.raises(DataError, match="radius above 0"):
        Calibration.from_json(damaged)
