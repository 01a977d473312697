"""Parts of plans drawn again: replanning keeps the rest of a plan, and pieces that no path explains are replaced."""

from __future__ import annotations

import numpy as np
import pytest
from corridor_toys import SPEC, WAY, corridor, corridor_planner

from vhdiffuser.length.centring import evenly
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.planner.parts import AHEAD, ALONE, TOGETHER, Part, mended, rounds
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import FloatArray

START, GOAL = np.array([-9, -5, 0, 0], np.float32), np.array([-9, 5], np.float32)


class ByGraph:
    """Distances by the route graph."""

    def __init__(self, graph: RouteGraph) -> None:
        self.routes = graph

    def predict_steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        here, there = starts[:, :2], goals[:, :2]
        return 0.4 * self.routes.steps(here / 10, there / 10)


@pytest.fixture(scope="module")
def planner() -> Planner:
    graph = corridor()
    planner = corridor_planner(graph)
    planner.length_predictor = ByGraph(graph)
    return planner


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Evenly along the corridor, as a trained planner would."""
    places = evenly(10 * WAY, 301).astype(np.float32)
    return Plan(np.concatenate([places, np.zeros_like(places)], axis=1), GOAL, route=places[::10])


def beside(plan: Plan, index: int) -> FloatArray:
    """A state a little off the plan at that index."""
    return (plan.states[index] + np.array([0.2, -0.2, 0, 0])).astype(np.float32)


def test_a_part_that_is_the_plans_own_changes_nothing(plan: Plan) -> None:
    part = Part(plan, 40, 90, plan.states[40])
    np.testing.assert_allclose(part.joined(plan.states[40:91], 20).states, plan.states, rtol=1e-6)
    ahead = part.joined(plan.states[40:91], 20, before=40)
    np.testing.assert_allclose(ahead.states, plan.states[40:], rtol=1e-6)


def test_a_part_turns_into_the_plan_without_a_jump(plan: Plan) -> None:
    part = Part(plan, 40, 90, plan.states[40])
    moved = part.joined(plan.states[40:91] + np.float32(1), 20)
    away = (moved.states - plan.states)[:, 0]
    np.testing.assert_array_equal(away[[*range(40), *range(90, 301)]], 0)
    np.testing.assert_allclose(away[40:71], 1, atol=1e-5)
    assert (np.diff(away[70:91]) < 1e-5).all()
    assert np.abs(np.diff(away[70:91])).max() < 0.1


def test_replanning_keeps_the_rest_and_starts_where_the_robot_is(planner: Planner, plan: Plan) -> None:
    ahead = round(AHEAD * planner.options.piece)
    for index in (0, 60, 200):
        state = beside(plan, index)
        new = planner.replan_batch([plan], state[None], GOAL[None], seeds=[1])[0]
        np.testing.assert_array_equal(new.states[0], state)
        places = SPEC.goal_of(plan.states)
        near = int(np.abs(places - SPEC.goal_of(state)).max(axis=1).argmin())
        rest = plan.states[near + ahead :]
        np.testing.assert_array_equal(new.states[-len(rest) :], rest)
        assert new.route is not None
        assert not np.array_equal(new.states[1:20], plan.states[near + 1 : near + 20])
        # The part ahead has a length of its own, the predicted one.
        expected = planner.predict_lengths(state[None], SPEC.goal_of(rest[:1]))[0]
        assert new.length == expected + len(rest) - 1


def test_replanning_takes_two_of_five_reverse_steps(
    planner: Planner, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the number of steps, the network is evaluated once for each, for all windows together."""
    planner, levels = planner.with_options(steps=5), []
    network = planner.network
    monkeypatch.setattr(planner, "network", lambda tau, level: levels.append(level) or network(tau, level))
    planner.replan_batch([plan], beside(plan, 70)[None], GOAL[None])
    assert len(levels) == len(set(levels)) == 2
    levels.clear()
    planner.plan(plan.states[70], GOAL)
    assert len(levels) == 5


@pytest.mark.parametrize("case", ["another goal", "little left", "drawn whole", "left its way"])
def test_what_cannot_be_kept_is_planned_anew(planner: Planner, plan: Plan, case: str) -> None:
    state, goal, old = beside(plan, 100), GOAL, plan
    if case == "another goal":
        goal = np.array([-8, 5], np.float32)
    elif case == "little left":
        state = beside(plan, 290)
    elif case == "drawn whole":
        old = Plan(plan.states, plan.goal)
    else:  # next to a plan that goes through the wall, where the corridor leads far round
        straight = np.linspace(START, [-9, 5, 0, 0], 45).astype(np.float32)
        state, old = straight[3], Plan(straight, GOAL, route=straight[:, :2])
    own = planner.plan_batch(state[None], goal[None], seeds=[7])[0]
    assert planner.replan_batch([old], state[None], goal[None], seeds=[7])[0] == own


