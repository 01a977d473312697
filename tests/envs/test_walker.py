from __future__ import annotations

import itertools

import numpy as np
import pytest
from safetensors.numpy import save_file

from vhdiffuser.envs.antmaze.walker import PROPRIOCEPTION, SHIPPED_WALKER, Walker
from vhdiffuser.envs.antmaze.walker_training import WalkerConfig, evaluate_walker, train_walker
from vhdiffuser.errors import DataError


def weights(rng, sizes=(PROPRIOCEPTION + 2, 16, 8)):
    tensors = {}
    for number, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        tensors[f"{number}.weight"] = rng.normal(size=(fan_in, fan_out)).astype(np.float32)
        tensors[f"{number}.bias"] = rng.normal(size=fan_out).astype(np.float32)
    return tensors


def test_actor_is_the_mlp_it_says(tmp_path, rng):
    tensors = weights(rng)
    save_file(tensors, tmp_path / "a.safetensors")
    walker = Walker.load(tmp_path / "a.safetensors")
    body, direction = rng.normal(size=(5, PROPRIOCEPTION)), rng.normal(size=(5, 2))
    hidden = np.maximum(np.concatenate([body, direction], 1) @ tensors["0.weight"] + tensors["0.bias"], 0)
    np.testing.assert_allclose(
        walker(body, direction), np.tanh(hidden @ tensors["1.weight"] + tensors["1.bias"]), rtol=1e-4, atol=1e-5
    )


def test_files_that_are_no_walker_are_refused(tmp_path, rng):
    save_file(weights(rng, (5, 8)), tmp_path / "small.safetensors")
    with pytest.raises(DataError, match="must map 29 numbers to 8 torques"):
        Walker.load(tmp_path / "small.safetensors")
    (tmp_path / "noise.safetensors").write_bytes(b"noise")
    with pytest.raises(DataError, match="not a walker's actor"):
        Walker.load(tmp_path / "noise.safetensors")


@pytest.mark.ogbench
def test_the_shipped_walker_walks_where_it_is_told_and_stays_up():
    assert len(SHIPPED_WALKER.read_bytes()) < 1_000_000
    verdict = evaluate_walker(Walker.load(), walks=4, steps=150, seed=5)
    assert verdict["slowest_along"] > 0.08, "metres per step along the commanded direction"
    assert verdict["fall_share"] <= 0.25


@pytest.mark.ogbench
def test_training_goes_on_where_it_stopped(tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3")
    from vhdiffuser.envs.antmaze import walker_training

    monkeypatch.setattr(walker_training, "evaluate_walker", lambda walker: {"speed_along": 0.0, "fall_share": 0.0})
    steps = []
    train_walker(
        WalkerConfig(steps=64, checkpoint_every=64, ants=2), tmp_path, lambda entry: steps.append(entry["steps"])
    )
    first = Walker.load(tmp_path / "ant_walker.safetensors")
    train_walker(
        WalkerConfig(steps=128, checkpoint_every=64, ants=2), tmp_path, lambda entry: steps.append(entry["steps"])
    )
    assert steps == [64, 128]
    # Nothing is learned before 10,000 steps, so the weights that came back are the weights that were saved.
    for (a, _), (b, _) in zip(first.layers, Walker.load(tmp_path / "ant_walker.safetensors").layers, strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(DataError, match="was made with"):
        train_walker(WalkerConfig(steps=256, ants=4), tmp_path, lambda entry: None)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:50])
    with pytest.raises(DataError, match="not a readable walker checkpoint"):
        train_walker(WalkerConfig(steps=256, ants=2), tmp_path, lambda entry: None)
