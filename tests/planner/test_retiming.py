"""Retiming: time-optimal speed along a path, and plans that are drawn at the data's pace and then sped up."""

from __future__ import annotations

from math import inf, pi, sqrt

import numpy as np
import pytest
import torch

from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import calibrated_options
from vhdiffuser.planner.planner import Planner
from vhdiffuser.planner.retiming import retimed, speed_profile

SPEC = get_spec("maze2d-umaze")
MOTION = FastestMotion(speed=0.05, acceleration=0.002)


def path_states(places: np.ndarray) -> np.ndarray:
    """States along places, at rest at the start; velocities of a motion of one place per step."""
    velocities = np.gradient(places, axis=0) / SPEC.control_dt
    velocities[0] = 0
    return np.concatenate([places, velocities], axis=1).astype(np.float32)


def quarter_turn(n: int = 200) -> np.ndarray:
    """2 units ahead, a quarter circle of radius 0.3, 2 units to the left, as (n, 2) evenly spaced places."""
    angle = np.linspace(-pi / 2, 0, 400)
    arc = np.stack([2 + 0.3 * np.cos(angle), 0.3 + 0.3 * np.sin(angle)], axis=1)
    corners = np.concatenate([[[0.0, 0.0]], arc, [[2.3, 2.3]]])
    travelled = np.concatenate([[0], np.linalg.norm(np.diff(corners, axis=0), axis=1).cumsum()])
    at = np.linspace(0, travelled[-1], n)
    return np.stack([np.interp(at, travelled, column) for column in corners.T], axis=1)


def profile_time(speeds: np.ndarray, spacing: float) -> float:
    return float((2 * spacing / (speeds[:-1] + speeds[1:])).sum())


def test_a_straight_way_from_rest_is_run_at_full_acceleration() -> None:
    n, spacing = 101, 0.002
    speeds = speed_profile(np.zeros(n), spacing, MOTION, first=0.0)
    way = spacing * np.arange(n)
    assert speeds == pytest.approx(np.sqrt(2 * MOTION.acceleration * way))
    assert profile_time(speeds, spacing) == pytest.approx(sqrt(2 * way[-1] / MOTION.acceleration))


def test_a_long_straight_way_has_a_trapezoid_of_speed() -> None:
    v, a = MOTION.speed, MOTION.acceleration
    n, spacing = 1001, 0.005
    speeds = speed_profile(np.zeros(n), spacing, MOTION, first=0.0, last=0.0)
    total = spacing * (n - 1)
    assert speeds.max() == pytest.approx(v)
    assert profile_time(speeds, spacing) == pytest.approx(total / v + v / a, rel=1e-3)  # lost at both ends: v / 2a each


def test_turns_are_run_no_faster_than_acceleration_across_allows_and_braked_for() -> None:
    bend = np.where(np.abs(np.arange(400) - 200) < 20, 1 / 0.1, 0.0)
    speeds = speed_profile(bend, 0.005, MOTION, first=MOTION.speed)
    in_turn = sqrt(MOTION.acceleration * 0.1)
    assert speeds[181:220] == pytest.approx(np.full(39, in_turn))
    before = speeds[:181]
    way_left = 0.005 * (181 - np.arange(181))
    assert (before <= np.sqrt(in_turn**2 + 2 * MOTION.acceleration * way_left) + 1e-9).all()
    assert speeds[0] == pytest.approx(MOTION.speed)
    assert (np.abs(np.diff(speeds**2)) <= 2 * 0.005 * MOTION.acceleration + 1e-12).all()


def test_without_a_limit_of_acceleration_speed_is_constant() -> None:
    assert (speed_profile(np.linspace(0, 9, 50), 0.1, FastestMotion(0.05, inf), first=inf) == 0.05).all()


