"""Composed plans: windows cover and overlap, blending is a weighted mean, routes are kept to, ends are exact."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import ClippedLengthWarning, VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig, RelayGraphConfig
from vhdiffuser.length.network import LengthNetwork
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.compose import Composed, Motion, Windows, rough_chain, window_starts
from vhdiffuser.planner.planner import Planner
from vhdiffuser.types import EnvSpec, FloatArray

SPEC = EnvSpec(
    name="corridor",
    observation_dim=4,
    action_dim=2,
    state_dims=(0, 1, 2, 3),
    state_names=("x", "y", "vx", "vy"),
    goal_dims=(0, 1),
    velocity_dims=(2, 3),
    control_dt=0.1,
    epsilon=0.05,
    T_max=64,
    L_min=8,
)
NORMALIZER = Normalizer(np.array([-10, -10, -4, -4], np.float32), np.array([10, 10, 4, 4], np.float32))
CONFIG = PlannerConfig(dim=8, dim_mults=(1, 2, 4), stride=2, diffusion_steps=32)
STANDING = Motion([0, 1], [], np.empty(0), np.empty(0))
"""Of knots without velocities."""
WAY = np.array([[-0.9, -0.5], [0.9, -0.5], [0.9, 0.5], [-0.9, 0.5]])
"""A corridor around a wall, normalised: 4.6 long."""


def line(count: int) -> FloatArray:
    """(1, count, 2) places along the x axis."""
    return np.stack([np.linspace(-1, 1, count), np.zeros(count)], axis=1)[None].astype(np.float32)


def corridor() -> RouteGraph:
    """Walks there and back along the corridor at 0.01 a step, in episodes of 60 states."""
    rng = np.random.default_rng(0)
    lengths = np.concatenate([[0], np.cumsum(np.abs(np.diff(WAY, axis=0)).sum(axis=1))])
    at = np.arange(0, lengths[-1], 0.01)
    way = np.stack([np.interp(at, lengths, column) for column in WAY.T], axis=1)
    firsts = rng.integers(len(way) - 60, size=400)
    parts = [way[first : first + 60][:: rng.choice([-1, 1])] + rng.normal(0, 0.01, 2) for first in firsts]
    last = np.repeat(np.arange(1, 401) * 60 - 1, 60)
    config = RelayGraphConfig(landmarks=120, moves=100_000)
    return RouteGraph.build(np.concatenate(parts).astype(np.float32), last, SPEC.T_max, config)


@pytest.fixture(scope="module")
def graph() -> RouteGraph:
    return corridor()


@pytest.fixture
def planner(graph: RouteGraph) -> Planner:
    torch.manual_seed(0)
    config = LengthConfig(network=NetworkConfig(features=8, width=16, depth=1))
    network = LengthNetwork(SPEC.state_dim, SPEC.goal_dims, len(config.quantiles), config.network)
    predictor = LengthPredictor(network, SPEC, config, NORMALIZER, graph)
    unet = TemporalUnet(SPEC.state_dim, CONFIG.dim, CONFIG.dim_mults)
    options = PlanningOptions(steps=4, piece=24, gamma=1.0, smoothing=0.0)  # its velocities are nonsense
    return Planner(unet, CONFIG, SPEC, NORMALIZER, predictor, options=options, outside="ignore")


@pytest.mark.parametrize("P", [4, 5, 9, 12])
def test_windows_cover_every_knot_and_overlap_by_half(P: int) -> None:
    for K in range(2, 80):
        starts = window_starts(K, P)
        assert starts[0] == 0
        if K <= P:
            assert len(starts) == 1
            continue
        assert starts[-1] == K - P
        assert max(np.diff(starts)) <= P // 2 + 1
        assert len(starts) <= (K - P) / (P // 2) + 2  # grows linearly with the distance


def test_blending_is_the_weighted_mean_and_keeps_what_windows_agree_on() -> None:
    rng = np.random.default_rng(0)
    chain = rng.normal(size=(2, 20, 3)).astype(np.float32)
    counts = np.array([20, 13])
    windows = Windows.over(counts, 6, 20, 8)
    agreed = windows.blend(chain[windows.chain[:, None], windows.knots])
    np.testing.assert_allclose(agreed[0], chain[0], rtol=1e-5)
    np.testing.assert_allclose(agreed[1, :13], chain[1, :13], rtol=1e-5)
    assert (agreed[1, 13:] == 0).all()
    predicted = rng.normal(size=(len(windows.chain), 6, 3)).astype(np.float32)
    blended = windows.blend(predicted)
    total, weights = np.zeros(3), 0.0
    for window, (of, knots) in enumerate(zip(windows.chain, windows.knots, strict=True)):
        for place, knot in enumerate(knots.tolist()):
            if int(of) == 0 and knot == 9:
                weight = max(2 * min(place / 5, 1 - place / 5), 1e-3)
                total += weight * predicted[window, place]
                weights += weight
    np.testing.assert_allclose(blended[0, 9], total / weights, rtol=1e-5)


def test_windows_see_clean_ends_and_the_tube_holds() -> None:
    """A network that throws knots far off the route is brought back to its radius; ends stay where they were."""
    seen: list[FloatArray] = []

    def thrown(tau: FloatArray, level: int) -> FloatArray:
        seen.append(tau)
        return tau + 5.0

    K, P = 17, 8
    rough, route = line(K), line(400)
    dims = ([0, 1], [0, 1])
    clean = Composed(thrown, rough, route, 0.1, np.array([K]), P, 8, dims, STANDING)
    tau = np.full((1, K, 2), 0.3, np.float32)
    tau0 = clean(tau, 0)
    for window, knots in zip(seen[0], clean.windows.knots, strict=True):
        np.testing.assert_array_equal(window[[0, P - 1]], rough[0, knots[[0, P - 1]]])  # clean
        assert (window[1 : P - 1] == np.float32(0.3)).all()  # noisy
    assert np.abs(tau0[..., 1]).max() <= 0.1 + 1e-6
    assert clean.estimate is tau0


def test_a_rough_chain_moves_evenly_along_the_route() -> None:
    route = Route(np.array([[-0.5, 0.0], [0.5, 0.0]]), np.array([0.0, 40.0]), known=True)
    start = np.float32([-0.5, 0.0, 0.7, 0.0])
    chain = rough_chain(route, start, 21, Motion.at(0.2, SPEC, NORMALIZER, 0))
    np.testing.assert_allclose(chain[:, 0], np.linspace(-0.5, 0.5, 21), atol=1e-6)
    np.testing.assert_array_equal(chain[0], start)
    # 0.05 of 10 units each knot of 0.2 s: 2.5 units a second, of 4.
    np.testing.assert_allclose(chain[1:, 2], 2.5 / 4, atol=1e-5)


def test_a_knot_that_is_moved_back_moves_as_its_new_neighbours_say() -> None:
    K = 9
    motion = Motion.at(0.2, SPEC, NORMALIZER, 0)
    chain = np.zeros((1, K, 4), np.float32)
    chain[0, :, 0] = np.linspace(-0.4, 0.4, K)
    chain[0, :, 2] = 0.9  # what the network says
    chain[0, 4, 1] = 0.5  # far off the route
    route = line(401)
    dims = ([0, 1, 2, 3], [0, 1])
    clean = Composed(lambda tau, level: tau, chain, route, 0.1, np.array([K]), K, K, dims, motion)
    tau0 = clean(chain, 0)[0]
    assert float(tau0[4, 1]) == pytest.approx(0.1)
    assert float(tau0[4, 2]) == pytest.approx(0.1 * 10 / 4 / 0.2)  # 1 unit a knot, of 4 units a second
    assert (tau0[[1, 2, 6, 7], 2] == np.float32(0.9)).all()


def test_far_plans_have_any_length_exact_ends_and_keep_to_the_corridor(planner: Planner) -> None:
    start, goal = np.array([-9.0, -5.0, 0.0, 0.0]), np.array([-9.0, 5.0])
    plan = planner.plan(start, goal, length=301)  # T_max is 64
    assert plan.length == 301
    np.testing.assert_array_equal(plan.states[0], start.astype(np.float32))
    np.testing.assert_array_equal(plan.states[-1, :2], goal.astype(np.float32))
    assert plan.route is not None
    assert plan.route.shape[1] == 2
    # The network is untrained, but no knot leaves the tube.
    knots = plan.states[:: CONFIG.stride]
    assert knots[:, 0].max() > 7
    wall = (np.abs(knots[:, 1]) < 2.5) & (knots[:, 0] < 5)
    assert not wall.any()


def test_the_predicted_length_is_the_routes_and_no_longer_cut(planner: Planner, graph: RouteGraph) -> None:
    start, goal = np.array([-9.0, -5.0, 0.0, 0.0]), np.array([-9.0, 5.0])
    steps = float(planner.predict_steps(start[None], goal[None])[0])
    scale = float(planner.length_predictor._far_scale[0])  # type: ignore[union-attr]
    by_graph = float(graph.steps(np.array([[-0.9, -0.5]]), np.array([[-0.9, 0.5]]))[0])
    assert steps == pytest.approx(scale * by_graph, rel=1e-4)
    assert int(planner.predict_lengths(start[None], goal[None])[0]) == int(np.ceil(steps + 1))
    route = planner.length_predictor.route(start, goal)  # type: ignore[union-attr]
    assert route.known
    assert route.total == pytest.approx(steps, rel=1e-4)
    np.testing.assert_allclose(route.places[[0, -1]], [start[:2], goal], atol=1e-4)


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm++"])
def test_composed_plans_are_independent_of_their_batch(planner: Planner, sampler: str) -> None:
    planner = planner.with_options(sampler=sampler)
    starts = np.array([[-9, -5, 0, 0], [9, -5, 0, 0], [0, -5, 0, 0], [-9, 5, 0, 0]], float)
    goals = np.array([[-9, 5], [-9, 5], [2, -5], [-9, -5]], float)
    lengths = np.array([280, 151, 20, 290])  # the third is drawn whole
    seeds = np.array([3, 1, 4, 1])
    together = planner.plan_batch(starts, goals, lengths, seeds=seeds)
    for number, plan in enumerate(together):
        alone = planner.plan(starts[number], goals[number], int(lengths[number]), seed=int(seeds[number]))
        np.testing.assert_allclose(plan.states, alone.states, rtol=1e-3, atol=1e-3)
    assert together[2].route is None
    whole = planner.with_options(piece=0).plan(starts[2], goals[2], 20, seed=4)
    np.testing.assert_allclose(together[2].states, whole.states, rtol=1e-5, atol=1e-5)


def test_without_a_way_plans_are_drawn_whole_and_no_longer_than_T_max(planner: Planner) -> None:
    one_way = corridor()
    keep = one_way.places[one_way.starts][:, 0] < 0.0  # cut the corridor in two
    cut = RouteGraph(
        one_way.places, one_way.starts[keep], one_way.stops[keep], one_way.hops[keep], one_way.sparsity,
        one_way.radius, one_way.join, one_way.config,
    )  # fmt: skip
    planner.length_predictor.routes = cut  # type: ignore[union-attr]
    start, goal = np.array([-9.0, -5.0, 0.0, 0.0]), np.array([-9.0, 5.0])
    planner = planner.with_options(gamma=100.0)
    with pytest.warns(ClippedLengthWarning):
        plan = planner.plan(start, goal)
    assert plan.length == SPEC.T_max
    assert plan.route is None
    with pytest.raises(VhdError, match="needs a route"):
        planner.plan(start, goal, length=300)


def test_pieces_of_fewer_than_four_knots_are_refused(planner: Planner) -> None:
    with pytest.raises(VhdError, match="at least 4 knots"):
        planner.with_options(piece=7)
    with pytest.raises(VhdError, match="piece must be"):
        planner.with_options(piece=-1)


def test_windows_settle_into_one_straight_line() -> None:
    """Pieces that each draw straight lines, joined at every step, straighten a zigzag within the tube's width."""
    K, P = 33, 8
    zigzag, route = line(K), line(400)
    zigzag[0, 1:-1:2, 1], zigzag[0, 2:-1:2, 1] = 0.05, -0.05

    def straight(tau: FloatArray, level: int) -> FloatArray:
        """tau^0: a straight line between the first and the last knot of what it sees."""
        share = np.linspace(0, 1, tau.shape[1], dtype=np.float32)[:, None]
        return tau[:, :1] + share * (tau[:, -1:] - tau[:, :1])

    clean = Composed(straight, zigzag, route, 0.2, np.array([K]), P, P, ([0, 1], [0, 1]), STANDING)
    tau = np.random.default_rng(0).normal(size=(1, K, 2)).astype(np.float32)
    bends = [np.abs(np.diff(clean(tau, level)[..., 1], n=2, axis=1)).max() for level in (30, 20, 10, 5, 1)]
    assert bends[-1] < 0.05 * 0.2
    assert bends[-1] < bends[0]
