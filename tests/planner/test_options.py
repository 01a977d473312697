"""Planning options: where they come from, what they change, and which of several candidates is kept."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.candidates import candidate_seeds, largest_turn
from vhdiffuser.planner.forwarding import KeepsDenoising
from vhdiffuser.planner.load import load_planner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.torch_network import arrays
from vhdiffuser.weights.format import ModelHeader, load_model, save_model
from vhdiffuser.weights.places import (
    find_model,
    find_run,
    run_folder,
    run_name,
    shipped_card,
    shipped_environments,
    shipped_path,
)

SPEC = get_spec("maze2d-umaze")
CONFIG = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=16)
NORMALIZER = Normalizer(np.array([0.4, 0.4, -5, -5], np.float32), np.array([3.2, 3.2, 5, 5], np.float32))


class Fifty:
    def predict_steps(self, starts, goals):
        return np.full(len(starts), 49.0)


@pytest.fixture(scope="module")
def planner():
    torch.manual_seed(0)
    network = TemporalUnet(4, 8, (1, 2))
    return Planner(network, CONFIG, SPEC, NORMALIZER, Fifty(), options=PlanningOptions(steps=4))


STARTS = np.array([[1, 1, 0, 0], [3, 1, 0, 0]], np.float32)
GOALS = np.array([[3, 1], [1, 1]], np.float32)
SEEDS = np.array([3, 9])


def states(plans):
    return np.stack([plan.states for plan in plans])


def test_other_options_share_the_network_and_leave_the_planner_as_it_was(planner):
    before = planner.options
    other = planner.with_options(candidates=8, sampler="ddpm", steps=16, gamma=1.2, smoothing=0.0, stretch=1.5)
    assert other.options == PlanningOptions("ddpm", 16, 1.2, 0.0, 1.5, 8)
    assert planner.options is before
    assert other.network is planner.network
    assert other.length_predictor is planner.length_predictor
    assert other.predict_lengths(STARTS, GOALS).tolist() == [60, 60]
    assert planner.predict_lengths(STARTS, GOALS).tolist() == [50, 50]
    assert planner.with_options(gamma=None, steps=None).options == before, "None keeps an option"


@pytest.mark.parametrize("change", [{"sampler": "ddpm"}, {"steps": 8}, {"smoothing": 0.0}, {"stretch": 2.0}])
def test_every_option_changes_plans(planner, change):
    one, two = (made.plan_batch(STARTS, GOALS, 60, seeds=SEEDS) for made in (planner, planner.with_options(**change)))
    assert np.abs(states(one) - states(two)).max() > 1e-3


def test_an_execution_s_plans_remember_their_denoising_where_it_is_asked_for(planner):
    kept, plain = (
        KeepsDenoising(planner).plan_batch(STARTS, GOALS, seeds=SEEDS),
        planner.plan_batch(STARTS, GOALS, seeds=SEEDS),
    )
    np.testing.assert_array_equal(states(kept), states(plain))
    assert [len(plan.denoising) for plan in kept] == [5, 5]
    assert [plan.denoising for plan in plain] == [None, None]


@pytest.mark.parametrize("seeds", [[3, 9], [2**63 - 1, 4]])
def test_candidate_0_is_the_single_plan(planner, seeds):
    """A predictor that finds no fault keeps the first candidate: the plan of the seed itself."""
    kept = planner.with_options(candidates=5).plan_batch(STARTS, GOALS, 60, seeds=seeds)
    assert (candidate_seeds(np.array(seeds), 5)[:, 0] == seeds).all()
    batch = (np.repeat(values, 5, axis=0) for values in (STARTS, GOALS, [60, 60]))
    drawn = planner.plan_batch(*batch, seeds=candidate_seeds(np.array(seeds), 5).ravel())
    np.testing.assert_array_equal(states(kept), states(drawn[::5]))  # to the bit, among as many
    alone = planner.plan_batch(STARTS, GOALS, 60, seeds=seeds)
    np.testing.assert_allclose(states(kept), states(alone), atol=1e-3)  # a batch of another size sums in another order


def test_more_candidates_hold_the_single_plan_among_them_and_without_a_predictor_keep_the_gentlest(planner):
    blind = Planner(planner.network, CONFIG, SPEC, NORMALIZER, options=planner.options).with_options(smoothing=0.0)
    lengths = np.array([60, 70])
    single = blind.plan_batch(STARTS, GOALS, lengths, seeds=SEEDS)
    best = blind.with_options(candidates=6).plan_batch(STARTS, GOALS, lengths, seeds=SEEDS)
    turns = [tuple(largest_turn(plan, SPEC, NORMALIZER) for plan in pair) for pair in zip(best, single, strict=True)]
    assert all(a <= b + 1e-6 for a, b in turns)
    assert any(a < b - 1e-6 for a, b in turns)


class Walk:
    """A hundred steps per unit, so the plan whose longest leg is shortest violates predicted distances least."""

    def predict_steps(self, starts, goals):
        return 100 * np.abs(goals - starts[:, :2]).sum(axis=1)


def test_of_several_candidates_the_one_kept_asks_least_of_the_predictor(planner):
    walker = Planner(planner.network, CONFIG, SPEC, NORMALIZER, Walk(), options=planner.options)
    lengths = np.array([80, 100])
    kept = walker.with_options(candidates=8).plan_batch(STARTS, GOALS, lengths, seeds=SEEDS)
    drawn = planner.plan_batch(
        np.repeat(STARTS, 8, axis=0),
        np.repeat(GOALS, 8, axis=0),
        np.repeat(lengths, 8),
        seeds=(SEEDS[:, None] + np.arange(8) * 1_000_003).ravel(),
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


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"candidates": 0}, "candidates must be in 1"),
        ({"gamma": 0.0}, "gamma must be > 0"),
        ({"gamma": float("inf")}, "gamma must be a finite number"),
        ({"smoothing": -1.0}, "smoothing must be a time"),
        ({"stretch": 0.5}, "stretch must be >= 1"),
        ({"steps": 0}, "steps must be >= 1"),
        ({"steps": 17}, r"1\.\.16"),
        ({"sampler": "euler"}, "unknown sampler 'euler'. Known: ddpm, ddim, dpm"),
    ],
)
def test_impossible_options_are_refused(planner, change, match):
    with pytest.raises(VhdError, match=match):
        planner.with_options(**change)


def test_options_are_saved_beside_the_config(tmp_path):
    options = PlanningOptions("dpm++", 3, 1.1, 2.0, 1.2, 4)
    header = ModelHeader(
        "planner", SPEC.to_json(), CONFIG.to_json(), NORMALIZER.to_json(), "", planning=options.to_json()
    )
    save_model(tmp_path / "new.safetensors", arrays(TemporalUnet(4, 8, (1, 2)).state_dict()), header)
    _, read = load_model(tmp_path / "new.safetensors", "planner")
    assert not set(read.config) & set(read.planning)
    assert Planner.load(tmp_path / "new.safetensors").options == options


@pytest.mark.parametrize("lacking", [(), ("gamma", "smoothing"), ("stretch", "evening")])
@pytest.mark.parametrize("evening", [0.0, 8.0])
def test_files_with_the_options_inside_their_config_are_read(tmp_path, lacking, evening):
    """As versions 0.1 and 0.2 wrote them; what an older one does not name is the default."""
    old = {"sampler": "dpm++", "steps": 3, "gamma": 1.1, "smoothing": 2.0, "stretch": 1.2, "evening": evening}
    config = CONFIG.to_json() | {key: value for key, value in old.items() if key not in lacking}
    header = ModelHeader("planner", SPEC.to_json(), config, NORMALIZER.to_json(), "")
    save_model(tmp_path / "old.safetensors", arrays(TemporalUnet(4, 8, (1, 2)).state_dict()), header)
    loaded = Planner.load(tmp_path / "old.safetensors")
    assert loaded.config == CONFIG
    named = {key: value for key, value in old.items() if key not in (*lacking, "evening")}
    assert loaded.options == PlanningOptions(**named)


@pytest.mark.parametrize("name", shipped_environments())
def test_shipped_files_are_untouched_and_plan_with_what_their_cards_say(name):
    card = shipped_card(name)
    assert sha256(shipped_path(name, "planner")) == card["models"]["planner"]["sha256"]
    options = Planner.load(shipped_path(name, "planner")).options
    assert options == PlanningOptions.from_json(card["models"]["planner"]["planning"])
    assert card["lengths"] == "risk 0.01"


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


def test_a_folder_of_weights_is_completed_by_the_shipped_ones(tmp_path, vhd_home):
    own = tmp_path / "maze2d-umaze" / "fh-64.safetensors"
    own.parent.mkdir()
    own.write_bytes(b"")
    assert find_model("maze2d-umaze", "planner", str(tmp_path), horizon=64) == own
    assert find_run("maze2d-umaze", "fh-64", str(tmp_path)) == own
    assert find_run("maze2d-umaze", "fh-64") == run_folder("maze2d-umaze", "fh-64") / "model.safetensors"
    assert find_model("maze2d-umaze", "length", str(tmp_path)) == shipped_path("maze2d-umaze", "length")
    # Neither a model that is never shipped, nor one of an environment that the folder does not hold.
    paper = find_model("maze2d-umaze", "length", str(tmp_path), recipe="paper")
    assert paper == own.with_name("length-paper.safetensors")
    assert find_model("maze2d-large", "length", str(tmp_path)) == tmp_path / "length.safetensors"
    own.with_name("length.safetensors").write_bytes(b"")
    assert find_model("maze2d-umaze", "length", str(tmp_path)) == own.with_name("length.safetensors")


def test_loading_what_is_not_there_says_so(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown planner 'maze9d'"):
        load_planner("maze9d")
    with pytest.raises(DataError, match="vhd train length"):
        load_planner("maze2d-umaze", source="trained")
    with pytest.raises(DataError, match="no such model file"):
        load_planner(tmp_path)


def test_a_planner_is_loaded_with_options(tmp_path):
    for kind in ("planner", "length"):
        shutil.copy(shipped_path(SPEC.name, kind), tmp_path / f"{kind}.safetensors")
    own = load_planner(tmp_path)
    assert load_planner(tmp_path, gamma=1.1, candidates=3).options == own.with_options(gamma=1.1, candidates=3).options
    with pytest.raises(VhdError, match="candidates"):
        load_planner(tmp_path, candidates=0)
