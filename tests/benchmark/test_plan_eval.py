"""Plans beside held-out episodes: figures that are known by construction."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from toy_point import SPEC

from vhdiffuser.benchmark.length_eval import recorded_pairs
from vhdiffuser.benchmark.plan_eval import evaluate_plans
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Episodes

FLAT = replace(SPEC, T_max=40)


def drives(count: int, seed: int) -> Episodes:
    """Straight drives along x, 0.1 a step, at heights of their own; whatever else the state holds is 0."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(count):
        states = np.zeros((30, SPEC.observation_dim), np.float32)
        states[:, SPEC.state_dims[SPEC.goal_dims[0]]] = 0.1 * np.arange(30)
        states[:, SPEC.state_dims[SPEC.goal_dims[1]]] = rng.uniform(0, 1)
        parts.append((states, np.zeros((29, SPEC.action_dim), np.float32)))
    return Episodes.from_parts(parts)


def lines(stretch: int, aside: float = 0.0) -> Any:
    """A planner that drives straight, `stretch` times as long as the way takes at 0.1 a step, and `aside` of it."""
    normalizer = Normalizer(np.zeros(SPEC.state_dim, np.float32), np.full(SPEC.state_dim, 3.0, np.float32))

    def plan_batch(starts: np.ndarray, goals: np.ndarray, seeds: int) -> list[Plan]:
        plans = []
        for start, goal in zip(starts, goals, strict=True):
            steps = stretch * round(float(np.abs(goal - SPEC.goal_of(start)).max()) / 0.1)
            states = np.zeros((steps + 1, SPEC.state_dim), np.float32)
            way = np.linspace(0, 1, steps + 1)[:, None] * (goal - SPEC.goal_of(start))
            states[:, list(SPEC.goal_dims)] = SPEC.goal_of(start) + way
            states[1:-1, SPEC.goal_dims[1]] += aside
            plans.append(Plan(states, goal))
        return plans

    return SimpleNamespace(
        spec=FLAT, normalizer=normalizer, plan_batch=plan_batch, motion=FastestMotion(0.1001, float("inf"))
    )


def test_pairs_are_two_moments_of_one_episode() -> None:
    episodes = drives(8, 0)
    starts, goals, steps = recorded_pairs(episodes, FLAT, 200, seed=1)
    np.testing.assert_allclose(goals[:, 0] - SPEC.goal_of(starts)[:, 0], 0.1 * steps, atol=1e-5)
    np.testing.assert_allclose(goals[:, 1], SPEC.goal_of(starts)[:, 1])
    assert (steps.min(), steps.max()) == (1, 29)
    again = recorded_pairs(episodes, FLAT, 200, seed=1)
    np.testing.assert_array_equal(again[0], starts)
    assert not np.array_equal(recorded_pairs(episodes, FLAT, 200, seed=2)[0], starts)


def test_plans_like_the_data_are_found_to_be_so() -> None:
    figures = evaluate_plans(lines(1), drives(400, 0), drives(20, 1), n=60).figures
    assert figures["on_data"] == 1.0
    assert figures["too_fast_steps"] == 0.0
    assert figures["length_ratio_median"] == pytest.approx(1.0)
    assert figures["distance_p95"] <= figures["recorded_distance_p95"] + 0.02


def test_detours_haste_and_plans_off_the_data_are_seen() -> None:
    data = drives(400, 0), drives(20, 1)
    slow = evaluate_plans(lines(2), *data, n=60).figures
    assert slow["length_ratio_median"] == pytest.approx(2.0)
    aside = evaluate_plans(lines(1, aside=3.0), *data, n=60).figures
    assert aside["on_data"] < 0.1, "but for plans of one step, which have no middle"
    assert aside["distance_mean"] > 1.0
    assert aside["too_fast_steps"] > 0.05, "the jumps aside and back"
