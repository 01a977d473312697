"""LengthPredictor: shapes, units, bad input, model files, replaceable encoders."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError, OutsideDataWarning, VhdError
from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.network import FourierEncoder, LengthNetwork
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import save_model

SPEC = replace(get_spec("maze2d-umaze"), T_max=50)
CONFIG = LengthConfig(network=NetworkConfig(features=8, width=16, depth=1), relay_graph=None)
NORMALIZER = Normalizer(np.array([0, 0, -5, -5], np.float32), np.array([4, 2, 5, 5], np.float32))


def make_network(config: LengthConfig = CONFIG, goal_dims: tuple[int, ...] | None = (0, 1)) -> LengthNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LengthNetwork(4, goal_dims, len(config.quantiles), config.network)


@pytest.fixture
def predictor() -> LengthPredictor:
    return LengthPredictor(make_network(), SPEC, CONFIG, NORMALIZER)


@pytest.fixture
def states() -> np.ndarray:
    return np.random.default_rng(0).uniform(NORMALIZER.low, NORMALIZER.high, (6, 4)).astype(np.float32)


def test_any_batch_shape(predictor: LengthPredictor, states: np.ndarray) -> None:
    goals = states[:, :2]
    every = predictor.predict_steps(states[:, None], goals[None])
    assert every.shape == (6, 6)
    one = predictor.predict_steps(states[2], goals[4])
    assert one.shape == ()
    assert float(one) == pytest.approx(float(every[2, 4]), abs=1e-3)
    np.testing.assert_allclose(predictor.predict_steps(states[2], goals), every[2], atol=1e-3)
    np.testing.assert_allclose(
        predictor.predict_steps(states.reshape(2, 3, 4), goals[0]).ravel(), every[:, 0], atol=1e-3
    )
    assert predictor.predict_steps(np.empty((0, 4)), np.empty((0, 2))).shape == (0,)
    assert ((every >= 0) & (every <= SPEC.T_max)).all()


def test_whole_states_are_goals_by_their_goal_dimensions(predictor: LengthPredictor, states: np.ndarray) -> None:
    np.testing.assert_array_equal(
        predictor.predict_steps(states, states[::-1]), predictor.predict_steps(states, states[::-1, :2])
    )


def test_units_are_the_environments(predictor: LengthPredictor, states: np.ndarray) -> None:
    s = NORMALIZER.normalize(states)
    f = predictor.network(s, s[:, :2])[:, 0].clip(max=1)
    np.testing.assert_allclose(predictor.predict_steps(states, states[:, :2]), f * 50, rtol=1e-5)


def test_spread(predictor: LengthPredictor, states: np.ndarray) -> None:
    steps, spread = predictor.predict_spread(states, states[:, :2])
    np.testing.assert_array_equal(steps, predictor.predict_steps(states, states[:, :2]))
    s = NORMALIZER.normalize(states)
    quantiles = predictor.network(s, s[:, :2]).clip(max=1) * SPEC.T_max
    np.testing.assert_allclose(spread, np.ptp(quantiles, axis=1), rtol=1e-5, atol=1e-5)
    assert (spread > 0).all()
    single = replace(CONFIG, quantiles=(0.5,))
    with pytest.raises(VhdError, match="spread"):
        LengthPredictor(make_network(single), SPEC, single, NORMALIZER).predict_spread(states, states)


@pytest.mark.filterwarnings("ignore::vhdiffuser.errors.ClippedLengthWarning")
def test_plan_length_is_the_papers_formula(predictor: LengthPredictor, states: np.ndarray) -> None:
    goals = states[::-1, :2]
    steps = predictor.predict_steps(states, goals).astype(np.float64)
    for gamma in (0.1, 1.0, 1.3, 10.0):
        expected = np.clip(np.ceil(gamma * (steps + 1)), SPEC.L_min, SPEC.T_max)
        np.testing.assert_array_equal(predictor.plan_length(states, goals, gamma), expected)
    with pytest.raises(VhdError, match="gamma"):
        predictor.plan_length(states, goals, 0.0)


@pytest.mark.parametrize(
    ("starts", "goals", "message"),
    [
        (np.zeros(3), np.zeros(2), r"starts must have shape \(\.\.\., 4\)"),
        (np.zeros(4), np.zeros(3), r"goals must have shape \(\.\.\., 2\) or \(\.\.\., 4\)"),
        (np.float32(1), np.zeros(2), "starts must have shape"),
        (np.zeros((3, 4)), np.zeros((2, 2)), "broadcast"),
        (np.array([1, 1, np.nan, 0]), np.ones(2), r"starts\[2\] is NaN"),
        (np.ones(4), np.array([1, np.inf]), r"goals\[1\] is NaN or infinite"),
    ],
)
def test_bad_input(predictor: LengthPredictor, starts: np.ndarray, goals: np.ndarray, message: str) -> None:
    with pytest.raises(VhdError, match=message):
        predictor.predict_steps(starts, goals)


def test_far_outside_the_data_warns_and_says_where(predictor: LengthPredictor) -> None:
    with pytest.warns(OutsideDataWarning, match=r"1 of the goals .* in y \(data: 0 to 2\)"):
        predictor.predict_steps(np.ones(4), np.array([1.0, 9.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predictor.predict_steps(np.ones(4), np.array([1.0, 2.1]))


def test_model_file_round_trip(predictor: LengthPredictor, states: np.ndarray, tmp_path: Path) -> None:
    episodes = Episodes(states, np.zeros((6, 2), np.float32), np.array([6]))
    header = LengthTask(episodes, SPEC, CONFIG, NORMALIZER, "abc").header()
    path = tmp_path / "length.safetensors"
    save_model(path, predictor.network.tensors, header)
    again = LengthPredictor.load(path)
    assert again.spec == SPEC
    assert again.config == CONFIG
    np.testing.assert_array_equal(again.predict_steps(states, states), predictor.predict_steps(states, states))
    with pytest.raises(DataError, match="no such model"):
        LengthPredictor.load(tmp_path / "none.safetensors")


def test_full_state_goals(states: np.ndarray) -> None:
    config = replace(CONFIG, full_state_goals=True)
    predictor = LengthPredictor(make_network(config, None), SPEC, config, NORMALIZER)
    other = states.copy()
    other[:, 2:] += 1.0
    assert not np.allclose(predictor.predict_steps(states, states), predictor.predict_steps(states, other))
    with pytest.raises(VhdError, match="goals must have shape"):
        predictor.predict_steps(states, states[:, :3])
    # A place is a goal state at rest.
    resting = states * np.array([1, 1, 0, 0], np.float32)
    np.testing.assert_array_equal(
        predictor.predict_steps(states, states[:, :2]), predictor.predict_steps(states, resting)
    )
    task = LengthTask(Episodes(states, np.zeros((6, 2), np.float32), np.array([6])), SPEC, config, NORMALIZER, "abc")
    batch = task.sampler.draw(16, config.warm_start.goals, (1,), torch.Generator().manual_seed(0))
    assert batch.g.shape == (16, 4)
    assert [name for name in task.make_network().state_dict() if name.endswith(".B")] == ["phi_s.B"]


def test_whole_states_share_one_encoder_as_the_paper_writes_z() -> None:
    """z(s, g) = [phi(s), phi(g), phi(s) - phi(g)] with one B, computed from the equation."""
    network = make_network(CONFIG, None)
    s, g = torch.rand(5, 4), torch.rand(5, 4)

    def phi(x: torch.Tensor) -> torch.Tensor:
        angle = 2 * torch.pi * x @ network.phi_s.B
        return torch.cat([angle.sin(), angle.cos(), x], dim=-1)

    z = torch.cat([phi(s), phi(g), phi(s) - phi(g)], dim=-1)
    expected = nn.functional.softplus(network.head(network.mlp(z)))
    torch.testing.assert_close(network(s, g), expected)


def test_a_place_cannot_stand_for_a_state_with_more_than_velocities(states: np.ndarray) -> None:
    config = replace(CONFIG, full_state_goals=True)
    spec = replace(SPEC, velocity_dims=None)
    predictor = LengthPredictor(make_network(config, None), spec, config, NORMALIZER)
    with pytest.raises(VhdError, match="pass goals with vx, vy"):
        predictor.predict_steps(states, states[:, :2])


def test_fourier_features_are_fixed_and_as_written() -> None:
    encoder = FourierEncoder(2, NetworkConfig(features=3))
    x = torch.tensor([[0.2, -0.4]])
    angle = 2 * torch.pi * x @ encoder.B
    torch.testing.assert_close(encoder(x), torch.cat([angle.sin(), angle.cos(), x], dim=-1))
    assert not list(encoder.parameters())
    assert "B" in encoder.state_dict()


def test_relative_channel_is_optional() -> None:
    with_channel = make_network()
    without = make_network(replace(CONFIG, network=replace(CONFIG.network, relative=False)))
    first = [next(m for m in network.mlp if isinstance(m, nn.Linear)) for network in (with_channel, without)]
    assert first[0].in_features - first[1].in_features == 2 * 8 + 2


class Raw(nn.Module):
    """An encoder that leaves its input as it is."""

    def __init__(self, dim: int, config: NetworkConfig) -> None:
        super().__init__()
        self.out_dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_encoder_can_be_replaced(states: np.ndarray) -> None:
    episodes = Episodes(states, np.zeros((6, 2), np.float32), np.array([6]))
    task = LengthTask(episodes, SPEC, CONFIG, NORMALIZER, "abc", make_encoder=Raw)
    network = task.make_network()
    assert isinstance(network.phi_s, Raw)
    assert network.mlp[0].in_features == 4 + 2 + 2, "state, goal and their difference, as they are"
    loss, _ = task.loss(network, network, torch.Generator().manual_seed(0), 0)
    loss.backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in network.parameters())
    with pytest.raises(VhdError, match="out_dim"):
        LengthNetwork(4, (0, 1), 1, CONFIG.network, lambda dim, config: nn.Identity())
