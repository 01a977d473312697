"""The figures of an evaluation, for predictors whose figures are known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from pictures import picture
from torch import nn

from vhdiffuser.benchmark.geodesic import Geodesic, make_geodesic
from vhdiffuser.benchmark.length_eval import (
    arrival_pairs,
    at_rest,
    calibration,
    distance_field,
    draw_pairs,
    evaluate_length,
    observed_speed,
    true_steps,
)
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.report import length_figures
from vhdiffuser.report.length_figures import calibration_curve, distance_fields, scatter
from vhdiffuser.types import Episodes

UMAZE = get_environment("maze2d-umaze")
SPEC = UMAZE.spec
SPEED = 0.03
UNIT = Normalizer(np.full(4, -5, np.float32), np.full(4, 5, np.float32))


class Straight(nn.Module):
    """Knows straight lines only: scale * |s - g| / SPEED steps."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, s: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        distance = 5 * (s[..., :2] - g).norm(dim=-1, keepdim=True)
        return self.scale * distance / SPEED / SPEC.T_max


def predictor(scale: float = 1.0) -> LengthPredictor:
    return LengthPredictor(Straight(scale), SPEC, LengthConfig(quantiles=(0.5,)), UNIT)


@pytest.fixture
def pairs() -> tuple[np.ndarray, np.ndarray]:
    return draw_pairs(UMAZE.make(), 200, seed=3)


def test_pairs_are_at_rest_and_fixed_by_their_seed(pairs: tuple[np.ndarray, np.ndarray]) -> None:
    starts, goals = pairs
    assert starts.shape == (200, 4)
    assert goals.shape == (200, 2)
    assert (starts[:, 2:] == 0).all()
    again = draw_pairs(UMAZE.make(), 200, seed=3)
    np.testing.assert_array_equal(again[0], starts)
    assert not np.array_equal(draw_pairs(UMAZE.make(), 200, seed=4)[1], goals)


def test_a_perfect_predictor_is_found_perfect(pairs: tuple[np.ndarray, np.ndarray]) -> None:
    found = evaluate_length(predictor(), *pairs, true_steps(SPEC, None, *pairs, SPEED))
    assert found.figures["spearman"] == pytest.approx(1.0, abs=1e-4)
    assert found.figures["mean_abs_error_steps"] == pytest.approx(0.0, abs=1e-2)
    assert found.figures["triangle_violations"] == 0.0
    assert found.figures["mean_f_gg_steps"] == pytest.approx(0.0, abs=1e-3)
    assert found.figures["far_pairs"] == 0
    assert found.figures["spearman_far"] is None
    assert found.spread is None


def test_scale_and_side_of_the_error_are_seen(pairs: tuple[np.ndarray, np.ndarray]) -> None:
    truth = true_steps(SPEC, None, *pairs, SPEED)
    low, high = (evaluate_length(predictor(scale), *pairs, truth).figures for scale in (0.5, 1.5))
    assert low["under_predicted"] == 1.0
    assert high["under_predicted"] == 0.0
    assert low["spearman"] == pytest.approx(1.0, abs=1e-4)
    assert low["mean_error_steps"] == pytest.approx(-high["mean_error_steps"], rel=0.05)


def test_walls_are_part_of_the_truth(pairs: tuple[np.ndarray, np.ndarray]) -> None:
    geodesic = make_geodesic(UMAZE)
    found = evaluate_length(predictor(), *pairs, true_steps(SPEC, geodesic, *pairs, SPEED)).figures
    assert found["spearman"] < 0.95
    assert found["under_predicted"] > 0.5
    assert found["mean_error_steps"] < -5
    assert (true_steps(SPEC, geodesic, *pairs, speed=1e-3) <= SPEC.T_max).all()
    with pytest.raises(VhdError, match="stated speed"):
        true_steps(SPEC, geodesic, *pairs, speed=0.0)


def test_observed_speed_does_not_cross_episodes() -> None:
    steps = np.arange(30, dtype=np.float32)
    parts = []
    for start in (0.0, 100.0):
        states = np.zeros((30, 4), np.float32)
        states[:, 0], states[:, 1] = start + 0.03 * steps, 0.04 * steps
        parts.append((states, np.zeros((29, 2), np.float32)))
    assert observed_speed(Episodes.from_parts(parts), SPEC) == pytest.approx(0.05, rel=1e-3)
    short = [(states[:5], actions[:4]) for states, actions in parts]
    with pytest.raises(VhdError, match="speed cannot be measured"):
        observed_speed(Episodes.from_parts(short), SPEC)