def test_replans_are_independent_of_their_batch(planner: Planner, plan: Plan) -> None:
    states = np.stack([beside(plan, index) for index in (10, 290, 120)])
    goals, seeds = np.stack([GOAL] * 3), np.array([4, 5, 6])
    together = planner.replan_batch([plan] * 3, states, goals, seeds=seeds)
    for row, new in enumerate(together):
        alone = planner.replan_batch([plan], states[[row]], goals[[row]], seeds=seeds[[row]])[0]
        assert new.length == alone.length
        np.testing.assert_allclose(new.states, alone.states, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("good", [True, False])
def test_a_piece_that_no_path_explains_is_drawn_again_and_kept_if_better(
    planner: Planner, plan: Plan, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = plan.states.copy()
    states[100:106, :2] = [-2.0, 4.5]  # across the wall and back
    bad, graph = Plan(states, GOAL, route=plan.route), planner.length_predictor.routes

    def drawn(denoiser, parts, routes, lengths, seeds):
        (part,), (route,) = parts, routes
        assert part.first < 100
        assert part.stop > 106
        x, y = route.places.T
        assert not ((np.abs(y) < 0.4) & (x < 0.8)).any()  # along the corridor, not through the wall
        return [(plan if good else bad).states[part.first : part.stop + 1]]

    monkeypatch.setattr("vhdiffuser.planner.parts.draw_parts", drawn)
    best = mended(planner._denoiser(), [bad], planner.length_predictor, graph, np.array([[1], [2], [3]]))[0]
    assert best.redrawn == (1 if good else 3)  # as often as it needs, or as it may
    np.testing.assert_allclose(best.states, (plan if good else bad).states, atol=1e-5)


def test_pieces_that_resist_are_drawn_many_at_once_and_the_best_is_kept(
    planner: Planner, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = plan.states.copy()
    states[100:106, :2] = [-2.0, 4.5]
    bad, calls = Plan(states, GOAL, route=plan.route), []

    def drawn(denoiser, parts, routes, lengths, seeds):
        calls.append(seeds.tolist())
        return [(plan if seed == 20 else bad).states[parts[0].first : parts[0].stop + 1] for seed in seeds]

    monkeypatch.setattr("vhdiffuser.planner.parts.draw_parts", drawn)
    seeds = np.arange(1000)[:, None]
    best = mended(planner._denoiser(), [bad], planner.length_predictor, planner.length_predictor.routes, seeds)[0]
    np.testing.assert_allclose(best.states, plan.states, atol=1e-5)
    assert [seed for call in calls for seed in call] == list(range(best.redrawn))  # each once, in order
    assert len(calls) < best.redrawn
    assert 20 in calls[-1]  # a good one ends it


def test_every_draw_belongs_to_one_round() -> None:
    for draws in (0, 1, ALONE, ALONE + 1, 999, 10_000):
        ranges = list(rounds(draws))
        assert [draw for first, stop in ranges for draw in range(first, stop)] == list(range(draws))
        assert all(stop - first == 1 for first, stop in ranges[:ALONE])
        assert max((stop - first for first, stop in ranges), default=0) <= TOGETHER


def test_a_plan_without_fault_stays_as_it_is(planner: Planner, plan: Plan) -> None:
    graph = planner.length_predictor.routes
    best = mended(planner._denoiser(), [plan], ByGraph(graph), graph, np.array([[1], [2]]))[0]
    assert best.redrawn == 0
    assert best == plan


def test_mended_plans_are_independent_of_their_batch(planner: Planner) -> None:
    many = planner.with_options(candidates=3)
    starts, goals = np.stack([START, START, [9, -5, 0, 0]]), np.stack([GOAL, [-7, -5], GOAL])
    lengths, seeds = np.array([301, 20, 160]), np.array([3, 4, 5])  # the second is drawn whole
    together = many.plan_batch(starts, goals, lengths, seeds=seeds)
    assert together[0].redrawn == 2  # its network is untrained
    for row, plan in enumerate(together):
        alone = many.plan_batch(starts[[row]], goals[[row]], lengths[[row]], seeds=seeds[[row]])[0]
        assert plan.redrawn == alone.redrawn
        np.testing.assert_allclose(plan.states, alone.states, rtol=1e-3, atol=1e-2)
