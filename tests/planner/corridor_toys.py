"""A corridor around a wall, its route graph, and an untrained planner with it."""

from __future__ import annotations

import numpy as np
import torch
from plane_toys import plane

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.length.config import LengthConfig, NetworkConfig, RelayGraphConfig
from vhdiffuser.length.network import LengthNetwork
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner

SPEC = plane("corridor", T_max=64)
NORMALIZER = Normalizer(np.array([-10, -10, -4, -4], np.float32), np.array([10, 10, 4, 4], np.float32))
CONFIG = PlannerConfig(dim=8, dim_mults=(1, 2, 4), stride=2, diffusion_steps=32)
WAY = np.array([[-0.9, -0.5], [0.9, -0.5], [0.9, 0.5], [-0.9, 0.5]])
"""A corridor around a wall, normalised: 4.6 long."""


def corridor() -> RouteGraph:
    """Walks there and back along the corridor at 0.01 a step, in episodes of 60 states."""
    rng = np.random.default_rng(0)
    lengths = np.concatenate([[0], np.cumsum(np.abs(np.diff(WAY, axis=0)).sum(axis=1))])
    at = np.arange(0, lengths[-1], 0.01)
    way = np.stack([np.interp(at, lengths, column) for column in WAY.T], axis=1)
    firsts = rng.integers(len(way) - 60, size=400)
    parts = [way[first : first + 60][:: rng.choice([-1, 1])] + rng.normal(0, 0.01, 2) for first in firsts]
    last = np.repeat(np.arange(1, 401) * 60 - 1, 60)
    config = RelayGraphConfig(landmarks=120, moves=100_000)
    return RouteGraph.build(np.concatenate(parts).astype(np.float32), last, SPEC.T_max, config)


def corridor_planner(graph: RouteGraph) -> Planner:
    torch.manual_seed(0)
    config = LengthConfig(network=NetworkConfig(features=8, width=16, depth=1))
    network = LengthNetwork(SPEC.state_dim, SPEC.goal_dims, len(config.quantiles), config.network)
    predictor = LengthPredictor(network, SPEC, config, NORMALIZER, graph)
    unet = TemporalUnet(SPEC.state_dim, CONFIG.dim, CONFIG.dim_mults)
    options = PlanningOptions(steps=4, piece=24, gamma=1.0, smoothing=0.0)  # its velocities are nonsense
    return Planner(unet, CONFIG, SPEC, NORMALIZER, predictor, options=options, outside="ignore")