def test_arrival_is_the_first_time_within_epsilon() -> None:
    """There and back along a line, and on: the second pass is no arrival."""
    x = np.concatenate([np.linspace(0, 1, 21), np.linspace(1, 0, 21)[1:], np.linspace(0, 4, 81)[1:]])
    states = np.stack([x, 0 * x, 0 * x, 0 * x], axis=1).astype(np.float32)
    episodes = Episodes.from_parts([(states, np.zeros((len(x) - 1, 2), np.float32))] * 2)
    starts, goals, steps = arrival_pairs(episodes, SPEC, UNIT, within=60, n=300, seed=3)
    slack = 5 * SPEC.epsilon / 0.05  # within epsilon is arrived, and 0.05 units are a step
    straight = np.abs(starts[:, 0] - goals[:, 0]) / 0.05
    assert (steps >= straight - slack - 1e-3).all()
    assert (steps <= 60).all()
    assert (steps > straight + 5).any(), "some turn round first"
    assert (np.abs(steps - (straight - slack)) <= 1).mean() > 0.4, "most go straight there"


def test_at_rest_leaves_its_argument_alone() -> None:
    states = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(at_rest(SPEC, states), [[1, 1, 0, 0]] * 2)
    assert (states == 1).all()
    cube = get_spec("cube")
    np.testing.assert_array_equal(at_rest(cube, np.ones((1, 3))), np.ones((1, 3)))


def test_calibration_rows() -> None:
    truth = np.arange(1200.0)
    rows = calibration(truth, 2 * truth)
    assert rows.shape == (12, 4)
    np.testing.assert_allclose(rows[:, 0], 49.5 + 100 * np.arange(12))
    np.testing.assert_allclose(rows[:, 1], 2 * rows[:, 0])
    np.testing.assert_allclose(rows[:, 2] - rows[:, 1], -0.8 * 99)  # the 10 % quantile of a hundred, twice as steep
    np.testing.assert_allclose(rows[:, 3] - rows[:, 1], 0.8 * 99)


def test_figures_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    save = length_figures.save_figure
    monkeypatch.setattr(
        length_figures, "save_figure", lambda figure, path: (drawn.append(figure), save(figure, path))[1]
    )
    walls = np.array([(-1, 0, -1, 3), (2, 3, -1, 3), (-1, 3, -1, 0), (-1, 3, 2, 3)], float)
    geodesic = Geodesic(walls, spacing=0.1, clearance=0.1)
    goal = np.array([1.0, 1.5], np.float32)
    field = distance_field(predictor(), geodesic, goal)
    np.testing.assert_array_equal(np.isnan(field), ~geodesic.free)
    row, column = np.unravel_index(np.nanargmin(field), field.shape)
    assert (geodesic.x[row], geodesic.y[column]) == pytest.approx((1.0, 1.5))
    truth = np.linspace(0, 100, 60)
    made = [
        scatter(truth, {"ours": truth, "paper": 1.5 * truth}, tmp_path / "scatter.png", "toy", "true steps"),
        calibration_curve({"ours": calibration(truth, truth)}, tmp_path / "calibration.png", "toy"),
        distance_fields(geodesic.x, geodesic.y, [("learned", goal, field)], walls, tmp_path / "field.png", "toy"),
    ]
    for path in made:
        assert min(picture(path).shape[:2]) > 300
    for axes, name, factor in zip(drawn[0].axes, ("ours", "paper"), (1.0, 1.5), strict=True):
        assert axes.get_title() == f"run {name}"
        np.testing.assert_allclose(axes.lines[1].get_xydata(), np.stack([truth, factor * truth], axis=1))
    (axes,) = drawn[1].axes
    np.testing.assert_allclose(axes.lines[1].get_xydata(), calibration(truth, truth)[:, :2])
    axes = drawn[2].axes[0]
    (mesh,) = [item for item in axes.collections if isinstance(item, QuadMesh)]
    np.testing.assert_allclose(np.ma.filled(mesh.get_array(), np.nan).reshape(field.T.shape), field.T)
    np.testing.assert_allclose(axes.lines[-1].get_xydata(), [goal])
