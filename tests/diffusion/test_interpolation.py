"""The curve from knots to the control rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator
from scipy.linalg import solveh_banded

from vhdiffuser.diffusion.interpolation import _equations, control_rate, knot_count, monotone_slopes, smoothed
from vhdiffuser.envs.registry import get_spec

MAZE = get_spec("maze2d-umaze")
CUBE = get_spec("cube")


def cubic_motion(times: np.ndarray) -> np.ndarray:
    """(T, 4): positions that are cubics of time, and their velocities."""
    x = 1 + 0.5 * times - 0.7 * times**2 + 0.3 * times**3
    vx = 0.5 - 1.4 * times + 0.9 * times**2
    y = -0.2 * times + 0.4 * times**3
    vy = -0.2 + 1.2 * times**2
    return np.stack([x, y, vx, vy], axis=-1)


@pytest.mark.parametrize("stride", [2, 4, 5])
def test_hermite_reproduces_cubics_and_their_velocities(stride: int) -> None:
    length = 20 * stride + 1
    times = np.arange(length) * MAZE.control_dt
    truth = cubic_motion(times)
    plan = control_rate(truth[None, ::stride], length, stride, MAZE, "goal")
    np.testing.assert_allclose(plan[0], truth, atol=1e-5)


@pytest.mark.parametrize("spec", [MAZE, get_spec("antmaze-medium"), CUBE], ids=lambda spec: spec.name)
@pytest.mark.parametrize("stride", [1, 4])
def test_every_length_gives_exactly_that_many_states_with_exact_ends(spec, stride: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    for length in range(spec.L_min, spec.T_max + 1):
        knots = rng.normal(size=(2, knot_count(length, stride), spec.state_dim)).astype(np.float32)
        plan = control_rate(knots, length, stride, spec, "state")
        assert plan.shape == (2, length, spec.state_dim)
        np.testing.assert_allclose(plan[:, [0, -1]], knots[:, [0, -1]], atol=1e-5)


def test_stride_one_is_the_knots_themselves() -> None:
    knots = np.random.default_rng(0).normal(size=(3, 40, 4)).astype(np.float32)
    np.testing.assert_array_equal(control_rate(knots, 40, 1, MAZE, "goal"), knots)


def test_a_length_between_two_strides_runs_the_same_curve_at_another_speed() -> None:
    """A straight motion at constant speed stays one: no knot is passed faster than the way between knots."""
    stride, K, speed = 4, 5, 2.0
    x = np.arange(K) * stride * MAZE.control_dt * speed
    knots = np.stack([x, 0 * x, np.full(K, speed), 0 * x], axis=-1)[None]
    for length in (15, 16, 17, 18):
        assert knot_count(length, stride) == K
        plan = control_rate(knots, length, stride, MAZE, "goal")[0]
        rate = stride * (K - 1) / (length - 1)
        np.testing.assert_allclose(plan[5:, 2], speed * rate, rtol=1e-4)
        np.testing.assert_allclose(np.diff(plan[5:, 0]) / MAZE.control_dt, speed * rate, rtol=1e-3)
        assert plan[0, 2] == pytest.approx(speed)  # the start is given, not run
        full = control_rate(knots, length, stride, MAZE, "state")[0]
        assert full[-1, 2] == pytest.approx(speed)


def test_velocities_are_the_derivative_of_positions() -> None:
    """Between two knots a plan is a cubic: the one through four of its five positions tells all five velocities."""
    stride, K = 4, 30
    knots = np.random.default_rng(1).normal(size=(1, K, 4))
    plan = control_rate(knots, stride * (K - 1) + 1, stride, MAZE, "goal")[0].astype(np.float64)
    times = MAZE.control_dt * np.arange(stride + 1)
    for first in range(0, len(plan) - 1, stride):
        piece = plan[first : first + stride + 1]
        for dim in range(2):
            cubic = np.polynomial.Polynomial.fit(times[:4], piece[:4, dim], 3)
            assert cubic(times[4]) == pytest.approx(piece[4, dim], abs=1e-5)
            np.testing.assert_allclose(cubic.deriv()(times), piece[:, 2 + dim], atol=2e-3, rtol=1e-4)


def test_without_velocities_the_curve_never_overshoots_its_knots() -> None:
    knots = np.random.default_rng(2).uniform(-1, 1, size=(4, 12, 3))
    stride, length = 4, 45
    plan = control_rate(knots, length, stride, CUBE, "goal")
    np.testing.assert_allclose(plan[:, ::stride], knots, atol=1e-6)
    for segment in range(11):
        part = plan[:, segment * stride : (segment + 1) * stride + 1]
        ends = knots[:, segment : segment + 2]
        assert (part <= ends.max(axis=1, keepdims=True) + 1e-6).all()
        assert (part >= ends.min(axis=1, keepdims=True) - 1e-6).all()


def test_dimensions_without_a_velocity_partner_are_interpolated_beside_those_with() -> None:
    spec = replace(MAZE, observation_dim=5, state_dims=(0, 1, 2, 3, 4), state_names=("x", "y", "vx", "vy", "charge"))
    knots = np.zeros((1, 6, 5))
    knots[0, :, 4] = np.arange(6)
    plan = control_rate(knots, 21, 4, spec, "goal")
    np.testing.assert_allclose(plan[0, :, 4], np.arange(21) / 4, atol=1e-6)
    np.testing.assert_array_equal(plan[0, :, :4], 0)


def test_smoothing_leaves_a_steady_motion_as_it_is() -> None:
    """No acceleration and no disagreement: nothing to even out, at any length."""
    stride, K = 8, 12
    for length in (85, 89, 92):
        x = np.linspace(0.3, 2.1, K)
        v = (2.1 - 0.3) / ((K - 1) * stride * MAZE.control_dt)
        knots = np.stack([x, -x, np.full(K, v), np.full(K, -v)], axis=-1)[None]
        knots[:, 0, 2:] *= stride * (K - 1) / (length - 1)  # the start is taken as given, so give it at this pace
        plan = control_rate(knots, length, stride, MAZE, "goal", smoothing=10.0)[0]
        np.testing.assert_allclose(plan[:, 0], np.linspace(0.3, 2.1, length), atol=1e-5)
        np.testing.assert_allclose(plan[:, 3], -1.8 / ((length - 1) * MAZE.control_dt), rtol=1e-4)


def test_smoothing_tends_to_the_knots_as_its_time_tends_to_zero() -> None:
    rng = np.random.default_rng(3)
    knots = rng.normal(size=(2, 15, 4)) * [1, 1, 5, 5]
    through = control_rate(knots, 57, 4, MAZE, "goal")
    near = control_rate(knots, 57, 4, MAZE, "goal", smoothing=0.02)
    np.testing.assert_allclose(near, through, rtol=1e-3, atol=0.03)


@pytest.mark.parametrize("velocities", [True, False])
def test_the_smoothed_curve_minimises_its_cost(velocities: bool) -> None:
    """Against the cost written out with the knots' own cubic: no nearby curve with the same ends is cheaper."""
    rng = np.random.default_rng(4)
    K, h, time = 7, 4.0, 6.0
    places = rng.normal(size=(1, K, 1)).cumsum(axis=1)
    slopes = rng.normal(size=(1, K, 1)) if velocities else None

    def cost(p: np.ndarray, m: np.ndarray) -> float:
        fine = np.linspace(0, h * (K - 1), 6001)
        bend = CubicHermiteSpline(np.arange(K) * h, p, m)(fine, 2)
        total = float(np.trapezoid(bend**2, fine)) + h * float(((p - places[0, :, 0]) ** 2).sum()) / time**4
        return total + (0.0 if slopes is None else h * float(((m - slopes[0, :, 0]) ** 2).sum()) / time**2)

    p, m = (values[0, :, 0] for values in smoothed(places, slopes, h, time, (True, False)))
    assert p[[0, -1]] == pytest.approx(places[0, [0, -1], 0], abs=1e-7)
    if slopes is not None:
        assert m[0] == pytest.approx(slopes[0, 0, 0], abs=1e-7)
    best = cost(p, m)
    for _ in range(50):
        dp, dm = 0.05 * rng.normal(size=(2, K))
        dp[[0, -1]] = 0
        dm[0] = 0 if velocities else dm[0]
        assert cost(p + dp, m + dm) > best


