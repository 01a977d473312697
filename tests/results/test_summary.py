from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.errors import DataError
from vhdiffuser.results.rollout_files import KeptRollout, PlanSheet, load_plans, load_rollout, save_plans, save_rollout
from vhdiffuser.results.rows import Row
from vhdiffuser.results.summary import bootstrap_interval, summarize_cell, wilson_interval
from vhdiffuser.types import Instance

CONFIG = {"instances": {"distribution": "uniform"}, "streams": 2}


def row(instance: int, success: bool, steps: int, seed: int = 0) -> Row:
    return Row("toy", "vhd", "rp", seed, instance, [0.0], [1.0], 5, 5, [5, 4], 1, success, steps, 0.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (971, 1000, 0.9587, 0.9797)],
)
def test_wilson_interval_known_answers(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=1e-4)


def test_bootstrap_interval_covers_the_mean_like_the_normal_one() -> None:
    values = np.random.default_rng(1).normal(100, 10, size=400).tolist()
    low, high = bootstrap_interval(values)
    half = 1.96 * np.std(values) / 20
    assert (low, high) == pytest.approx((np.mean(values) - half, np.mean(values) + half), abs=0.15)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval([7, 7, 7]) == (7.0, 7.0)


def test_aes_counts_failures_too() -> None:
    vhd = summarize_cell([row(0, True, 10), row(1, False, 40), row(2, True, 40)], CONFIG)
    assert (vhd.method, vhd.n, vhd.success_rate, vhd.average_executed_steps) == ("vhd", 3, pytest.approx(2 / 3), 30.0)
    assert (vhd.planning_seconds, vhd.simulation_seconds, vhd.average_replans) == (6.0, 9.0, 1.0)
    assert (vhd.distribution, vhd.streams, vhd.seeds) == ("uniform", 2, (0,))
    needed = {
        "environment", "method", "protocol", "distribution", "streams", "seeds", "n", "success_rate",
        "success_rate_by_seed", "average_executed_steps", "success_rate_interval", "average_executed_steps_interval",
        "planning_seconds", "simulation_seconds",
    }  # fmt: skip
    assert needed <= set(vhd.to_json())


def test_seeds_are_pooled_and_each_is_told() -> None:
    one, two = ([row(number, hit, 10, seed=seed) for number, hit in enumerate(hits)] for seed, hits in (
        (101, (True, False, False, False)), (100, (True, True)),
    ))  # fmt: skip
    pooled = summarize_cell([*one, *two], CONFIG)
    assert (pooled.seeds, pooled.n, pooled.success_rate) == ((100, 101), 6, 0.5)
    assert pooled.success_rate_by_seed == (1.0, 0.25)
    assert pooled.success_rate_interval == wilson_interval(3, 6)


def test_the_order_of_rows_does_not_matter() -> None:
    rows = [row(number, number % 3 > 0, 10 * number, seed=seed) for number in range(30) for seed in (1, 2)]
    assert summarize_cell(rows, CONFIG) == summarize_cell(rows[::-1], CONFIG)


def test_side_files_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    plans = ((0, states[:3, :2]), (2, states[2:, :2]))
    case = Instance(states[0], states[-1, :2], 77)
    save_rollout(tmp_path / "r.npz", KeptRollout(3, case, True, states, actions, plans))
    found = load_rollout(tmp_path / "r.npz")
    assert (found.number, found.success, found.instance.seed) == (3, True, 77)
    np.testing.assert_array_equal(found.states, states)
    np.testing.assert_array_equal(found.actions, actions)
    assert [step for step, _ in found.plans] == [0, 2]
    np.testing.assert_array_equal(found.plans[1][1], plans[1][1])

    save_plans(tmp_path / "p.npz", PlanSheet("toy", np.ones(2), (states[:2], states), np.zeros((0, 4))))
    sheet = load_plans(tmp_path / "p.npz")
    assert [len(places) for places in sheet.plans] == [2, 5]
    assert sheet.environment == "toy"


def test_damaged_side_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "r.npz").write_bytes(b"no")
    with pytest.raises(DataError, match="damaged"):
        load_rollout(tmp_path / "r.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(DataError, match="missing"):
        load_plans(tmp_path / "other.npz")


def test_spl_weighs_success_by_the_shortest_over_the_executed_path() -> None:
    """By hand: 1 * 2/4, 0 * 2/3, 1 * 2/2 (a path cut short by the tolerance counts as the shortest), 1 at the goal."""
    paths = [(True, 2.0, 4.0), (False, 2.0, 3.0), (True, 2.0, 1.9), (True, 0.0, 0.0)]
    rows = [replace(row(n, hit, 10), geodesic=short, path=long) for n, (hit, short, long) in enumerate(paths)]
    assert summarize_cell(rows, CONFIG).spl == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    assert summarize_cell([*rows, row(9, True, 10)], CONFIG).spl is None, "a path is not known"
