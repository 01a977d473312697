"""A small predictor fitted to a trained one, and landmarks looked up on a grid."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from length_toys import toy_spec

from vhdiffuser.cli import run
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.distil import distil_length
from vhdiffuser.length.load import load_length_predictor
from vhdiffuser.length.network import make_length_network
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.weights.places import shipped_environments, shipped_path


def teacher(config: LengthConfig) -> LengthPredictor:
    torch.manual_seed(0)
    spec, limits = toy_spec(2, 120, 0.05), np.ones(2, np.float32)
    network = make_length_network(spec, config)
    return LengthPredictor(network, spec, config, Normalizer(-2 * limits, 2 * limits))


def test_a_small_network_learns_a_large_ones_answers() -> None:
    big = teacher(LengthConfig(network=NetworkConfig(width=64, depth=2)))
    states = np.random.default_rng(0).uniform(-2, 2, (2000, 2)).astype(np.float32)
    sizes = {"features": 16, "width": 32, "depth": 1}
    few, many = (distil_length(big, states, **sizes, pairs=5000, updates=updates) for updates in (1, 200))
    starts, goals = np.random.default_rng(1).uniform(-2, 2, (2, 500, 2))
    wanted = big.predict_steps(starts, goals)
    before, after = (np.abs(made.predict_steps(starts, goals) - wanted).mean() for made in (few, many))
    assert after < 0.5 * before
    assert many.network.tensors["mlp.0.weight"].shape[0] == 32
    assert (many.spec, many.normalizer, many.coarse) == (big.spec, big.normalizer, True)


def test_what_cannot_be_distilled_is_refused() -> None:
    with pytest.raises(VhdError, match="quasimetric"):
        distil_length(teacher(LengthConfig(quasimetric=2)), np.zeros((10, 2), np.float32))


def test_a_coarse_landmark_is_as_near_as_the_nearest_but_for_a_cell() -> None:
    graph = RouteGraph.load(shipped_path("maze2d-large", "route"))[0]
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (3000, 2)).astype(np.float32)  # some beyond the grid
    exact, coarse = (graph.places[landmarks] for landmarks in (graph.region(points), graph.coarse_region(points)))
    low, high = graph.places.min(axis=0) - graph.radius, graph.places.max(axis=0) + graph.radius
    cell = (high - low).max() / 512
    inside = ((points > low) & (points < high)).all(axis=1)
    assert 0 < inside.sum() < len(points)
    excess = np.abs(coarse - points).max(axis=1) - np.abs(exact - points).max(axis=1)
    assert excess[inside].max() <= cell + 1e-6
    assert excess.min() > -1e-6


FAST = [name for name in shipped_environments() if shipped_path(name, "length-fast").is_file()]


def test_the_fast_predictors_that_docs_name_are_shipped() -> None:
    mazes = {name for name in shipped_environments() if name.startswith(("maze2d-", "pointmaze-"))}
    assert len(mazes) == 9
    assert mazes <= set(FAST)


@pytest.mark.parametrize("name", FAST)
def test_a_shipped_fast_predictor_agrees_with_the_one_it_learned_from(name: str) -> None:
    slow, fast = (load_length_predictor(name, fast=fast) for fast in (False, True))
    assert (slow.coarse, fast.coarse) == (False, True)
    assert sum(part.size for part in fast.network.tensors.values()) < 20_000
    rng = np.random.default_rng(3)
    landmarks = slow.landmarks.places
    places = slow.normalizer.select((0, 1)).unnormalize(landmarks[rng.integers(len(landmarks), size=(2, 4000))])
    velocities = rng.uniform(-2, 2, (4000, slow.spec.state_dim - 2))
    starts = np.concatenate([places[0], velocities], axis=1).astype(np.float32)
    wanted, found = (each.predict_steps(starts, places[1]) for each in (slow, fast))
    ranks = [values.argsort().argsort() for values in (wanted, found)]
    assert np.corrcoef(*ranks)[0, 1] > 0.995
    assert abs((found - wanted).mean()) < 2
    assert np.abs(found - wanted).mean() < 8
    exact = replace_coarse(fast, coarse=False).predict_steps(starts, places[1])
    assert np.abs(found - exact).mean() < 1


def test_without_a_small_predictor_the_error_says_how_to_fit_one(vhd_home: Path) -> None:
    with pytest.raises(DataError, match=r"vhd train fast-length cube`.*fast=False"):
        load_length_predictor("cube", fast=True)


def test_one_command_fits_a_small_predictor_to_the_shipped_one(vhd_home: Path, monkeypatch, capsys) -> None:
    build = ["data", "get", "maze2d-medium", "--source", "build", "--size", "2000", "--workers", "1", "--quiet"]
    assert run(build) == 0
    small = partial(distil_length, pairs=8000, updates=300)
    monkeypatch.setattr("vhdiffuser.recipes.train.distil_length", small)
    capsys.readouterr()
    assert run(["train", "fast-length", "maze2d-medium", "--weights", "shipped", "--json", "--quiet"]) == 0
    assert str(vhd_home) in json.loads(capsys.readouterr().out)["model"]
    fast = load_length_predictor("maze2d-medium", fast=True, source="auto")
    slow = load_length_predictor("maze2d-medium")
    assert fast.routes is not None, "the shipped route graph, if none was built"
    assert fast.network.tensors["mlp.0.weight"].shape != slow.network.tensors["mlp.0.weight"].shape
    assert fast.normalizer.to_json() == slow.normalizer.to_json()
    states = load_dataset("maze2d-medium").episodes.observations
    starts, goals = states[:1000], states[1000:2000, :2]
    assert np.corrcoef(fast.predict_steps(starts, goals), slow.predict_steps(starts, goals))[0, 1] > 0.8


def replace_coarse(predictor: LengthPredictor, coarse: bool) -> LengthPredictor:
    return LengthPredictor(
        predictor.network, predictor.spec, replace(predictor.config), predictor.normalizer, predictor.routes,
        coarse=coarse,
    )  # fmt: skip
