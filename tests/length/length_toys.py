"""Small worlds with known D*, and a bare training loop."""

import copy

import numpy as np
import torch
from torch import nn

from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, Episodes


def toy_spec(dims: int, T_max: int, epsilon: float) -> EnvSpec:
    """A world whose state is its goal."""
    every = tuple(range(dims))
    return EnvSpec(
        name="toy",
        observation_dim=dims,
        action_dim=0,
        state_dims=every,
        state_names=tuple("xyz"[:dims]),
        goal_dims=every,
        velocity_dims=None,
        control_dt=1.0,
        epsilon=epsilon,
        T_max=T_max,
        L_min=2,
    )


def chain_walks(cells: int, stay: float, episodes: int, length: int, seed: int = 0) -> Episodes:
    """A walker on a chain with a momentum of its own: it dithers in place and sometimes turns round."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(episodes):
        place, sign, places = int(rng.integers(cells)), int(rng.choice([-1, 1])), []
        for _ in range(length):
            places.append(place)
            if rng.random() < 0.05 or not 0 <= place + sign < cells:
                sign = -sign
            if rng.random() > stay and 0 <= place + sign < cells:
                place += sign
        parts.append((np.array(places, np.float32)[:, None], np.zeros((length - 1, 0), np.float32)))
    return Episodes.from_parts(parts)


def grid_walks(size: int, wall: set[tuple[int, int]], episodes: int, length: int, seed: int = 0) -> Episodes:
    """A walker on a grid with a wall, that keeps its direction for a while."""
    rng = np.random.default_rng(seed)
    free = [(r, c) for r in range(size) for c in range(size) if (r, c) not in wall]
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    parts = []
    for _ in range(episodes):
        place, move, places = free[rng.integers(len(free))], moves[rng.integers(4)], []
        for _ in range(length):
            places.append(place)
            ahead = (place[0] + move[0], place[1] + move[1])
            if ahead in wall or not (0 <= ahead[0] < size and 0 <= ahead[1] < size) or rng.random() < 0.15:
                move = moves[rng.integers(4)]
            else:
                place = ahead
        parts.append((np.array(places, np.float32), np.zeros((length - 1, 0), np.float32)))
    return Episodes.from_parts(parts)


def fit(episodes: Episodes, spec: EnvSpec, config: LengthConfig, updates: int) -> tuple[nn.Module, LengthTask]:
    """Train without the common loop; returns the EMA network and the task."""
    task = LengthTask(episodes, spec, config, Normalizer.fit(episodes.observations), "toy")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = task.make_network()
    ema = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for update in range(updates):
        loss, scalars = task.loss(network, ema, torch.Generator().manual_seed(update), update)
        task.observe({name: torch.as_tensor(value) for name, value in scalars.items()}, update)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        for slow, fast in zip(ema.parameters(), network.parameters(), strict=True):
            slow.lerp_(fast.detach(), 0.02)
    return ema, task
