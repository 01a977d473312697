"""Routes: joined from observed moves alone, of any length, through the middle of the data, and kept on disk."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from length_toys import toy_spec

from vhdiffuser.errors import DataError
from vhdiffuser.length.centring import _in_box, to_the_middle
from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.hops import centred
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.weights.format import load_model, save_model

SPEED = 0.01
CONFIG = RelayGraphConfig(landmarks=120, moves=200_000)


def u_shaped_walks(length: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Two corridors side by side, joined at one end: pieces of walks at constant speed, to and fro, none of them the
    whole way. The way has 500 steps from end to end, an episode `length` states."""
    rng = np.random.default_rng(0)
    along = np.concatenate([np.linspace(-1, 1, 201), np.ones(99), np.linspace(1, -1, 201)])
    aside = np.concatenate([np.full(201, -0.5), np.linspace(-0.49, 0.49, 99), np.full(201, 0.5)])
    way = np.stack([along, aside], axis=1)
    parts = []
    for _ in range(600):
        first = rng.integers(len(way) - length)
        part = way[first : first + length] + rng.normal(0, 0.02, 2)
        parts.append(part[:: rng.choice([-1, 1])])
    return np.concatenate(parts), np.repeat(np.arange(1, 601) * length - 1, length)


@pytest.fixture(scope="module")
def graph() -> RouteGraph:
    points, last = u_shaped_walks()
    return RouteGraph.build(points.astype(np.float32), last, 120, CONFIG)


def test_a_route_leads_around_the_wall_and_counts_its_steps(graph: RouteGraph) -> None:
    start, goal = np.array([-0.9, -0.5]), np.array([-0.9, 0.5])  # 1 apart through the wall, 480 steps round
    route = graph.path(start, goal)
    assert route.known
    np.testing.assert_array_equal(route.places[[0, -1]], [start, goal])
    assert (np.diff(route.steps) > 0).all()
    assert 0.85 * 480 < route.total < 1.35 * 480  # beyond T_max = 120 and beyond every episode
    assert route.places[:, 0].max() > 0.9
    jumps = np.abs(np.diff(route.places, axis=0)).max(axis=1)
    assert jumps.max() < 0.2  # never through the wall, which is 1 wide
    assert graph.steps(start[None], goal[None]) == pytest.approx(route.total)


def test_places_along_a_route_are_linear_between_its_own() -> None:
    route = Route(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 4.0]]), np.array([0.0, 10.0, 30.0]), known=True)
    np.testing.assert_allclose(route.at(np.array([5.0, 20.0, 30.0])), [[1, 0], [2, 2], [2, 4]])
    assert route.total == 30.0


def test_routes_prefer_where_the_data_is_dense() -> None:
    """Two ways of the same length, one of them with a tenth of the data."""
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, 101)
    parts = []
    for number in range(220):
        side = 1 if number % 11 else -1  # most go one way
        way = np.stack([x, side * 0.5 * np.sin((x + 1) / 2 * np.pi)], axis=1) + rng.normal(0, 0.01, 2)
        parts.append(way)
    points, last = np.concatenate(parts).astype(np.float32), np.repeat(np.arange(1, 221) * 101 - 1, 101)
    graph = RouteGraph.build(points, last, 120, CONFIG)
    route = graph.path(np.array([-1.0, 0.0]), np.array([1.0, 0.0]))
    assert route.places[:, 1].max() > 0.4
    assert route.places[:, 1].min() > -0.1


def test_landmarks_stand_at_the_mean_of_what_is_around_them() -> None:
    crowd = np.concatenate([np.linspace(0, 1, 11), np.linspace(5, 6, 11)])[:, None]
    places, radius = centred(np.array([[0.0], [6.0], [100.0]]), crowd)
    np.testing.assert_allclose(places[:, 0], [0.5, 5.5, 100.0])
    assert radius == pytest.approx(0.5)


def test_moves_in_one_direction_only_give_no_way_back() -> None:
    points = np.tile(np.linspace(-1, 1, 201)[:, None], (30, 1)).astype(np.float32)
    last = np.repeat(np.arange(1, 31) * 201 - 1, 201)
    graph = RouteGraph.build(points, last, 300, CONFIG)
    ends = np.array([[-0.9], [0.9]])
    forth, back = graph.steps(ends, ends[::-1])
    assert 0.9 * 180 < forth < 1.2 * 180
    assert np.isinf(back)
    unknown = graph.path(ends[1], ends[0])
    assert not unknown.known
    assert len(unknown.places) == 2


def test_a_saved_graph_gives_the_same_routes(graph: RouteGraph, tmp_path: Path) -> None:
    normalizer = Normalizer(np.full(2, -1, np.float32), np.full(2, 1, np.float32))
    path = graph.save(tmp_path / "route.safetensors", toy_spec(2, 120, 0.05), normalizer, "abc")
    again, header = RouteGraph.load(path)
    assert header.normalizer == normalizer.to_json()
    assert path.stat().st_size < 300_000
    start, goal = np.array([-0.9, -0.5]), np.array([0.0, 0.5])
    np.testing.assert_array_equal(again.path(start, goal).places, graph.path(start, goal).places)
    np.testing.assert_array_equal(again.path(start, goal).steps, graph.path(start, goal).steps)