@pytest.mark.parametrize("share", [1.0, 1.25])
def test_a_retimed_plan_keeps_its_path_its_ends_and_the_limits(share: float) -> None:
    states = path_states(quarter_turn())
    quickest = next(L for L in range(60, 200) if _largest_acceleration(states, L) <= MOTION.acceleration)
    length = round(share * quickest)
    quick = retimed(states, length, SPEC, MOTION)
    assert quick.shape == (length, 4)
    assert np.array_equal(quick[0], states[0])
    assert np.array_equal(quick[-1, :2], states[-1, :2])
    apart = np.linalg.norm(quick[:, None, :2] - states[None, :, :2], axis=-1).min(axis=1)
    assert apart.max() < 0.02, "on the path"
    steps = np.diff(quick[:, :2].astype(np.float64), axis=0)
    assert np.linalg.norm(steps, axis=1).max() <= MOTION.speed / share * 1.02
    assert _largest_acceleration(states, length) <= 1.02 * MOTION.acceleration / share**2 * 1.1
    middle = (quick[2:, :2] - quick[:-2, :2]) / (2 * SPEC.control_dt)
    assert np.abs(quick[1:-1, 2:] - middle).max() < 0.05 * MOTION.speed / SPEC.control_dt, "its velocities are its own"
    uniform = states[np.linspace(0, len(states) - 1, length).round().astype(int)]
    assert np.linalg.norm(quick[5, :2]) < 0.5 * np.linalg.norm(uniform[5, :2]), "a start from rest takes time"


def _largest_acceleration(states: np.ndarray, length: int) -> float:
    """Over three steps: the profile's own corners last one step."""
    places = retimed(states, length, SPEC, MOTION)[:, :2].astype(np.float64)
    return float(np.linalg.norm(places[6:] - 2 * places[3:-3] + places[:-6], axis=1).max() / 9)


def test_a_plan_that_does_not_move_is_only_shortened() -> None:
    still = np.tile(np.array([1, 1, 0, 0], np.float32), (40, 1))
    assert np.array_equal(retimed(still, 20, SPEC, MOTION), still[:20])


def test_a_clamped_last_state_is_kept_whole_and_braked_for() -> None:
    states = path_states(quarter_turn())
    states[-1, 2:] = 0
    quick = retimed(states, 150, SPEC, MOTION, clamp="state")
    assert np.array_equal(quick[-1], states[-1])
    last = np.linalg.norm(np.diff(quick[-6:, :2], axis=0), axis=1)
    assert (np.diff(last) < 0).all()


class Steps:
    """A Length Predictor that says 49 of every pair."""

    def predict_steps(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        return np.full(len(starts), 49.0)


@pytest.fixture(scope="module")
def planner() -> Planner:
    torch.manual_seed(0)
    config = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=16)
    limits = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
    options = PlanningOptions(steps=4, gamma=1.2)
    return Planner(TemporalUnet(4, 8, (1, 2)), config, SPEC, limits, Steps(), options=options, motion=MOTION)


STARTS = np.array([[1, 1, 0, 0], [3, 1, 0, 0]], np.float32)
GOALS = np.array([[3, 1], [1, 1]], np.float32)


def test_short_plans_are_drawn_at_the_data_s_pace_and_run_faster(planner: Planner) -> None:
    quick = planner.with_options(gamma=0.8, retime=1.2).plan_batch(STARTS, GOALS, seeds=5)
    drawn = planner.plan_batch(STARTS, GOALS, seeds=5)
    assert [plan.length for plan in quick] == [40, 40]
    for short, long in zip(quick, drawn, strict=True):
        assert np.array_equal(short.states, retimed(long.states, 40, SPEC, MOTION))


def test_plans_at_the_data_s_pace_or_slower_stay_as_they_are(planner: Planner) -> None:
    with_retiming = planner.with_options(retime=1.2)
    for lengths in (None, 60, 90):
        plain, same = (each.plan_batch(STARTS, GOALS, lengths, seeds=2) for each in (planner, with_retiming))
        assert plain == same


def test_a_calibration_depends_on_retiming_where_there_is_some(planner: Planner) -> None:
    assert "retime" not in calibrated_options(planner), "calibrations made before it stay valid"
    assert calibrated_options(planner.with_options(retime=1.2))["retime"] == 1.2


def test_retiming_needs_limits_and_a_sensible_pace(planner: Planner) -> None:
    lost = Planner(
        planner.network, planner.config, SPEC, planner.normalizer, Steps(), options=PlanningOptions(steps=4, retime=2.0)
    )
    with pytest.raises(VhdError, match="maximum speed and acceleration"):
        lost.plan_batch(STARTS, GOALS, 30)
    with pytest.raises(VhdError, match="retime must be > 0"):
        planner.with_options(retime=-1.0)
