"""Weights of networks that have learned nothing, and a data set of one's own, for tests of the library and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from web_toys import NORMALIZER, SPEC

from vhdiffuser.cli import run
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.length.network import LengthNetwork
from vhdiffuser.torch_network import arrays
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.format import ModelHeader, save_model
from vhdiffuser.weights.places import run_folder


def save(
    kind: str, name: str, network: torch.nn.Module, config: dict, planning: dict | None = None, spec: EnvSpec = SPEC
) -> None:
    header = ModelHeader(kind, spec.to_json(), config, NORMALIZER.to_json(), "f", planning=planning or {})
    save_model(run_folder(spec.name, name) / "model.safetensors", arrays(network.state_dict()), header)


def save_planner(name: str, horizon: int | None = None, spec: EnvSpec = SPEC) -> None:
    config = PlannerConfig(dim=8, diffusion_steps=16, horizon=horizon)
    network = TemporalUnet(spec.state_dim, config.dim, config.dim_mults)
    save("planner", name, network, config.to_json(), PlanningOptions(steps=2).to_json(), spec)


def save_length(spec: EnvSpec = SPEC) -> None:
    config = LengthConfig()
    network = LengthNetwork(spec.state_dim, goal_dims(spec, config), len(config.quantiles), config.network)
    save("length", "length", network, config.to_json(), spec=spec)


def import_cart(folder: Path) -> None:
    """Import 200 states of a cart in a plane, without a simulator, as `cart`."""
    velocity = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    observations = np.hstack([np.cumsum(0.01 * velocity, axis=0) + 1, velocity])
    np.savez(folder / "cart.npz", observations=observations, episode_ends=[100, 200])
    columns = ["--goal-dims", "0", "1", "--velocity-dims", "2", "3", "--control-dt", "0.01", "--t-max", "64"]
    assert run(["data", "import", "cart", str(folder / "cart.npz"), *columns]) == 0
