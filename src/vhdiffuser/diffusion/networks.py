"""Networks of a planner: ONNX Runtime on a CPU; torch on an accelerator or for custom modules.

On a CPU the graph of `vhdiffuser.runtime.unet` was faster than torch at every batch size (benchmarks/engines.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from vhdiffuser.devices import is_cpu
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.errors import needs_extra
from vhdiffuser.runtime.network import Network, check_shapes
from vhdiffuser.runtime.unet import unet_shapes
from vhdiffuser.runtime.unrolled import UnetNetwork
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import Tensors

if TYPE_CHECKING:
    import torch


def unet_network(tensors: Tensors, config: PlannerConfig, spec: EnvSpec, device: torch.device | str = "cpu") -> Network:
    """Build the U-Net of a model file. Raises `DataError` if the tensors do not fit its config."""
    width = config.action_dim + spec.state_dim
    check_shapes(tensors, unet_shapes(width, config.dim, config.dim_mults))
    if is_cpu(device):
        return UnetNetwork(tensors)
    with needs_extra("train", f"planning on device '{device}'"):
        from vhdiffuser.diffusion.unet import TemporalUnet
        from vhdiffuser.torch_network import TorchNetwork, state_dict
    module = TemporalUnet(width, config.dim, config.dim_mults)
    module.load_state_dict(state_dict(tensors))
    return TorchNetwork(module, device)


def as_network(
    network: Network | torch.nn.Module, config: PlannerConfig, spec: EnvSpec, device: torch.device | str = "cpu"
) -> Network:
    """A network as a function of arrays; a torch U-Net is copied to the engine that suits the device."""
    if not hasattr(network, "state_dict"):
        return cast(Network, network)
    from vhdiffuser.diffusion.unet import TemporalUnet
    from vhdiffuser.torch_network import TorchNetwork, arrays

    if isinstance(network, TemporalUnet) and is_cpu(device):
        return unet_network(arrays(network.state_dict()), config, spec)
    return TorchNetwork(cast("torch.nn.Module", network), device)
