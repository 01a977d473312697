"""A Length Predictor that sees pixels: a CNN in place of the Fourier features, nothing else changed.

    python examples/length_from_pixels.py
    python examples/length_from_pixels.py 3000        for longer

A state is a picture of the maze from above, 32 x 32, with the walls in one channel and the ball in the other. The
network sees start and goal as two such pictures and nothing else, through one encoder. Positions serve only to
draw them, and to decide which states count as the goal. Losses, targets and curriculum are those of
`vhd train length`. Predicted steps are then compared with the true distances in the maze.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import nn

from vhdiffuser import LengthPredictor
from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.cli import run as vhd
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import train
from vhdiffuser.types import Episodes

SIDE = 32
BALL = 0.08
"""Radius of the ball's blob, normalised: slightly more than a pixel."""


def pixel_centres() -> torch.Tensor:
    """(SIDE,) normalised coordinates, a little beyond the data's limits so that the outer walls are seen."""
    return torch.linspace(-1.2, 1.2, SIDE)


def picture_of_walls(environment: Environment, normalizer: Normalizer) -> torch.Tensor:
    """(SIDE, SIDE), 1 in walls."""
    x, y = np.meshgrid(pixel_centres(), pixel_centres(), indexing="ij")
    places = normalizer.unnormalize(np.stack([x, y], axis=-1).astype(np.float32))[..., None, :]
    x0, x1, y0, y1 = np.asarray(environment.geometry.walls).T
    px, py = places[..., 0], places[..., 1]
    return torch.from_numpy(((px >= x0) & (px <= x1) & (py >= y0) & (py <= y1)).any(axis=-1).astype(np.float32))


class PixelEncoder(nn.Module):
    """Renders a state and passes the picture through a small CNN. An encoder needs `out_dim`, nothing more."""

    walls: torch.Tensor

    def __init__(self, walls: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("walls", walls.clone())
        self.out_dim = 64
        self.cnn = nn.Sequential(
            *(nn.Conv2d(2, 16, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * (SIDE // 8) ** 2, self.out_dim)),
        )

    def render(self, x: torch.Tensor) -> torch.Tensor:
        """(B, 2) normalised positions -> (B, 2, SIDE, SIDE) pixels."""
        rows, columns = (torch.exp(-0.5 * ((pixel_centres() - x[:, [dim]]) / BALL) ** 2) for dim in (0, 1))  # (B, SIDE)
        ball = rows[:, :, None] * columns[:, None, :]
        return torch.stack([self.walls.expand_as(ball), ball], dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., 2) -> (..., out_dim)."""
        return self.cnn(self.render(x.reshape(-1, 2))).reshape(*x.shape[:-1], self.out_dim)


def main() -> None:
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    folder = Path(tempfile.mkdtemp())
    os.environ.setdefault("VHD_HOME", str(folder))  # leaves your own cache alone
    vhd(["data", "get", "maze2d-umaze", "--source", "build", "--size", "100000", "--quiet"])
    environment, data = get_environment("maze2d-umaze"), load_dataset("maze2d-umaze")

    # What a picture shows: where the ball is, not how fast it moves.
    spec = replace(data.spec, state_dims=(0, 1), state_names=("x", "y"), velocity_dims=None)
    episodes = Episodes(data.episodes.observations, data.episodes.actions, data.episodes.ends)
    normalizer = Normalizer.fit(spec.planning_state(episodes.observations))
    walls = picture_of_walls(environment, normalizer)

    def make_encoder(dim: int, config: NetworkConfig) -> nn.Module:
        return PixelEncoder(walls)

    config = replace(LengthConfig().scheduled(updates), batch=128, full_state_goals=True)
    path = train(
        lambda on: LengthTask(episodes, spec, config, normalizer, data.fingerprint(), on, make_encoder),
        LoopConfig(updates=updates, learning_rate=1e-3, warmup=20, ema=0.99, threads=1),
        folder / "length",
        lambda status: None,
    )
    predictor = LengthPredictor.load(path, make_encoder=make_encoder)

    pairs = draw_instances(environment.make(), 500, seed=8)
    starts, goals = (np.stack([getattr(pair, end)[:2] for pair in pairs]) for end in ("start", "goal"))
    geodesic = make_geodesic(environment)
    assert geodesic is not None
    true = geodesic.distance(starts, goals)
    rank = spearmanr(predictor.predict_steps(starts, goals), true).statistic
    straight = spearmanr(np.linalg.norm(starts - goals, axis=1), true).statistic
    print(f"rank correlation with the true distance: {rank:.3f} from pixels (a straight line: {straight:.3f})")


if __name__ == "__main__":
    main()