def test_a_hop_beyond_the_landmarks_is_refused(graph: RouteGraph) -> None:
    with pytest.raises(DataError, match="120 landmarks"):
        RouteGraph(graph.places, graph.starts, graph.stops + 1000, graph.hops, graph.sparsity, 0.1, 1, CONFIG)


def corridor(landmarks: int, centring: float, scale: float = 1.0) -> RouteGraph:
    """A corridor 0.4 wide with data all over it: the middle is at 0."""
    rng = np.random.default_rng(0)
    aside = rng.uniform(-0.2, 0.2, 400)
    walks = [np.stack([np.linspace(-1, 1, 201), np.full(201, y)], axis=1)[:: rng.choice([-1, 1])] for y in aside]
    points, last = np.concatenate(walks).astype(np.float32), np.repeat(np.arange(1, 401) * 201 - 1, 201)
    config = RelayGraphConfig(landmarks=landmarks, moves=200_000, centring=centring)
    return RouteGraph.build(points, last, 120, config, scale)


START, GOAL = np.array([-0.9, 0.15], np.float32), np.array([0.9, 0.15], np.float32)


def aside(graph: RouteGraph) -> float:
    """How far its route leaves the corridor's middle, away from the ends."""
    places = graph.path(START, GOAL).places
    return float(np.abs(places[np.abs(places[:, 0]) < 0.6, 1]).max())


def test_centred_routes_keep_to_the_middle_and_to_their_steps() -> None:
    start, goal = START, GOAL
    plain, middle = (corridor(200, centring).path(start, goal) for centring in (0.0, 0.3))
    assert np.abs(middle.places[np.abs(middle.places[:, 0]) < 0.6, 1]).max() < 0.6 * np.abs(plain.places[:, 1]).max()
    assert middle.total == pytest.approx(plain.total)
    np.testing.assert_array_equal(middle.places[[0, -1]], [start, goal])
    gaps = np.linalg.norm(np.diff(middle.places, axis=0), axis=1)
    assert gaps.max() < 1.2 * gaps.mean(), "places are evenly apart, as their steps are"


def test_how_far_routes_are_centred_depends_on_units_and_not_on_the_number_of_landmarks() -> None:
    """Many landmarks have small radii: in radii, routes through a small maze kept to no middle at all."""
    for landmarks in (100, 200, 400):
        graph = corridor(landmarks, centring=0.3)
        assert aside(graph) < 0.05, (landmarks, graph.radius)
    narrow = corridor(400, centring=0.05)
    assert aside(narrow) > 0.08, "0.05 does not reach across a corridor 0.4 wide"
    metres = corridor(400, centring=3.0, scale=10.0)
    np.testing.assert_allclose(metres.centring, 0.3)
    np.testing.assert_array_equal(metres.path(START, GOAL).places, corridor(400, centring=0.3).path(START, GOAL).places)


def test_files_that_count_centring_in_radii_keep_their_routes(tmp_path: Path) -> None:
    graph = corridor(200, centring=0.3)
    path = graph.save(
        tmp_path / "new.safetensors", toy_spec(2, 120, 0.05), Normalizer(np.full(2, -1.0), np.ones(2)), "data"
    )
    tensors, header = load_model(path, "route")
    assert header.config["centring"] == [0.3, 0.3]
    radii = 0.3 / graph.radius
    old = {**header.config, "graph": {**header.config["graph"], "centring": radii}}
    del old["centring"]
    save_model(tmp_path / "old.safetensors", tensors, replace(header, config=old))
    for name in ("new", "old"):
        again, _ = RouteGraph.load(tmp_path / f"{name}.safetensors")
        np.testing.assert_allclose(again.centring, 0.3)
        np.testing.assert_allclose(again.path(START, GOAL).places, graph.path(START, GOAL).places, atol=1e-6)
    save_model(tmp_path / "bad.safetensors", tensors, replace(header, config={**header.config, "centring": [0.3]}))
    with pytest.raises(DataError, match="1 numbers for 2 dimensions"):
        RouteGraph.load(tmp_path / "bad.safetensors")


def test_a_path_moves_to_the_mean_of_the_landmarks_in_its_box() -> None:
    rng = np.random.default_rng(0)
    places, reach = rng.uniform(-1, 1, (300, 2)).astype(np.float32), np.array([0.3, 0.2])
    points = rng.uniform(-2, 2, (40, 2)).astype(np.float32)  # some have no landmark near
    near = _in_box((points / reach).astype(np.float32), (places / reach).astype(np.float32).T)
    wanted = [(np.abs(place - point) <= reach).all() for point in points.astype(np.float64) for place in places]
    np.testing.assert_array_equal(near.ravel(), wanted)
    assert not near.any(axis=1).all()

    lone = np.array([[5.0, 0.0], [6.0, 0.0], [8.0, 0.0]])  # far from every landmark: only spaced evenly
    np.testing.assert_allclose(to_the_middle(lone, places, reach, 1.0), [[5, 0], [6, 0], [7, 0], [8, 0]], atol=1e-6)
