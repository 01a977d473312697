"""Plans that wait at their goal: which states wait, what else they change, and where they do not wait."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from corridor_toys import SPEC as CORRIDOR
from corridor_toys import WAY, corridor, corridor_planner

from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.length.centring import evenly
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner
from vhdiffuser.planner.waiting import moving_lengths
from vhdiffuser.trajectories import Plan

SPEC = get_spec("maze2d-umaze")
CONFIG = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=16)
STARTS = np.array([[1, 1, 0, 0], [3, 1, 0, 0]], np.float32)
GOALS = np.array([[3, 1], [1, 1]], np.float32)


class Fifty:
    """A Length Predictor that says 49 steps, 50 states, of every pair."""

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.full(len(starts), 49.0)


def make_planner(config: PlannerConfig = CONFIG, **options: float) -> Planner:
    torch.manual_seed(0)
    limits = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
    chosen = PlanningOptions(steps=4, gamma=1.2).changed(**options)
    motion = FastestMotion(speed=0.05, acceleration=0.002)
    return Planner(
        TemporalUnet(4, 8, (1, 2)), config, SPEC, limits, Fifty(), options=chosen, outside="ignore", motion=motion
    )


@pytest.fixture(scope="module")
def planner() -> Planner:
    return make_planner()


def test_a_plan_is_the_same_up_to_its_goal_and_then_stands_there(planner: Planner) -> None:
    waits = planner.with_options(wait=15)
    assert planner.predict_lengths(STARTS, GOALS).tolist() == [60, 60]
    assert waits.predict_lengths(STARTS, GOALS).tolist() == [75, 75]
    for plain, plan in zip(*(each.plan_batch(STARTS, GOALS, seeds=3) for each in (planner, waits)), strict=True):
        assert plan.length == 75
        np.testing.assert_array_equal(plan.states[:60], plain.states)
        np.testing.assert_array_equal(plan.states[60:, :2], np.tile(plan.goal, (15, 1)))
        assert (plan.states[60:, 2:] == 0).all(), "at rest"


def test_a_given_length_includes_the_states_that_wait(planner: Planner) -> None:
    waits = planner.with_options(wait=15)
    for plain, plan in zip(planner.plan_batch(STARTS, GOALS, 45), waits.plan_batch(STARTS, GOALS, 60), strict=True):
        assert plan.length == 60
        np.testing.assert_array_equal(plan.states[:45], plain.states)
    assert moving_lengths(np.array([60, 20, 12]), 15, 16).tolist() == [45, 16, 12], "a short plan moves all the time"


def test_lengths_stay_within_T_max(planner: Planner) -> None:
    longest = planner.with_options(gamma=(SPEC.T_max - 4) / 50, wait=15)
    assert longest.predict_lengths(STARTS, GOALS).tolist() == [SPEC.T_max] * 2
    assert all(plan.length == SPEC.T_max for plan in longest.plan_batch(STARTS, GOALS))


def test_candidates_and_retimed_plans_wait_too(planner: Planner) -> None:
    for options in ({"candidates": 3}, {"gamma": 0.8, "retime": 1.2}):
        plain = planner.with_options(**options).plan_batch(STARTS, GOALS)
        waiting = planner.with_options(**options, wait=9).plan_batch(STARTS, GOALS)
        for short, long in zip(plain, waiting, strict=True):
            np.testing.assert_array_equal(long.states[:-9], short.states)


def test_a_plan_waits_at_its_goal_and_not_at_its_waypoints(planner: Planner) -> None:
    via = np.array([[3.0, 3.0]], np.float32)
    waits = planner.with_options(wait=10)
    for length in (None, 130):
        moving = None if length is None else length - 10
        plain = planner.plan(STARTS[0], GOALS[0], moving, via=via)
        plan = waits.plan(STARTS[0], GOALS[0], length, via=via)
        assert plan.length == plain.length + 10
        np.testing.assert_array_equal(plan.states[:-10], plain.states)
        np.testing.assert_array_equal(plan.states[-10:, :2], np.tile(GOALS[0], (10, 1)))


def test_replanning_keeps_the_wait_and_adds_none_on_the_way() -> None:
    planner = corridor_planner(corridor()).with_options(wait=12)
    moving = planner.with_options(wait=0)
    places = evenly(10 * WAY, 301).astype(np.float32)
    places = np.concatenate([places, np.tile(places[-1:], (12, 1))])
    plan = Plan(np.concatenate([places, np.zeros_like(places)], axis=1), places[-1], route=places[:301:10])
    for index, each in ((60, planner), (60, moving)):
        new = each.replan_batch([plan], plan.states[[index]], plan.goal[None], seeds=[1])[0]
        np.testing.assert_array_equal(CORRIDOR.goal_of(new.states[-12:]), places[-12:])
        if each is planner:
            first = new
    assert first == new


def test_fixed_horizons_never_wait_and_clamped_states_refuse_to() -> None:
    fixed = make_planner(replace(CONFIG, horizon=64), wait=10)
    assert fixed.predict_lengths(STARTS, GOALS).tolist() == [60, 60]
    assert [plan.length for plan in fixed.plan_batch(STARTS, GOALS, 64)] == [64, 64]
    with pytest.raises(VhdError, match="whole last state"):
        make_planner(replace(CONFIG, clamp="state"), wait=10)
    with pytest.raises(VhdError, match="wait must be"):
        PlanningOptions(wait=-1)
