from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.bound import BoundPlanner
from vhdiffuser.planner.load import load_planner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.weights.places import find_model, run_folder, run_name, shipped_path

SPEC = get_spec("maze2d-umaze")


class Fifty:
    def predict_steps(self, starts, goals):
        return np.full(len(starts), 49.0)


@pytest.fixture(scope="module")
def planner():
    torch.manual_seed(0)
    config = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=16, steps=4)
    normalizer = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))
    return Planner(TemporalUnet(4, 8, (1, 2)), config, SPEC, normalizer, Fifty())


STARTS = np.array([[1, 1, 0, 0], [3, 1, 0, 0]], np.float32)
GOALS = np.array([[3, 1], [1, 1]], np.float32)


def test_options_are_the_planners_unless_given(planner):
    bound = BoundPlanner.of(planner)
    assert (bound.sampler, bound.steps, bound.gamma, bound.candidates) == ("ddim", 4, 1.3, 1)
    assert BoundPlanner.of(planner, gamma=1.2).predict_lengths(STARTS, GOALS).tolist() == [60, 60]
    one = bound.plan_batch(STARTS, GOALS, seeds=np.array([3, 9]))
    two = planner.plan_batch(STARTS, GOALS, seeds=[3, 9])
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.states, b.states)
        assert a.denoising is None


def test_plans_remember_their_denoising_where_it_is_asked_for(planner):
    seeds = np.array([3, 9])
    kept = BoundPlanner.of(planner, keep_denoising=True).plan_batch(STARTS, GOALS, seeds=seeds)
    for plan, plain in zip(kept, BoundPlanner.of(planner).plan_batch(STARTS, GOALS, seeds=seeds), strict=True):
        np.testing.assert_array_equal(plan.states, plain.states)
        assert plan.denoising is not None
        assert len(plan.denoising) == planner.config.steps + 1


def test_more_candidates_hold_the_single_plan_among_them_and_without_a_predictor_keep_the_gentlest(planner):
    blind = Planner(planner.network, replace(planner.config, smoothing=0.0), SPEC, planner.normalizer)
    lengths = np.array([60, 70])
    single = BoundPlanner.of(blind).plan_batch(STARTS, GOALS, lengths, seeds=np.array([3, 9]))
    bound = BoundPlanner.of(blind, candidates=6)
    best = bound.plan_batch(STARTS, GOALS, lengths, seeds=np.array([3, 9]))
    turns = [(bound._largest_turn(a), bound._largest_turn(b)) for a, b in zip(best, single, strict=True)]
    assert all(a <= b + 1e-6 for a, b in turns)
    assert any(a < b - 1e-6 for a, b in turns)


class Walk:
    """A hundred steps a unit, so the plan whose longest leg is shortest is the most believable."""

    def predict_steps(self, starts, goals):
        return 100 * np.abs(goals - starts[:, :2]).sum(axis=1)


def test_of_several_candidates_the_one_kept_asks_least_of_the_predictor(planner):
    bound = BoundPlanner.of(Planner(planner.network, planner.config, SPEC, planner.normalizer, Walk()), candidates=8)
    lengths = np.array([80, 100])
    kept = bound.plan_batch(STARTS, GOALS, lengths, seeds=np.array([3, 9]))
    drawn = planner.plan_batch(
        np.repeat(STARTS, 8, axis=0),
        np.repeat(GOALS, 8, axis=0),
        np.repeat(lengths, 8),
        seeds=(np.array([3, 9])[:, None] + np.arange(8) * 1_000_003).ravel(),
    )

    def excess(plan):
        reach = SPEC.T_max // 10
        begins = np.arange(0, plan.length - 1, reach)
        ends = np.minimum(begins + reach, plan.length - 1)
        return (100 * np.abs(plan.states[ends, :2] - plan.states[begins, :2]).sum(axis=1) - (ends - begins)).max()

    for row, plan in enumerate(kept):
        all_excess = [excess(other) for other in drawn[8 * row : 8 * row + 8]]
        assert excess(plan) == pytest.approx(min(all_excess), rel=1e-4, abs=1e-2)
        assert max(all_excess) > min(all_excess) + 0.1


@pytest.mark.parametrize("options", [{"candidates": 0}, {"gamma": 0.0}, {"gamma": -1.0}])
def test_impossible_options_are_refused(planner, options):
    with pytest.raises(VhdError, match=next(iter(options))):
        BoundPlanner.of(planner, **options)


def test_model_files_are_found_where_they_are(vhd_home):
    assert run_name("planner") == "vhd"
    assert run_name("planner", "paper", 64) == "fh-64-paper"
    trained = run_folder("maze2d-umaze", "vhd") / "model.safetensors"
    assert find_model("maze2d-umaze", "planner", "trained") == trained
    assert find_model("maze2d-umaze", "planner", "shipped") == shipped_path("maze2d-umaze", "planner")
    assert (
        find_model("maze2d-umaze", "planner", horizon=64) == run_folder("maze2d-umaze", "fh-64") / "model.safetensors"
    )
    paper = run_folder("maze2d-umaze", "length-paper") / "model.safetensors"
    assert find_model("maze2d-umaze", "length", recipe="paper") == paper
    trained.parent.mkdir(parents=True)
    trained.write_bytes(b"")
    assert find_model("maze2d-umaze", "planner") == trained


def test_loading_what_is_not_there_says_so(tmp_path):
    with pytest.raises(UnknownNameError, match="shipped planner 'maze9d'"):
        load_planner("maze9d")
    with pytest.raises(DataError, match="vhd train length"):
        load_planner("maze2d-umaze", source="trained")
    with pytest.raises(DataError, match="no such model file"):
        load_planner(tmp_path)
