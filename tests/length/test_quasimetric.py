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
    """In float64, with every weight random."""
    generator = torch.Generator().manual_seed(seed)
    network = QuasimetricNetwork(4, (0, 1), 3, SIZES, components=4, latent=8, rest=REST).double()
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    network.phi_g.B = network.phi_g.B.double()
    return network.eval()


def at_rest(places: torch.Tensor) -> torch.Tensor:
    still = torch.from_numpy(REST).expand(len(places), 4).clone()
    still[:, :2] = places
    return still


@pytest.mark.parametrize("seed", range(5))
def test_triangle_and_identity_hold_for_random_weights(seed: int) -> None:
    network, generator = random_network(seed), torch.Generator().manual_seed(100 + seed)
    s = 2 * torch.rand(500, 4, generator=generator, dtype=torch.float64) - 1
    h, g = (2 * torch.rand(500, 2, generator=generator, dtype=torch.float64) - 1 for _ in range(2))
    with torch.no_grad():
        direct, first, second = network(s, g), network(s, h), network(at_rest(h), g)
        back = network(at_rest(g), h)
        assert (network(at_rest(g), g) == 0).all()
    assert direct.shape == (500, 3)
    assert (direct >= 0).all()
    assert (direct <= first + second + 1e-6).all(), "every quantile is a quasimetric"
    assert (direct > 0.5 * (first + second)).any(), "the bound is no empty one"
    assert ((second - back).abs() > 1e-3).any(), "and it is not symmetric"


def test_it_is_the_mean_of_the_largest_differences() -> None:
    """Written out with numpy, in float64."""
    network = random_network(7)
    rng = np.random.default_rng(0)
    s, g = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 2)
    weights = {name: value.detach().numpy().astype(np.float64) for name, value in network.state_dict().items()}

    def latent(x: np.ndarray, encoder: str, mlp: str, head: str) -> np.ndarray:
        angle = 2 * np.pi * (x @ weights[f"{encoder}.B"])
        hidden = np.concatenate([np.sin(angle), np.cos(angle), x])
        for layer in (0, 3):
            hidden = weights[f"{mlp}.{layer}.weight"] @ hidden + weights[f"{mlp}.{layer}.bias"]
            hidden = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-5)
            hidden = hidden * weights[f"{mlp}.{layer + 1}.weight"] + weights[f"{mlp}.{layer + 1}.bias"]
            hidden = np.maximum(hidden, 0)
        return weights[f"{head}.weight"] @ hidden + weights[f"{head}.bias"]

    still = REST.copy()
    still[:2] = s[:2]
    moving, resting = (latent(x, "phi_s", "motion_mlp", "motion_head") for x in (s, still))
    x, y = latent(s[:2], "phi_g", "mlp", "head") + moving - resting, latent(g, "phi_g", "mlp", "head")
    wanted = np.maximum(x - y, 0).reshape(3, 4, 8).max(axis=2).mean(axis=1)
    with torch.no_grad():
        found = network(torch.from_numpy(s), torch.from_numpy(g)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)  # the encoder computes its angles in float32


def test_velocities_matter_only_to_starts() -> None:
    network = random_network(3)
    place, goal = torch.tensor([[0.2, -0.4]], dtype=torch.float64), torch.tensor([[0.6, 0.1]], dtype=torch.float64)
    fast = at_rest(place)
    fast[:, 2:] += 0.5
    with torch.no_grad():
        assert not torch.allclose(network(fast, goal), network(at_rest(place), goal))


CHAIN = LengthConfig(network=NetworkConfig(features=8, width=32, depth=2), batch=64, quasimetric=4, latent=8)


def test_it_learns_a_chain_and_violates_nothing() -> None:
    episodes, spec = chain_walks(cells=12, stay=0.2, episodes=60, length=80), toy_spec(1, T_max=40, epsilon=0.01)
    config = replace(CHAIN, ramp=50, warm_start=replace(CHAIN.warm_start, shortest=50, longest=60))
    network, task = fit(episodes, spec, config, updates=250)
    predictor = LengthPredictor(network, spec, config, task.normalizer)
    cells = np.arange(12.0, dtype=np.float32)[:, None]
    steps = predictor.predict_steps(cells[:, None], cells)  # (12, 12)
    apart = np.abs(cells - cells.T)
    assert np.corrcoef(steps.ravel(), apart.ravel())[0, 1] > 0.95
    by_relay = steps[:, :, None] + steps[None]  # through every cell
    assert (steps[:, None] <= by_relay.transpose(0, 1, 2) + 1e-3).all()


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
    save_model(tmp_path / "other.safetensors", made.network.tensors, replace(made.header(), config=LengthConfig().to_json()))
    with pytest.raises(DataError, match="do not match its own config"):
        LengthPredictor.load(tmp_path / "other.safetensors")


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(VhdError, match="quasimetric must lie in"):
        LengthConfig(quasimetric=-1)
    with pytest.raises(VhdError, match="latent in"):
        LengthConfig(quasimetric=1, latent=0)
