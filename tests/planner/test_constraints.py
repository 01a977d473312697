"""Plans through waypoints and away from regions: what is promised holds, and what is asked for wrongly is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhdiffuser import Planner
from vhdiffuser.diffusion.guidance import Guidance, between, box_cost
from vhdiffuser.errors import VhdError
from vhdiffuser.planner.candidates import plan_cost
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
        with pytest.raises(VhdError, match="via needs a list of waypoints of the 2 finite numbers x, y"):
            planner.plan(START, GOAL, via=via)


def box_in_the_way(planner, seeds):
    """A box around the middle of each plan that is made without it."""
    plans = [planner.plan(START, GOAL, seed=seed) for seed in seeds]
    middles = [plan.states[plan.length // 2, :2] for plan in plans]
    return plans, [[middle - 0.15, middle + 0.15] for middle in middles]


def depth(planner, plan, box):
    return plan_cost(plan, planner.spec, box_cost(planner.spec, [box], np.zeros(2, np.float32)))


def test_guidance_lowers_the_violation_and_candidates_lower_it_further(planner):
    seeds = range(8)
    plain, boxes = box_in_the_way(planner, seeds)
    guided = [planner.plan(START, GOAL, seed=seed, avoid=[box]) for seed, box in zip(seeds, boxes, strict=True)]
    several = planner.with_options(candidates=8)
    best = [several.plan(START, GOAL, seed=seed, avoid=[box]) for seed, box in zip(seeds, boxes, strict=True)]
    costs = [
        [depth(planner, plan, box) for plan, box in zip(plans, boxes, strict=True)] for plans in (plain, guided, best)
    ]
    assert min(costs[0]) > 0
    assert np.mean(costs[1]) < 0.5 * np.mean(costs[0])
    assert np.mean(costs[2]) < np.mean(costs[1])
    assert np.mean(costs[2]) < 0.1 * np.mean(costs[0])
    assert 0.0 in costs[2]
    for plan in (*guided, *best):  # the ends are as they were asked for
        np.testing.assert_array_equal(plan.states[0], np.float32(START))
        np.testing.assert_array_equal(plan.states[-1, :2], np.float32(GOAL))


def test_a_region_that_is_far_away_changes_nothing(planner):
    plan = planner.plan(START, GOAL, seed=1)
    far = planner.plan(START, GOAL, seed=1, avoid=[([50, 50], [60, 60])])
    np.testing.assert_allclose(far.states, plan.states, atol=1e-4)


def test_a_function_of_positions_guides_too(planner):
    def above(places):
        return 0.5 * (places[..., 1] - 2.6).clamp(min=0).square()  # stay below y = 2.6

    plain, guided = (planner.plan(START, GOAL, seed=0, avoid=avoid) for avoid in (None, above))
    assert plan_cost(guided, planner.spec, above) < 0.5 * plan_cost(plain, planner.spec, above)
    for wrong in (lambda places: torch.zeros(3), lambda places: places.detach().sum(dim=-1)):
        with pytest.raises(VhdError, match="avoid must be a function that maps positions"):
            planner.plan(START, GOAL, avoid=wrong)


def test_wrong_boxes_are_refused(planner):
    for boxes in ([[1.0, 1.0]], [([2.0, 2.0], [1.0, 1.0])], [([1.0], [2.0])]):
        with pytest.raises(VhdError, match="avoid needs boxes"):
            planner.plan(START, GOAL, avoid=boxes)


def test_a_box_s_cost_is_half_the_squared_depth_and_one_move_leaves_it(planner):
    cost = box_cost(planner.spec, [([0, 0], [2, 4])], np.float32([0.5, 0.5]))
    places = torch.tensor([[[1.9, 2.0], [3.0, 2.0], [2.5, 2.0], [-0.25, 2.0]]])
    torch.testing.assert_close(cost(places), torch.tensor([[0.5 * 0.6**2, 0.0, 0.0, 0.5 * 0.25**2]]))
    knots = torch.tensor([[[0.0, 0.0], [8.0, 16.0]]])
    torch.testing.assert_close(between(knots)[0, :, 0], torch.arange(9.0))
    still = torch.full((1, 9, 2), 1.9)  # nine knots at one place, 0.6 deep in x
    still[..., 1] = 2.0
    guide = Guidance(cost, [0, 1], np.zeros(2, np.float32), np.ones(2, np.float32))
    moved = guide(still)
    assert (cost(moved)[0, 2:-2] < 0.01 * cost(still)[0, 2:-2]).all()
    assert (moved[..., 1] == 2.0).all(), "out by the nearest side"
