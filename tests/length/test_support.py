"""Where the data is, from states alone: an L-shaped corridor leaves a corner of its box empty."""

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig, RelayGraphConfig
from vhdiffuser.length.network import LengthNetwork
from vhdiffuser.length.predictor import OFF_SUPPORT, SUPPORT_FILE, LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import save_model

CONFIG = LengthConfig(network=NetworkConfig(features=4, width=16, depth=1))
GRAPH = RelayGraphConfig(landmarks=100, moves=100_000)
SPEC = EnvSpec("corner", 3, 0, (0, 1, 2), ("x", "y", "charge"), (0, 1), None, 0.1, 0.05, 300, 4)
NORMALIZER = Normalizer(np.array([0, 0, 0], np.float32), np.array([10, 10, 1], np.float32))
EMPTY = np.array([[7.0, 3.0], [9.0, 1.0], [5.0, 5.0], [9.5, 5.0]])
"""Within the data's limits, and never visited."""
VISITED = np.array([[0.3, 1.0], [0.5, 6.0], [0.4, 9.5], [4.0, 9.6], [9.5, 9.5]])


@pytest.fixture(scope="module")
def graph() -> RouteGraph:
    """Walks up the left side and along the top, one way only, 1 unit wide."""
    rng = np.random.default_rng(0)
    walks = []
    for aside in rng.uniform(0, 1, 150):
        up = np.stack([np.full(100, aside), np.linspace(0, 10 - aside, 100)], axis=1)
        along = np.stack([np.linspace(aside, 10, 100), np.full(100, 10 - aside)], axis=1)
        walks.append(np.concatenate([up, along]))
    points = NORMALIZER.select((0, 1)).normalize(np.concatenate(walks).astype(np.float32))
    return RouteGraph.build(points, np.repeat(np.arange(1, 151) * 200 - 1, 200), SPEC.T_max, GRAPH)


def network() -> nn.Module:
    return LengthNetwork(3, (0, 1), 3, CONFIG.network)


def states(places: np.ndarray) -> np.ndarray:
    return np.concatenate([places, np.full((len(places), 1), 0.5)], axis=1)


def test_support_is_high_on_the_data_and_low_in_its_empty_corner(graph: RouteGraph) -> None:
    predictor = LengthPredictor(network(), SPEC, CONFIG, NORMALIZER, graph)
    assert (predictor.support(VISITED) > OFF_SUPPORT).all()
    assert (predictor.support(EMPTY) < OFF_SUPPORT).all()
    np.testing.assert_array_equal(predictor.support(states(EMPTY)), predictor.support(EMPTY))
    away = predictor.support(np.array([[2.0, 5.0], [4.0, 5.0], [8.0, 5.0]]))
    assert (np.diff(away) < 0).all(), "the further, the less"
    landmark = NORMALIZER.select((0, 1)).unnormalize(graph.places[:1])
    assert predictor.support(landmark) == pytest.approx(1.0, abs=1e-3)


def test_reachable_asks_for_both_ends_and_for_observed_moves(graph: RouteGraph) -> None:
    predictor = LengthPredictor(network(), SPEC, CONFIG, NORMALIZER, graph)
    low, high = np.array([0.5, 1.0, 0.5]), np.array([9.0, 9.5])
    assert predictor.reachable(low, high)
    assert not predictor.reachable(np.array([9.0, 9.5, 0.5]), low[:2]), "nobody ever went back"
    np.testing.assert_array_equal(predictor.reachable(low, np.concatenate([VISITED[2:], EMPTY])), [1, 1, 1, 0, 0, 0, 0])


def test_spread_grows_off_the_support_and_only_there(graph: RouteGraph) -> None:
    plain = network()
    without, with_support = (LengthPredictor(plain, SPEC, CONFIG, NORMALIZER, landmarks=g) for g in (None, graph))
    start = states(VISITED[:1])
    for places, grows in ((VISITED, False), (EMPTY, True)):
        before, after = without.predict_spread(start, places), with_support.predict_spread(start, places)
        np.testing.assert_array_equal(before[0], after[0])
        assert ((after[1] > before[1] + 1) == grows).all()
    # Twice the steps to the support's edge, which lies two radii from the nearest landmark.
    place = EMPTY[:1]
    distance = (1 / with_support.support(place) - 1 - 2) * graph.join
    grown = with_support.predict_spread(start, place)[1] - without.predict_spread(start, place)[1]
    np.testing.assert_allclose(grown, 2 * distance, rtol=1e-3)


def test_landmarks_beside_a_file_give_support_and_no_routes(graph: RouteGraph, tmp_path: Path) -> None:
    made = LengthPredictor(network(), SPEC, CONFIG, NORMALIZER)
    path = tmp_path / "length.safetensors"
    save_model(path, made.network.tensors, made.header())
    with pytest.raises(VhdError, match="the extent of the data is unknown"):
        LengthPredictor.load(path).support(EMPTY)
    graph.save(tmp_path / SUPPORT_FILE, SPEC, NORMALIZER, "abc")
    loaded = LengthPredictor.load(path)
    assert (loaded.support(EMPTY) < OFF_SUPPORT).all()
    assert loaded.routes is None, "steps stay the network's"
    np.testing.assert_allclose(
        loaded.predict_steps(states(VISITED), VISITED[0]), made.predict_steps(states(VISITED), VISITED[0]), rtol=1e-5
    )
    other = Normalizer(NORMALIZER.low - 1, NORMALIZER.high)
    graph.save(tmp_path / SUPPORT_FILE, SPEC, other, "abc")
    with pytest.raises(DataError, match="made from other data"):
        LengthPredictor.load(path)


def test_quasimetric_steps_keep_the_triangle_inequality_whatever_the_network(graph: RouteGraph) -> None:
    predictor = LengthPredictor(network(), SPEC, CONFIG, NORMALIZER, graph)
    rng = np.random.default_rng(0)
    s, h, g = (rng.uniform(0, 10, (200, 2)).astype(np.float32) for _ in range(3))
    resting = [np.concatenate([places, 0 * places[:, :1]], axis=1) for places in (s, h, g)]
    charged = np.concatenate([s, rng.uniform(0, 1, (200, 1))], axis=1)
    for start in (resting[0], charged):
        direct, first = predictor.quasimetric_steps(start, g), predictor.quasimetric_steps(start, h)
        assert (direct <= first + predictor.quasimetric_steps(resting[1], g) + 1e-2).all()
        assert (predictor.predict_steps(start, g) > predictor.predict_steps(start, h) + 1).any()
    np.testing.assert_allclose(predictor.quasimetric_steps(resting[2], g), 0, atol=1e-3)
    assert predictor.quasimetric_steps(resting[0][0], g).shape == (200,)
