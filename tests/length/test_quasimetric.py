"""A quasimetric head keeps the triangle inequality whatever its weights, and still learns distances."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from length_toys import chain_walks, fit, toy_spec

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.network import QuasimetricNetwork
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import save_model

REST = np.array([0.0, 0.0, 0.3, -0.2])
"""Normalised: velocities of 0 need not lie in the middle of the data."""
SIZES = NetworkConfig(features=6, width=16, depth=2, feature_scale=1.0)


def random_network(seed: int) -> QuasimetricNetwork:
    """With every weight random."""
    generator = torch.Generator().manual_seed(seed)
    network = QuasimetricNetwork(4, (0, 1), 3, SIZES, components=4, latent=8, rest=REST)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
    return network.eval()


def in_float64(network: QuasimetricNetwork, s: np.ndarray, g: np.ndarray) -> np.ndarray:
    """(n, 4) and (n, 2) -> (n, 3): the head written out with numpy."""
    weights = {name: value.numpy().astype(np.float64) for name, value in network.state_dict().items()}

    def latent(x: np.ndarray, encoder: str, mlp: str, head: str) -> np.ndarray:
        angle = 2 * np.pi * (x @ weights[f"{encoder}.B"])
        hidden = np.concatenate([np.sin(angle), np.cos(angle), x], axis=1)
        for layer in (0, 3):
            hidden = hidden @ weights[f"{mlp}.{layer}.weight"].T + weights[f"{mlp}.{layer}.bias"]
            hidden -= hidden.mean(axis=1, keepdims=True)
            hidden /= np.sqrt(hidden.var(axis=1, keepdims=True) + 1e-5)
            hidden = hidden * weights[f"{mlp}.{layer + 1}.weight"] + weights[f"{mlp}.{layer + 1}.bias"]
            hidden = np.maximum(hidden, 0)
        return hidden @ weights[f"{head}.weight"].T + weights[f"{head}.bias"]

    moving, resting = (latent(x, "phi_s", "motion_mlp", "motion_head") for x in (s, at_rest(s[:, :2])))
    x, y = latent(s[:, :2], "phi_g", "mlp", "head") + moving - resting, latent(g, "phi_g", "mlp", "head")
    return np.maximum(x - y, 0).reshape(len(s), 3, 4, 8).max(axis=3).mean(axis=2)


def at_rest(places: np.ndarray) -> np.ndarray:
    still = np.tile(REST.astype(np.float32).astype(np.float64), (len(places), 1))
    still[:, :2] = places
    return still


@pytest.mark.parametrize("seed", range(5))
def test_triangle_and_identity_hold_for_random_weights(seed: int) -> None:
    network, rng = random_network(seed), np.random.default_rng(seed)
    s, h, g = rng.uniform(-1, 1, (500, 4)), *rng.uniform(-1, 1, (2, 500, 2))
    direct, first, second = in_float64(network, s, g), in_float64(network, s, h), in_float64(network, at_rest(h), g)
    assert (direct >= 0).all()
    assert (direct <= first + second + 1e-9).all(), "every quantile is a quasimetric"
    assert (direct > 0.5 * (first + second)).any(), "the bound is no empty one"
    assert (np.abs(second - in_float64(network, at_rest(g), h)) > 1e-3).any(), "and it is not symmetric"
    np.testing.assert_allclose(in_float64(network, at_rest(g), g), 0, atol=1e-9)


def test_the_network_is_its_float64_reference() -> None:
    network, rng = random_network(7), np.random.default_rng(0)
    s, g = rng.uniform(-1, 1, (50, 4)), rng.uniform(-1, 1, (50, 2))
    with torch.no_grad():
        found = network(torch.from_numpy(s).float(), torch.from_numpy(g).float()).numpy()
    np.testing.assert_allclose(found, in_float64(network, s, g), rtol=1e-3, atol=1e-3)
    moved = s.copy()
    moved[:, 2:] = REST[2:]
    assert not np.allclose(in_float64(network, moved, g), found, rtol=0.05), "a start's velocity matters"


CHAIN = LengthConfig(network=NetworkConfig(features=8, width=32, depth=2), batch=64, quasimetric=4, latent=8)


@pytest.mark.slow
def test_it_learns_a_chain_and_violates_nothing() -> None:
    episodes, spec = chain_walks(cells=12, stay=0.2, episodes=60, length=80), toy_spec(1, T_max=40, epsilon=0.01)
    config = replace(CHAIN, ramp=50, warm_start=replace(CHAIN.warm_start, shortest=50, longest=60))
    network, task = fit(episodes, spec, config, updates=200)
    predictor = LengthPredictor(network, spec, config, task.normalizer)
    cells = np.arange(12.0, dtype=np.float32)[:, None]
    steps = predictor.predict_steps(cells[:, None], cells)  # (12, 12)
    apart = np.abs(cells - cells.T)
    assert np.corrcoef(steps.ravel(), apart.ravel())[0, 1] > 0.95
    by_relay = steps[:, :, None] + steps[None]  # (start, relay, goal)
    assert (steps[:, None] <= by_relay + 1e-3).all()


def point_spec() -> EnvSpec:
    return EnvSpec("point", 4, 2, (0, 1, 2, 3), ("x", "y", "vx", "vy"), (0, 1), (2, 3), 0.1, 0.05, 100, 4)


def test_a_file_of_it_loads_and_knows_its_rest(tmp_path: Path) -> None:
    spec, normalizer = point_spec(), Normalizer(np.array([-1, -1, -1, -3.0]), np.array([1, 1, 2, 1.0]))
    rest = normalizer.normalize(np.zeros(4))
    network = QuasimetricNetwork(4, (0, 1), 3, CHAIN.network, CHAIN.quasimetric, CHAIN.latent, rest)
    made = LengthPredictor(network, spec, CHAIN, normalizer)
    save_model(tmp_path / "length.safetensors", made.network.tensors, made.header())
    loaded = LengthPredictor.load(tmp_path / "length.safetensors")
    places = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    states = np.concatenate([places, 0 * places], axis=1)
    np.testing.assert_allclose(loaded.predict_steps(states, places), 0, atol=1e-4)
    np.testing.assert_allclose(
        loaded.predict_steps(states, places[::-1]), made.predict_steps(states, places[::-1]), atol=1e-4
    )
    save_model(
        tmp_path / "other.safetensors", made.network.tensors, replace(made.header(), config=LengthConfig().to_json())
    )
    with pytest.raises(DataError, match="do not match its own config"):
        LengthPredictor.load(tmp_path / "other.safetensors")


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(VhdError, match="quasimetric must be in"):
        LengthConfig(quasimetric=-1)
    with pytest.raises(VhdError, match="latent in"):
        LengthConfig(quasimetric=1, latent=0)
