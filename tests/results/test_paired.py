from __future__ import annotations

import numpy as np
import pytest
from cell_toys import toy_cell
from scipy.stats import binomtest

from vhdiffuser.results.paired import best_steps, best_success, mcnemar, paired_bootstrap, unpaired


def outcomes(both: int, only_first: int, only_second: int, neither: int) -> tuple[list[bool], list[bool]]:
    first = [True] * (both + only_first) + [False] * (only_second + neither)
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return first, second


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),  # 2 * 1/2
        (5, 0, 2 / 32),  # all five on one side: 2 * (1/2)^5
        (6, 0, 2 / 64),
        (8, 1, 2 * (1 + 9) / 512),  # none or one of nine
        (4, 4, 1.0),
    ],
)
def test_mcnemar_by_hand(only_first: int, only_second: int, p: float) -> None:
    first, second = outcomes(30, only_first, only_second, 10)
    assert mcnemar(first, second) == pytest.approx(p)
    assert mcnemar(second, first) == pytest.approx(p)


@pytest.mark.parametrize(("only_first", "only_second"), [(3, 17), (40, 61), (900, 1100), (0, 2000)])
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(only_first: int, only_second: int) -> None:
    p = mcnemar(*outcomes(5, only_first, only_second, 5))
    assert p == pytest.approx(binomtest(only_first, only_first + only_second).pvalue)


def test_instances_on_which_both_agree_say_nothing() -> None:
    assert mcnemar(*outcomes(5, 2, 9, 5)) == mcnemar(*outcomes(3000, 2, 9, 7000))


def test_the_bootstrap_by_hand() -> None:
    # Two differences, -1 and 3: resampled means are -1, 1, 1, 3, one in four of them not above 0.
    assert paired_bootstrap([0, 5], [1, 2], resamples=20_000) == pytest.approx(0.5, abs=0.02)
    # -1, -1, 5 (27 resamples): the mean is at most 0 only without the 5, in 8 of 27.
    assert paired_bootstrap([0, 0, 5], [1, 1, 0], resamples=20_000) == pytest.approx(2 * 8 / 27, abs=0.02)
    assert paired_bootstrap([3, 4, 5], [3, 4, 5]) == 1.0
    assert paired_bootstrap([2, 3, 4], [1, 2, 3], resamples=999) == pytest.approx(2 / 1000)
    values = np.random.default_rng(0).normal(size=(2, 50))
    assert paired_bootstrap(*values) == paired_bootstrap(*values)


def test_pairing_finds_what_two_samples_apart_would_not() -> None:
    rng = np.random.default_rng(1)
    far = rng.uniform(0, 1000, 200)  # instances differ much more than the methods do
    assert paired_bootstrap(far + rng.normal(2, 5, 200), far) < 0.01


def test_best_are_all_that_are_not_significantly_worse() -> None:
    hits = {"vhd": [True] * 95 + [False] * 5, "near": [True] * 92 + [False] * 8, "far": [True] * 80 + [False] * 20}
    cells = {name: toy_cell(own, method=name) for name, own in hits.items()}
    assert best_success(cells) == {"vhd", "near"}, "3 discordant pairs: p = 1/4; 15: p < 0.001"
    rng = np.random.default_rng(2)
    base = rng.integers(50, 400, 100)
    steps = {"quick": base, "same": base + rng.integers(-5, 6, 100), "slow": base + rng.integers(0, 20, 100)}
    cells = {name: toy_cell([True] * 100, own.tolist(), method=name) for name, own in steps.items()}
    assert best_steps(cells) == {"quick", "same"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({}, None), ({"streams": 1}, "different streams"), ({"seed": 101}, "different seeds")],
)
def test_only_the_same_instances_are_paired(changes: dict, reason: str | None) -> None:
    assert unpaired([toy_cell([True, False]), toy_cell([True, True], method="fh-h1", **changes)]) == reason
    assert unpaired([toy_cell([True, False]), toy_cell([True], method="fh-h1")]) == "different instances"
