"""The diagnostics by bands and of the support, where their answers are known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from vhdiffuser.benchmark.bands import AxisGrid, Banded, compare, draw_banded, evaluate_bands, fitted_speed
from vhdiffuser.benchmark.support_eval import auroc, draw_places, evaluate_support
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import FloatArray
from vhdiffuser.weights.places import shipped_path

UMAZE = get_environment("maze2d-umaze")
UNIT = Normalizer(np.full(4, -5, np.float32), np.full(4, 5, np.float32))


class AlongAxes:
    """Knows |dx| + |dy| times a factor, over 0.0385 units a step; backwards in x takes half as long again."""

    def __init__(self, factor: float = 1.0, uphill: float = 0.0) -> None:
        self.factor, self.uphill, self.tensors = factor, uphill, {}

    def __call__(self, s: FloatArray, g: FloatArray) -> FloatArray:
        way = 5 * (g - s[:, :2])
        length = np.abs(way).sum(axis=1) + self.uphill * np.maximum(-way[:, 0], 0)
        return (self.factor * length / 0.0385 / UMAZE.spec.T_max)[:, None].astype(np.float32)


def predictor(network: AlongAxes) -> LengthPredictor:
    return LengthPredictor(network, UMAZE.spec, LengthConfig(quantiles=(0.5,)), UNIT)


def pairs_in_the_open(n: int = 400) -> Banded:
    """Up to 140 steps apart on a free square of 3 x 3 units."""
    starts, goals = np.random.default_rng(0).uniform(0, 3, (2, n, 2))
    truth = np.abs(starts - goals).sum(axis=1) / 0.0385
    return Banded(starts, goals, truth, np.linalg.norm(starts - goals, axis=1) / 0.0385, 0.0385, 50)


def test_moves_go_along_the_axes_and_round_walls() -> None:
    border = [(-1, 0, -1, 6), (5, 6, -1, 6), (-1, 6, -1, 0), (-1, 6, 5, 6)]
    grid = AxisGrid(np.array([*border, (2, 3, 0, 4)], float), spacing=1.0, clearance=0.25)
    number = {tuple(place): index for index, place in enumerate(grid.places.tolist())}
    moves = grid.moves(number[0.5, 0.5])
    assert len(grid.places) == 25 - 4
    assert moves[number[0.5, 0.5]] == 0
    assert moves[number[1.5, 2.5]] == 3
    assert moves[number[3.5, 0.5]] == 3 + 2 * 4, "three across, up to the gap and down again"
    island = AxisGrid(np.array([*border, (2, 3, 0, 5)], float), spacing=1.0, clearance=0.25)
    assert (island.moves(0) == -1).sum() == 10


@pytest.mark.parametrize("grid", ["cells", "fine"])
def test_pairs_fill_their_bands_evenly(grid: str) -> None:
    pairs = draw_banded(UMAZE, seed=3, speed=0.0385, grid=grid, per_band=20)  # type: ignore[arg-type]
    counts = np.bincount((pairs.truth // pairs.width).astype(int))
    assert pairs.width == 50
    assert (counts == 20).all()
    assert len(counts) >= 3
    assert (wall_distance(UMAZE.geometry.walls, pairs.starts) >= UMAZE.geometry.radius - 1e-6).all()
    again = draw_banded(UMAZE, seed=3, speed=0.0385, grid=grid, per_band=20)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.goals, pairs.goals)
    if grid == "fine":  # the shortest path is never longer than one along the axes
        assert (pairs.geodesic <= pairs.truth + 3).all()
    else:  # 26 steps a cell
        np.testing.assert_allclose(pairs.truth * 0.0385, np.round(pairs.truth * 0.0385), atol=1e-9)


def test_a_predictor_that_knows_the_truth_is_found_perfect() -> None:
    found = evaluate_bands(predictor(AlongAxes()), pairs_in_the_open())
    assert found["spearman"] == pytest.approx(1.0, abs=1e-6)
    assert found["ratio_cv"] == pytest.approx(0.0, abs=1e-3)
    assert found["mean_abs_error"] == pytest.approx(0.0, abs=1e-3)
    assert found["triangle_violations"] == 0.0
    assert found["asymmetry"] == pytest.approx(0.0, abs=1e-6)
    assert found["shortest_path_spearman"] == pytest.approx(found["geodesic_spearman"], abs=1e-3)
    assert found["shortest_path_spearman"] < 0.99


def test_scale_asymmetry_and_violations_are_seen() -> None:
    pairs = pairs_in_the_open()
    twice = evaluate_bands(predictor(AlongAxes(2.0)), replace(pairs, truth=pairs.truth))
    assert twice["mean_abs_error"] == pytest.approx(1.0, rel=1e-3)
    assert twice["mean_abs_error_scaled"] == pytest.approx(0.0, abs=1e-3)
    uphill = evaluate_bands(predictor(AlongAxes(uphill=0.5)), pairs)
    way = pairs.goals - pairs.starts
    expected = 0.5 * np.abs(way[:, 0]).sum() / (np.abs(way).sum() + 0.25 * np.abs(way[:, 0]).sum())
    assert uphill["asymmetry"] == pytest.approx(expected, rel=1e-3)
    assert uphill["triangle_violations"] == 0.0, "a quasimetric need not be symmetric"

    class Squared(AlongAxes):
        def __call__(self, s: FloatArray, g: FloatArray) -> FloatArray:
            return super().__call__(s, g) ** 2

    assert evaluate_bands(predictor(Squared()), pairs)["triangle_violations"] > 0.2


def test_compare_by_hand() -> None:
    found = compare(np.array([10.0, 30.0, 80.0]), np.array([20.0, 60.0, 40.0]))
    assert found["spearman"] == pytest.approx(0.5)
    assert found["mean_abs_error"] == pytest.approx((10 + 30 + 40) / 120)
    ratios = np.array([0.5, 0.5, 2.0])
    assert found["ratio_cv"] == pytest.approx(ratios.std() / ratios.mean())
    assert found["spearman_far"] is None


def test_a_fitted_speed_makes_the_median_ratio_one() -> None:
    slow = LengthPredictor.load(shipped_path("maze2d-umaze", "length"))
    speed = fitted_speed(slow, UMAZE, seed=3)
    found = evaluate_bands(slow, draw_banded(UMAZE, seed=4, speed=speed, per_band=60))
    assert 0.02 < speed < 0.05
    assert found["mean_abs_error"] < 0.15


def test_open_space_has_neither_bands_nor_walls() -> None:
    cube = get_environment("cube")
    with pytest.raises(VhdError, match="no walls"):
        draw_banded(cube, 0, 0.1)
    with pytest.raises(VhdError, match="no walls"):
        draw_places(cube, np.zeros(2), np.ones(2), 5, 0)


def test_auroc_by_hand() -> None:
    assert auroc(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 1.0
    assert auroc(np.array([1.0, 4.0]), np.array([2.0, 3.0])) == 0.5
    assert auroc(np.array([2.0]), np.array([2.0, 1.0])) == 0.75


@pytest.mark.parametrize(
    "name", ["maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "antmaze-giant-stitch"]
)
def test_shipped_predictors_know_walls_from_free_space(name: str) -> None:
    route = shipped_path(name, "route")
    learned = LengthPredictor.load(shipped_path(name, "length"), routes=route if route.is_file() else None)
    found = evaluate_support(learned, get_environment(name), n=300, seed=3)
    assert found["auroc"] > 0.95
    assert found["flagged_walls"] > 0.8 > 0.25 > found["flagged_free"]
    assert found["reachable_walls"] < 0.2 < 0.7 < found["reachable_free"]
    assert found["spread_walls"] > found["spread_free"]


def test_the_command_prints_both_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    from vhdiffuser.cli import run

    for diagnostic, key in (("bands", "triangle_violations"), ("support", "auroc")):
        run(
            [
                "eval-length",
                "maze2d-medium",
                "--diagnostic",
                diagnostic,
                "--weights",
                "shipped",
                "--seed",
                "3",
                "--json",
            ]
        )
        row, *others = json.loads(capsys.readouterr().out)
        if others:
            assert others[0]["quasimetric"]
            assert others[0]["triangle_violations"] == 0 < row["triangle_violations"]
        assert row["environment"] == "maze2d-medium"
        assert 0 <= row[key] <= 1
