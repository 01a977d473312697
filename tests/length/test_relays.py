"""The relay graph: landmarks cover, hops are observed ones, ways add up and are never shorter than the truth."""

import numpy as np
import torch

from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.relays import RelayGraph, cover, observed_hops


def test_cover_reaches_every_point_within_its_radius() -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (500, 2)).astype(np.float32)
    chosen, radius = cover(points, 60)
    distance = np.abs(points[:, None] - chosen[None]).max(axis=2).min(axis=1)
    assert distance.max() <= radius + 1e-6
    assert len(np.unique(chosen, axis=0)) == 60
    everything, none_left = cover(points, 1000)
    assert len(everything) == 500
    assert none_left == 0.0


def test_hops_are_observed_lengths_within_one_episode() -> None:
    region = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    last = np.array([3, 3, 3, 3, 7, 7, 7, 7])
    hops = observed_hops(region, last, 2, RelayGraphConfig(level=0.01, least=1))
    expected = np.zeros((4, 4))
    expected[0, 1] = 2
    expected[2, 3] = 2  # but none from 1 to 2: another episode
    np.testing.assert_array_equal(hops, expected)
    assert observed_hops(region, last, 2, RelayGraphConfig(level=0.01, least=4)).sum() == 0


def walks_on_a_line(steps: float, episodes: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Back and forth at constant speed over a piece of [-1, 1]; no episode sees the whole line."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(episodes):
        start, sign = rng.uniform(-1, 1), rng.choice([-1, 1])
        place = start + sign * steps * np.arange(length)
        parts.append(1 - np.abs((place + 1) % 4 - 2))  # reflected at both ends
    goals = torch.tensor(np.concatenate(parts)[:, None], dtype=torch.float32)
    last = torch.arange(1, episodes + 1).repeat_interleave(length) * length - 1
    return goals, last


def test_ways_are_joined_across_episodes() -> None:
    speed = 0.01  # 200 steps from end to end, episodes of 90
    goals, last = walks_on_a_line(speed, episodes=400, length=90)
    graph = RelayGraph(goals, last, 300, RelayGraphConfig(landmarks=100, hop=10, level=0.1))
    rng = np.random.default_rng(1)
    i, j = (torch.from_numpy(rng.integers(len(goals), size=2000)) for _ in range(2))
    truth = (goals[i] - goals[j]).abs()[:, 0] / speed
    found = graph.steps(i, j)
    far = truth > 60
    assert torch.isfinite(found).all()
    assert ((found - truth) / truth)[far].abs().mean() < 0.1
    assert graph.shortest_hop is not None
    k = torch.tensor([[0, 8]]).expand(len(i), 2).minimum((last[i] - i)[:, None])
    assert (graph.bound(i, k, j) <= found).all()


def test_a_graph_too_coarse_knows_no_way() -> None:
    goals, last = walks_on_a_line(0.01, episodes=20, length=90)
    graph = RelayGraph(goals, last, 40, RelayGraphConfig(landmarks=4))
    assert graph.shortest_hop is None
    assert torch.isinf(graph.steps(torch.tensor([0]), torch.tensor([5]))).all()
