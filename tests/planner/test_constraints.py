"""Plans through waypoints and away from regions: what is promised holds, and what is asked for wrongly is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhdiffuser import Planner
from vhdiffuser.diffusion.guidance import BoxCost, Guidance, at_knots, between
from vhdiffuser.diffusion.torch_cost import TorchCost
from vhdiffuser.errors import BlockedRouteWarning, VhdError
from vhdiffuser.planner.candidates import plan_cost
from vhdiffuser.planner.clearing import pushed_out
from vhdiffuser.planner.waypoints import shared_out

START, GOAL = [1.0, 1.0, 0.0, 0.0], [3.0, 1.0]
VIA = [[1.0, 3.0], [3.0, 3.0]]


@pytest.fixture(scope="module")
def planner():
    return Planner.from_pretrained("maze2d-umaze", outside="ignore")


def test_a_plan_passes_through_its_waypoints_in_order(planner):
    plan = planner.plan(START, GOAL, via=VIA, seed=3)
    at = [int(np.flatnonzero((plan.states[:, :2] == np.float32(place)).all(axis=1))[0]) for place in VIA]
    assert 0 < at[0] < at[1] < plan.length - 1
    np.testing.assert_array_equal(plan.states[0], np.float32(START))
    np.testing.assert_array_equal(plan.states[-1, :2], np.float32(GOAL))
    np.testing.assert_array_equal(plan.goal, np.float32(GOAL))
    # Each leg begins as the one before it ends, velocity and all: no step is larger than elsewhere.
    steps = np.linalg.norm(np.diff(plan.states[:, :2], axis=0), axis=1)
    assert max(steps[index - 1 : index + 1].max() for index in at) < 1.5 * np.sort(steps)[-10]


def test_without_waypoints_nothing_changes_and_the_first_leg_has_the_plan_s_seed(planner):
    alone = planner.plan(START, VIA[0], seed=3)
    through = planner.plan(START, GOAL, via=VIA[:1], seed=3)
    np.testing.assert_array_equal(through.states[: alone.length], alone.states)
    np.testing.assert_array_equal(
        planner.plan(START, GOAL, via=np.zeros((0, 2)), seed=3).states, planner.plan(START, GOAL, seed=3).states
    )


def test_a_given_length_is_shared_out_and_kept(planner):
    plan = planner.plan(START, GOAL, 301, via=VIA, keep_denoising=True)
    assert plan.length == 301, "and may be longer than T_max"
    assert plan.denoising is not None
    assert shared_out(11, [21, 31]) == [5, 7]
    for length in range(20, 60):
        assert sum(part - 1 for part in shared_out(length, [30, 17, 90])) == length - 1


def test_wrong_waypoints_are_refused(planner):
    for via in ([1.0, 2.0], [[1.0, 2.0, 0.0]], [[1.0, np.nan]]):
        with pytest.raises(VhdError, match="via needs a list of waypoints of 2 finite numbers .x, y"):
            planner.plan(START, GOAL, via=via)


def box_in_the_way(planner, seeds):
    """A box around the middle of each plan that is made without it."""
    plans = [planner.plan(START, GOAL, seed=seed) for seed in seeds]
    middles = [plan.states[plan.length // 2, :2] for plan in plans]
    return plans, [[middle - 0.15, middle + 0.15] for middle in middles]


def depth(planner, plan, box):
    return plan_cost(plan, planner.spec, BoxCost(planner.spec, [box], np.zeros(2, np.float32)))


def test_plans_stay_out_of_boxes_and_their_ends_stay_where_they_were(planner):
    seeds = range(8)
    plain, boxes = box_in_the_way(planner, seeds)
    assert min(depth(planner, plan, box) for plan, box in zip(plain, boxes, strict=True)) > 0
    for seed, box in zip(seeds, boxes, strict=True):
        plan = planner.plan(START, GOAL, seed=seed, avoid=[box])
        assert depth(planner, plan, box) == 0
        np.testing.assert_array_equal(plan.states[0], np.float32(START))
        np.testing.assert_array_equal(plan.states[-1, :2], np.float32(GOAL))
        # Positions and velocities still belong together, and no step is a jump.
        moved = np.diff(plan.states[:, :2], axis=0) / planner.spec.control_dt
        np.testing.assert_allclose(moved, (plan.states[1:, 2:] + plan.states[:-1, 2:]) / 2, atol=0.25)
        assert np.abs(moved).max() < 1.5 * np.abs(planner.normalizer.high[2:]).max()


def test_the_candidate_that_intrudes_least_is_kept(planner):
    def soft(places):  # cannot be satisfied: the goal itself costs
        return 0.5 * (places[..., 0] - 0.5).square()

    several = planner.with_options(candidates=6)
    cost = [
        plan_cost(one.plan(START, GOAL, seed=2, avoid=soft), planner.spec, TorchCost(soft))
        for one in (several, planner)
    ]
    assert cost[0] < cost[1]


def test_a_region_that_is_far_away_changes_nothing(planner):
    plan = planner.plan(START, GOAL, seed=1)
    far = planner.plan(START, GOAL, seed=1, avoid=[([50, 50], [60, 60])])
    np.testing.assert_allclose(far.states, plan.states, atol=1e-4)


def test_a_function_of_positions_guides_too(planner):
    def above(places):
        return 0.5 * (places[..., 1] - 2.6).clamp(min=0).square()  # stay below y = 2.6

    plain, guided = (planner.plan(START, GOAL, seed=0, avoid=avoid) for avoid in (None, above))
    assert plan_cost(guided, planner.spec, TorchCost(above)) < 0.5 * plan_cost(plain, planner.spec, TorchCost(above))
    for wrong in (lambda places: torch.zeros(3), lambda places: places.detach().sum(dim=-1)):
        with pytest.raises(VhdError, match="avoid must be a function that maps positions"):
            planner.plan(START, GOAL, avoid=wrong)


def test_wrong_boxes_are_refused(planner):
    for boxes in ([[1.0, 1.0]], [([2.0, 2.0], [1.0, 1.0])], [([1.0], [2.0])]):
        with pytest.raises(VhdError, match="avoid needs boxes"):
            planner.plan(START, GOAL, avoid=boxes)


def test_a_box_s_cost_is_half_the_squared_depth_and_one_move_leaves_it(planner):
    cost = BoxCost(planner.spec, [([0, 0], [2, 4])], np.float32([0.5, 0.5]))
    places = np.float32([[[1.9, 2.0], [3.0, 2.0], [2.5, 2.0], [-0.25, 2.0]]])
    np.testing.assert_allclose(cost.values(places), [[0.5 * 0.6**2, 0.0, 0.0, 0.5 * 0.25**2]], rtol=1e-5)
    np.testing.assert_allclose(cost.slopes(places), [[[-0.6, 0], [0, 0], [0, 0], [0.25, 0]]], rtol=1e-5)
    knots = np.float32([[[0.0, 0.0], [8.0, 16.0]]])
    np.testing.assert_array_equal(between(knots)[0, :, 0], np.arange(9.0))
    still = np.full((1, 9, 2), 1.9, np.float32)  # nine knots at one place, 0.6 deep in x
    still[..., 1] = 2.0
    guide = Guidance(cost, [0, 1], np.zeros(2, np.float32), np.ones(2, np.float32))
    moved = guide(still)
    assert (cost.values(moved)[0, 2:-2] < 0.01 * cost.values(still)[0, 2:-2]).all()
    assert (moved[..., 1] == 2.0).all(), "out by the nearest side"


def test_a_push_ends_outside_and_moves_only_what_is_near(planner):
    states = np.zeros((121, 4), np.float32)
    states[:, 0] = np.linspace(0.0, 6.0, 121)  # straight along x, through a box that lies off its centre line
    states[:, 2] = 0.05 / planner.spec.control_dt
    cost = BoxCost(planner.spec, [([2.8, -0.3], [3.2, 0.1])], np.zeros(2, np.float32))
    moved = pushed_out(states, cost, planner.spec, 6.0)
    assert cost.values(moved[None, :, :2]).sum() == 0
    assert moved[60, 1] >= 0.1, "out by the nearer side"
    np.testing.assert_array_equal(moved[[0, -1]], states[[0, -1]])
    np.testing.assert_allclose(moved[:30], states[:30], atol=1e-3)
    np.testing.assert_allclose(moved[1:-1, 3], np.gradient(moved[:, 1])[1:-1] / planner.spec.control_dt, atol=1e-3)


def test_where_there_is_a_route_graph_a_plan_goes_round_by_another_corridor():
    """A box that fills a corridor of maze2d-large: the plan takes another one, and is as long as that takes."""
    planner = Planner.from_pretrained("maze2d-large", outside="ignore")
    start, goal = [1.0, 6.0, 0.0, 0.0], [5.0, 6.0]
    plain = planner.plan(start, goal, seed=0)
    box = np.array([[2.4, 5.2], [3.4, 6.4]])
    assert inside(plain, box).any()
    around = planner.plan(start, goal, seed=0, avoid=[box])
    assert not inside(around, box).any()
    assert around.length > 1.2 * plain.length
    np.testing.assert_array_equal(around.states[-1, :2], np.float32(goal))
    assert around.route is not None
    with pytest.warns(BlockedRouteWarning, match="no known route avoids"):
        planner.plan(start, goal, seed=0, avoid=[([-5.0, 3.0], [15.0, 4.0]), ([3.5, -5.0], [4.5, 15.0])])


def inside(plan, box):
    return ((plan.states[:, :2] >= box[0]) & (plan.states[:, :2] <= box[1])).all(axis=1)


def test_slopes_at_knots_are_those_of_the_points_between_them(planner):
    """By automatic differentiation of the same cost, through the points between the knots."""
    rng = np.random.default_rng(0)
    box = BoxCost(planner.spec, [([0, 0], [2, 4]), ([1, 1], [5, 3])], np.float32([0.1, 0.2]))
    knots = rng.uniform(-1, 6, (3, 7, 2)).astype(np.float32)
    by_hand = at_knots(box.slopes(between(knots)))
    places = torch.from_numpy(knots).double().requires_grad_(True)
    share = torch.arange(8) / 8
    inner = places[:, :-1, None] + share[:, None] * (places[:, 1:, None] - places[:, :-1, None])
    points = torch.cat([inner.flatten(1, 2), places[:, -1:]], dim=1)[:, :, None]
    low, high = torch.from_numpy(box.low), torch.from_numpy(box.high)
    depth = torch.minimum(points - low, high - points).amin(dim=-1).clamp(min=0)
    (slope,) = torch.autograd.grad(0.5 * depth.square().sum(), places)
    np.testing.assert_allclose(by_hand, slope, atol=1e-5)
