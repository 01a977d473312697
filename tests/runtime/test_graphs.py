"""The networks as ONNX graphs give what the torch modules give, for every size they are made for, in both engines."""

from __future__ import annotations

import copy
import multiprocessing

import numpy as np
import pytest
import torch
from toy_point import SPEC as POINT

from vhdiffuser.control.dynamics_network import InverseDynamics
from vhdiffuser.control.inverse_dynamics import DynamicsConfig, proprioception_dims
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError
from vhdiffuser.length.config import NetworkConfig
from vhdiffuser.length.network import LengthNetwork, QuasimetricNetwork
from vhdiffuser.runtime.mlp import (
    dynamics_model,
    dynamics_shapes,
    length_model,
    length_shapes,
    quasimetric_model,
    quasimetric_shapes,
)
from vhdiffuser.runtime.network import OnnxNetwork, check_shapes
from vhdiffuser.runtime.numpy_session import NumpySession
from vhdiffuser.runtime.unet import unet_model, unet_shapes
from vhdiffuser.runtime.unrolled import UnrolledNetwork
from vhdiffuser.torch_network import arrays


@pytest.fixture(params=["onnxruntime", "numpy"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)  # of fresh modules
    if request.param == "numpy":
        monkeypatch.setattr("vhdiffuser.runtime.network._session", NumpySession)


def shaken(module: torch.nn.Module) -> torch.nn.Module:
    """With every tensor random, also those that are constant in a fresh module."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return module.eval()


@pytest.mark.parametrize(
    ("dim", "dim_mults"), [(8, (1,)), (8, (1, 2)), (32, (1, 2, 4)), (16, (1, 4, 8)), (8, (1, 2, 2, 4))]
)
def test_the_unet_is_torchs_at_every_length_batch_and_level(dim: int, dim_mults: tuple[int, ...]) -> None:
    module = shaken(TemporalUnet(3, dim, dim_mults))
    tensors = arrays(module.state_dict())
    check_shapes(tensors, unet_shapes(3, dim, dim_mults))
    network = OnnxNetwork(unet_model(tensors), tensors)
    rng = np.random.default_rng(0)
    for batch, knots, level in ((1, 3, 0), (3, 5, 7), (2, 8, 255), (1, 33, 100), (17, 12, 31)):
        tau = rng.normal(size=(batch, knots, 3)).astype(np.float32)
        with torch.no_grad():
            wanted = module(torch.from_numpy(tau), torch.full((batch,), level)).numpy()
        np.testing.assert_allclose(network(tau, level), wanted, atol=2e-5 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize(("dim", "dim_mults"), [(8, (1,)), (32, (1, 2, 4)), (16, (1, 4, 8)), (8, (1, 2))])
@pytest.mark.parametrize("knots", [4, 8])
def test_unrolled_for_few_knots_it_is_the_same(dim: int, dim_mults: tuple[int, ...], knots: int) -> None:
    tensors = arrays(shaken(TemporalUnet(3, dim, dim_mults)).state_dict())
    general, unrolled = OnnxNetwork(unet_model(tensors)), UnrolledNetwork(tensors, knots)
    for batch, level in ((1, 0), (15, 200)):
        tau = np.random.default_rng(batch).normal(size=(batch, knots, 3)).astype(np.float32)
        wanted = general(tau, level)
        np.testing.assert_allclose(unrolled(tau, level), wanted, atol=2e-5 * max(1, np.abs(wanted).max()))


def test_mish_is_right_where_its_exponential_overflows() -> None:
    module = shaken(TemporalUnet(2, 8, (1, 2)))
    with torch.no_grad():
        module.final_conv[0].block[1].weight.mul_(200)  # activations of some hundreds, of either sign
    tensors = arrays(module.state_dict())
    tau = np.random.default_rng(0).normal(size=(2, 8, 2)).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(tau), torch.full((2,), 3)).numpy()
    np.testing.assert_allclose(OnnxNetwork(unet_model(tensors), tensors)(tau, 3), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("goal_dims", [(2, 0), None])
def test_the_length_predictor_is_torchs(relative: bool, depth: int, goal_dims: tuple[int, ...] | None) -> None:
    config = NetworkConfig(features=8, width=24, depth=depth, relative=relative)
    module = shaken(LengthNetwork(4, goal_dims, 3, config))
    tensors, dims = arrays(module.state_dict()), goal_dims or (0, 1, 2, 3)
    check_shapes(tensors, length_shapes(4, None if goal_dims is None else 2, 3, 8, 24, depth, relative))
    rng = np.random.default_rng(0)
    s, g = rng.uniform(-1, 1, (9, 4)).astype(np.float32), rng.uniform(-1, 1, (9, len(dims))).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(s), torch.from_numpy(g)).numpy()
    np.testing.assert_allclose(OnnxNetwork(length_model(tensors, dims), tensors)(s, g), wanted, atol=1e-5)


@pytest.mark.parametrize("goal_dims", [(2, 0), (0, 1, 2, 3), None])
def test_the_quasimetric_head_is_torchs(goal_dims: tuple[int, ...] | None) -> None:
    config = NetworkConfig(features=8, width=24, depth=2)
    rest = np.array([0.1, -0.2, 0.3, -0.4], np.float32)
    module = shaken(QuasimetricNetwork(4, goal_dims, 3, config, 5, 7, rest))
    tensors, dims = arrays(module.state_dict()), goal_dims or (0, 1, 2, 3)
    check_shapes(tensors, quasimetric_shapes(4, None if goal_dims is None else len(goal_dims), 105, 8, 24, 2))
    rng = np.random.default_rng(0)
    s, g = rng.uniform(-1, 1, (9, 4)).astype(np.float32), rng.uniform(-1, 1, (9, len(dims))).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(s), torch.from_numpy(g)).numpy()
    assert wanted.shape == (9, 3)
    network = OnnxNetwork(quasimetric_model(tensors, dims, (3, 5, 7)), tensors)
    np.testing.assert_allclose(network(s, g), wanted, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_inverse_dynamics_model_is_torchs(layers: int) -> None:
    config = DynamicsConfig(hidden=16, layers=layers, ahead=(1, 4))
    module = shaken(InverseDynamics(POINT, config))
    tensors, body = arrays(module.state_dict()), len(proprioception_dims(POINT, config))
    check_shapes(tensors, dynamics_shapes(body + 4, POINT.action_dim, 16, layers))
    rng = np.random.default_rng(0)
    given = rng.normal(size=(5, body)).astype(np.float32), rng.normal(size=(5, 2, 2)).astype(np.float32)
    with torch.no_grad():
        wanted = module(*(torch.from_numpy(array) for array in given)).numpy()
    network = OnnxNetwork(dynamics_model(tensors, body), tensors)
    np.testing.assert_allclose(network(given[0], given[1].reshape(5, -1)), wanted, atol=1e-5)
    sender, receiver = multiprocessing.Pipe()
    sender.send(network)  # as to a worker process
    for other in (copy.deepcopy(network), receiver.recv()):
        np.testing.assert_array_equal(
            other(given[0], given[1].reshape(5, -1)), network(given[0], given[1].reshape(5, -1))
        )


def test_tensors_of_other_names_and_shapes_are_named() -> None:
    tensors = arrays(TemporalUnet(3, 8, (1, 2)).state_dict())
    with pytest.raises(
        DataError, match=r"tensor 'downs.0.0.blocks.0.block.0.weight' is \(8, 3, 5\), but should be \(8, 4, 5\)"
    ):
        check_shapes(tensors, unet_shapes(4, 8, (1, 2)))
    del tensors["mid_block1.time_mlp.1.bias"]
    with pytest.raises(DataError, match=r"'mid_block1.time_mlp.1.bias' is missing"):
        check_shapes(tensors, unet_shapes(3, 8, (1, 2)))


def test_models_are_valid_onnx() -> None:
    onnx = pytest.importorskip("onnx", reason="the reference checker needs onnx (extra dev)")
    tensors = arrays(TemporalUnet(3, 8, (1, 2)).state_dict())
    model = onnx.load_from_string(unet_model(tensors, "a planner"))
    onnx.checker.check_model(model, full_check=True)
    assert model.doc_string == "a planner"
    assert [item.name for item in model.graph.input] == ["tau", "level"]
    assert [item.name for item in model.graph.output] == ["predicted"]
