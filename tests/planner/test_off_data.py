"""Starts and goals off the data: what their distances are at least, which plans a route guides, and what stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from corridor_toys import CONFIG, NORMALIZER, SPEC, corridor, corridor_planner

from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.length.hops import nearest_of
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import OFF_DATA, RouteGraph
from vhdiffuser.planner.planner import Planner

START = np.array([-5.0, -5.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def graph() -> RouteGraph:
    return corridor()


@pytest.fixture(scope="module")
def planner(graph: RouteGraph) -> Planner:
    planner = corridor_planner(graph)
    predictor = planner.length_predictor
    assert isinstance(predictor, LengthPredictor)
    predictor.network = lambda starts, goals: np.full((len(starts), 3), 0.3, np.float32)  # 19.2 steps, anywhere
    predictor.__dict__["_far_scale"] = np.ones(3, np.float32)
    return planner


def beside(graph: RouteGraph, radii: float) -> np.ndarray:
    """A goal beside the corridor, so many radii from the nearest landmark below it."""
    near = graph.places[graph.region(np.array([[0.0, -0.5]], np.float32))[0]]
    return 10 * (near - [0.0, radii * graph.radius])


def test_a_distance_off_the_data_is_at_least_nine_tenths_of_the_routes(planner: Planner, graph: RouteGraph) -> None:
    goals = np.stack([beside(graph, OFF_DATA - 0.1), beside(graph, OFF_DATA + 0.1)])
    starts = np.stack([START, START])
    by_route = graph.steps(starts[:, :2] / 10, goals / 10)
    assert (by_route > 20).all()
    near, far = planner.predict_steps(starts, goals)
    assert near == pytest.approx(0.3 * SPEC.T_max)  # the network's word
    assert far == pytest.approx(0.9 * by_route[1], rel=1e-5)
    back = planner.predict_steps(np.hstack([goals, np.zeros((2, 2))]), starts[:, :2])  # starts count as goals do
    assert back[0] == pytest.approx(0.3 * SPEC.T_max)
    assert back[1] > 20
    assert planner.predict_lengths(starts, goals).tolist() == [
        max(SPEC.L_min, int(np.ceil(near + 1))),
        int(np.ceil(far + 1)),
    ]


def test_a_route_that_is_a_long_detour_by_the_network_does_not_count(planner: Planner, graph: RouteGraph) -> None:
    predictor = planner.length_predictor
    assert isinstance(predictor, LengthPredictor)
    goal = beside(graph, OFF_DATA + 0.1)[None]
    least = float(predictor.least_steps(START[None], goal)[0])
    for share, counts in ((0.3, False), (0.35, True)):
        near = LengthPredictor(
            lambda s, g, f=share * least / SPEC.T_max: np.full((len(s), 3), f, np.float32),
            SPEC, predictor.config, NORMALIZER, graph,
        )  # fmt: skip
        near.__dict__["_far_scale"] = np.ones(3, np.float32)
        other = Planner(planner.network, CONFIG, SPEC, NORMALIZER, near, options=planner.options, outside="ignore")
        steps = float(other.predict_steps(START[None], goal)[0])
        assert steps == pytest.approx(least if counts else share * least, rel=1e-5)


def test_a_longer_distance_of_the_network_stays(planner: Planner, graph: RouteGraph) -> None:
    predictor = planner.length_predictor
    assert isinstance(predictor, LengthPredictor)
    goal = beside(graph, OFF_DATA + 0.1)[None]
    least = predictor.least_steps(START[None], goal)
    assert 20 < float(least[0]) < SPEC.T_max
    sure = LengthPredictor(lambda s, g: np.ones((len(s), 3), np.float32), SPEC, predictor.config, NORMALIZER, graph)
    other = Planner(
        planner.network, CONFIG, SPEC, NORMALIZER, sure, options=planner.options, outside="ignore"
    ).predict_steps(START[None], goal)
    np.testing.assert_array_equal(other, sure.predict_steps(START[None], goal))
    np.testing.assert_array_equal(predictor.least_steps(START, np.stack([goal[0], START[:2]])), [least[0], 0.0])


def test_a_short_plan_has_a_route_only_off_the_data(planner: Planner, graph: RouteGraph) -> None:
    on, off = beside(graph, OFF_DATA - 0.1), beside(graph, OFF_DATA + 0.1)
    length = planner.options.piece  # longer plans always have one
    inside, outside = planner.plan_batch(np.stack([START, START]), np.stack([on, off]), length, seeds=7)
    assert inside.route is None
    assert outside.route is not None
    np.testing.assert_array_equal(outside.states[-1, :2], off.astype(np.float32))
    whole = planner.with_options(piece=0).plan(START, on, length, seed=7)
    np.testing.assert_allclose(inside.states, whole.states, rtol=1e-5, atol=1e-5)  # as if there were no routes


def test_a_network_without_absolute_positions_is_held_by_its_route_anyway(graph: RouteGraph) -> None:
    """Its plans and lengths do not depend on where the data is."""
    framed = corridor_planner(graph)
    config = replace(CONFIG, frame=10.0)
    unet = TemporalUnet(SPEC.state_dim, CONFIG.dim, CONFIG.dim_mults)
    predictor = framed.length_predictor
    assert isinstance(predictor, LengthPredictor)
    other = Planner(unet, config, SPEC, NORMALIZER, predictor, options=framed.options, outside="ignore")
    goal = beside(graph, OFF_DATA + 1)
    np.testing.assert_array_equal(
        other.predict_steps(START[None], goal[None]), predictor.predict_steps(START[None], goal[None])
    )
    assert other.plan(START, goal, other.options.piece).route is None


def test_a_landmark_without_hops_is_replaced_by_a_close_neighbour(graph: RouteGraph) -> None:
    at = int(graph.region(np.array([[-0.9, 0.5]], np.float32))[0])  # where the corridor ends
    keep = graph.stops != at  # nothing enters it any more
    alone = RouteGraph(
        graph.places, graph.starts[keep], graph.stops[keep], graph.hops[keep], graph.sparsity, graph.radius,
        graph.join, graph.config,
    )  # fmt: skip
    start, goal = np.float32([0.0, 0.5]), graph.places[at]
    assert np.isinf(alone.between(alone.region(start[None]), np.array([at]))).all()
    _, enters = alone.joining(np.array([at]), np.array([at]))
    assert enters[0] != at
    assert np.abs(graph.places[enters[0]] - goal).max() <= 2 * graph.radius
    route = alone.path(start, goal)
    assert route.known
    np.testing.assert_array_equal(route.places[-1], goal)
    assert alone.steps(start[None], goal[None])[0] == pytest.approx(route.total)
    assert route.total == pytest.approx(graph.path(start, goal).total, rel=0.3)
    np.testing.assert_array_equal(graph._joins, [np.arange(len(graph.places))] * 2)  # here, all landmarks have hops


def test_the_nearest_of_chosen_landmarks_within_a_limit() -> None:
    places = np.array([[0.0], [1.0], [3.0], [9.0]])
    assert nearest_of(places, np.array([0, 0]), 3.0).tolist() == [0, 0, 0, 3]
    assert nearest_of(places, np.array([1, 3]), 2.0).tolist() == [1, 1, 1, 3]
    assert nearest_of(places, np.array([], int), 5.0).tolist() == [0, 1, 2, 3]