def test_smoothing_spreads_a_jump_to_the_goal_and_keeps_the_goal() -> None:
    """Knots of a steady motion that would end 0.1 beside the goal: the last velocities stay near the steady one."""
    stride, K, speed = 8, 16, 2.0
    x = np.arange(K) * stride * MAZE.control_dt * speed
    knots = np.stack([x, 0 * x, np.full(K, speed), 0 * x], axis=-1)[None]
    knots[0, -1, 1] = 0.1
    length = (K - 1) * stride + 1
    rough = control_rate(knots, length, stride, MAZE, "goal")[0]
    even = control_rate(knots, length, stride, MAZE, "goal", smoothing=10.0)[0]
    assert even[-1, 1] == pytest.approx(0.1, abs=1e-6)
    assert np.abs(np.diff(even[:, 3])).max() < 0.4 * np.abs(np.diff(rough[:, 3])).max()
    np.testing.assert_allclose(even[: length // 2], rough[: length // 2], atol=5e-3)


@pytest.mark.parametrize("spec", [MAZE, CUBE], ids=lambda spec: spec.name)
def test_smoothed_plans_have_every_length_and_exact_ends(spec) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(5)
    for length in range(spec.L_min, spec.T_max + 1, 7):
        knots = rng.normal(size=(2, knot_count(length, 8), spec.state_dim))
        plan = control_rate(knots, length, 8, spec, "goal", smoothing=8.0)
        assert plan.shape == (2, length, spec.state_dim)
        assert np.isfinite(plan).all()
        np.testing.assert_allclose(plan[:, 0], knots[:, 0], atol=1e-5)
        np.testing.assert_allclose(spec.goal_of(plan[:, -1]), spec.goal_of(knots[:, -1]), atol=1e-5)


@pytest.mark.parametrize("K", [2, 3, 16, 17, 32, 64, 81, 300])
@pytest.mark.parametrize("known_end", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("velocities", [True, False])
def test_the_blocks_solve_the_banded_equations(K: int, known_end: tuple[bool, bool], velocities: bool) -> None:
    rng = np.random.default_rng(K)
    places, slopes = rng.normal(size=(2, 3, K, 2))
    for spacing, time in ((1.0, 4.0), (15.6, 12.0), (4.0, 0.5), (4.0, 200.0)):
        band, weights = _equations(K, spacing, time, velocities, known_end)
        observed = slopes if velocities else np.zeros_like(slopes)
        given = np.stack([places, observed], axis=2).reshape(3, 2 * K, 2)
        wanted = [solveh_banded(band, weights[:, None] * one, lower=True).reshape(K, 2, 2) for one in given]
        made = smoothed(places, slopes if velocities else None, spacing, time, known_end)
        np.testing.assert_allclose(np.stack(made, axis=2), wanted, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3, 4, 21])
def test_slopes_without_velocities_are_those_of_pchip(K: int) -> None:
    rng = np.random.default_rng(K)
    times = np.arange(K, dtype=float)
    rough = rng.normal(size=(1, K, 6))
    for places in (rough, np.cumsum(np.abs(rough), axis=1), rough.round()):  # any, monotone, with level stretches
        wanted = PchipInterpolator(times, places, axis=1)(times, 1)
        np.testing.assert_allclose(monotone_slopes(places), wanted, atol=1e-12)
