"""The mathematics of two benchmark scripts: what remains between like pairs, and between plans of one pair."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_bound_on_a_rank_correlation_is_that_of_the_mean() -> None:
    """Steps with a known mean and as much noise again: the mean itself has the best rank correlation."""
    bound = runpy.run_path(str(SCRIPTS / "behaviour_bound.py"))["bound"]
    rng = np.random.default_rng(0)

    def drawn(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
        places = rng.uniform(-1, 1, (n, 2))
        return places, 100 + 20 * places[:, 0] + rng.normal(0, noise, n)

    for noise in (6.0, 12.0):
        places, steps = drawn(30_000, noise)
        found = bound(places, steps, *drawn(30_000, noise))
        best = np.corrcoef(np.argsort(np.argsort(places[:, 0])), np.argsort(np.argsort(steps)))[0, 1]
        assert found["bound"] == pytest.approx(best, abs=0.03)
        assert found["bound_low"] - 0.01 <= best <= found["bound_high"] + 0.01
        assert best - 0.05 < found["reached"] <= best + 0.01


def test_a_pair_is_parted_into_what_it_needs_and_how_plans_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    script = runpy.run_path(str(SCRIPTS / "oracle_gap_parts.py"))
    rng = np.random.default_rng(1)
    lengths = np.arange(70, 141, 3)
    needed = 100 * np.exp(rng.normal(0, 0.08, (400, len(lengths))))
    arrived = (needed <= lengths).sum(axis=0)
    middle, scale = script["middle_and_scale"](lengths, arrived, 400 - arrived)
    assert np.exp(middle) == pytest.approx(100, rel=0.01)
    assert scale == pytest.approx(0.08, rel=0.1)


def test_an_oracle_chosen_on_other_plans_is_no_better_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all lengths are alike, the least of noisy costs looks better than it is; measured on other plans it is
    not."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    script = runpy.run_path(str(SCRIPTS / "oracle_gap_parts.py"))
    rng = np.random.default_rng(2)
    grid = [list(range(50, 60))] * 200
    steps = {(pair, length): rng.integers(30, 50, 16).tolist() for pair, row in enumerate(grid) for length in row}
    outcomes = script["Outcomes"](steps)
    own = [50] * 200
    whole = [outcomes.oracle(pair, row, 0.01, 16) for pair, row in enumerate(grid)]
    optimistic = sum(outcomes.cost(pair, 50)[0] for pair in range(200)) / sum(
        outcomes.cost(pair, best)[0] for pair, best in enumerate(whole)
    )
    assert optimistic > 1.04
    assert script["split_gap"](outcomes, grid, own, 0.01, 16) == pytest.approx(0, abs=0.01)
