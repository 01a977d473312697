"""Networks of a Length Predictor: ONNX Runtime on a CPU; torch on an accelerator or for custom modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from vhdiffuser.devices import is_cpu
from vhdiffuser.errors import DataError, needs_extra
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.runtime.mlp import length_model, length_shapes, quasimetric_model, quasimetric_shapes
from vhdiffuser.runtime.network import Network, OnnxNetwork, check_shapes
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import Tensors

if TYPE_CHECKING:
    import torch

    from vhdiffuser.length.network import MakeEncoder


def length_network(
    tensors: Tensors,
    spec: EnvSpec,
    config: LengthConfig,
    device: torch.device | str = "cpu",
    make_encoder: MakeEncoder | None = None,
) -> Network:
    """Build the network of a model file. Raises `DataError` if the tensors do not fit its config."""
    if make_encoder is None:
        sizes = config.network
        goal_dim = None if config.full_state_goals else spec.goal_dim
        known, quantiles = (sizes.features, sizes.width, sizes.depth), len(config.quantiles)
        if config.quasimetric:
            outputs = quantiles * config.quasimetric * config.latent
            check_shapes(tensors, quasimetric_shapes(spec.state_dim, goal_dim, outputs, *known))
        else:
            check_shapes(tensors, length_shapes(spec.state_dim, goal_dim, quantiles, *known, sizes.relative))
        if is_cpu(device):
            return _on_cpu(tensors, goal_dims(spec, config), (quantiles, config.quasimetric, config.latent))
    with needs_extra("train", f"predicting on device '{device}', or with a custom encoder,"):
        from vhdiffuser.length.network import FourierEncoder, make_length_network
        from vhdiffuser.torch_network import TorchNetwork, state_dict
    module = make_length_network(spec, config, make_encoder or FourierEncoder)
    try:
        module.load_state_dict(state_dict(tensors))
    except RuntimeError as error:
        raise DataError(str(error)) from error
    return TorchNetwork(module, device)


def as_network(network: Network | torch.nn.Module, dims: tuple[int, ...]) -> Network:
    """A network as a function of arrays; our own torch networks on a CPU are copied to ONNX Runtime."""
    if not hasattr(network, "state_dict"):
        return cast(Network, network)
    module = cast("torch.nn.Module", network)
    from vhdiffuser.length.network import FourierEncoder, LengthNetwork, QuasimetricNetwork
    from vhdiffuser.torch_network import TorchNetwork, arrays

    device = next((weight.device for weight in module.parameters()), "cpu")
    if isinstance(module, LengthNetwork | QuasimetricNetwork) and is_cpu(device):
        shape = module.shape if isinstance(module, QuasimetricNetwork) else (0, 0, 0)
        if {type(module.phi_s), type(module.phi_g)} <= {FourierEncoder, type(None)}:
            return _on_cpu(arrays(module.state_dict()), dims, shape)
    return TorchNetwork(module, device)


def _on_cpu(tensors: Tensors, dims: tuple[int, ...], shape: tuple[int, int, int]) -> Network:
    """By ONNX Runtime; a quasimetric head has `shape` (quantiles, components, latent), an MLP has no components."""
    model = quasimetric_model(tensors, dims, shape) if shape[1] else length_model(tensors, dims)
    return OnnxNetwork(model, tensors)
