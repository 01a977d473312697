"""The relay graph: landmarks cover, hops are observed moves, ways add up to the truth across episodes and walls."""

import numpy as np
import torch
from scipy.spatial import cKDTree

from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.hops import cover, observed_hops, steps_to_move
from vhdiffuser.length.relays import RelayGraph


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
    points = np.array([0, 0, 1, 1, 2, 2, 3, 3], float)[:, None]
    last = np.array([3, 3, 3, 3, 7, 7, 7, 7])
    tree = cKDTree(np.arange(4.0)[:, None])
    hops = observed_hops(points, last, tree, 0.0, 2, RelayGraphConfig(quantile=0.01, least=1))
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[2, 3] = 2  # but none from 1 to 2: another episode
    np.testing.assert_array_equal(hops, expected)
    # At 2 steps 0 -> 1 is seen twice, at 3 steps once, at 4 never.
    assert observed_hops(points, last, tree, 0.0, 2, RelayGraphConfig(quantile=0.01, least=4)).sum() == 0


def test_steps_to_move_is_the_median_moves() -> None:
    points = 0.1 * np.arange(50.0)[:, None]
    last = np.full(50, 49)
    assert steps_to_move(points, last, 0.25, 100) == 3
    assert steps_to_move(points, last, 3.0, 100) is None
    waiting = np.concatenate([points, np.full((45, 1), 4.9)])  # nearly half of the data stands at its goal
    assert steps_to_move(waiting, np.full(95, 94), 0.25, 100) == 3


def walks_on_a_line(speed: float, episodes: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Back and forth at constant speed over a piece of [-1, 1]; no episode sees the whole line."""
    rng = np.random.default_rng(0)
    parts = []
    for _ in range(episodes):
        start, sign = rng.uniform(-1, 1), rng.choice([-1, 1])
        place = start + sign * speed * np.arange(length)
        parts.append(1 - np.abs((place + 1) % 4 - 2))  # reflected at both ends
    goals = torch.tensor(np.concatenate(parts)[:, None], dtype=torch.float32)
    last = torch.arange(1, episodes + 1).repeat_interleave(length) * length - 1
    return goals, last


def test_ways_are_joined_across_episodes() -> None:
    speed = 0.01  # 200 steps from end to end, episodes of 90
    goals, last = walks_on_a_line(speed, episodes=400, length=90)
    graph = RelayGraph(goals, last, 300, RelayGraphConfig(landmarks=60, moves=200_000))
    rng = np.random.default_rng(1)
    i, j = (torch.from_numpy(rng.integers(len(goals), size=2000)) for _ in range(2))
    truth = (goals[i] - goals[j]).abs()[:, 0] / speed
    found = graph.steps(i, j)
    far = truth > 40
    assert torch.isfinite(found).all()
    assert ((found - truth) / truth)[far].abs().mean() < 0.25
    assert np.corrcoef(found[far], truth[far])[0, 1] > 0.99
    assert found.min() == 15  # the floor, 5 % of T_max
    k = torch.tensor([[0, 8]]).expand(len(i), 2).minimum((last[i] - i)[:, None])
    assert (graph.bound(i, k, j) <= found).all()


def test_walls_are_not_crossed() -> None:
    """Two corridors side by side, joined at one end only."""
    rng = np.random.default_rng(0)
    along = np.concatenate([np.linspace(-1, 1, 100), np.ones(20), np.linspace(1, -1, 100)])
    aside = np.concatenate([np.full(100, -0.2), np.linspace(-0.2, 0.2, 20), np.full(100, 0.2)])
    way = np.stack([along, aside], axis=1)
    parts = [way[::sign] + rng.normal(0, 0.01, way.shape) for sign in (1, -1) for _ in range(40)]
    goals = torch.tensor(np.concatenate(parts), dtype=torch.float32)
    last = torch.arange(1, 81).repeat_interleave(220) * 220 - 1
    graph = RelayGraph(goals, last, 400, RelayGraphConfig(landmarks=120, moves=200_000))
    ends = graph.steps(torch.tensor([5]), torch.tensor([214]))  # 0.4 apart through the wall, 209 steps round
    assert 150 < float(ends) < 300


def test_a_graph_too_coarse_knows_no_way() -> None:
    goals, last = walks_on_a_line(0.01, episodes=20, length=90)
    graph = RelayGraph(goals, last, 40, RelayGraphConfig(landmarks=4))
    assert len(graph.routes.hops) == 0
    assert torch.isinf(graph.steps(torch.tensor([0]), torch.tensor([5]))).all()
