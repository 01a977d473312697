"""Mini-batches: the hit search against a loop, goal sources, episode ends."""

import numpy as np
import pytest
import torch

from vhdiffuser.errors import VhdError
from vhdiffuser.length.batches import PairSampler
from vhdiffuser.length.config import GoalMixture

T_MAX, EPSILON = 12, 0.1
MIXTURE = GoalMixture(endpoint=0.2, local=0.5, far=0.3)


@pytest.fixture
def sampler() -> PairSampler:
    rng = np.random.default_rng(0)
    lengths = [2, 7, 40, 3, 60]
    walk = np.cumsum(rng.normal(0, 0.08, (sum(lengths), 3)), axis=0)
    states = torch.from_numpy(np.clip(walk, -1, 1).astype(np.float32))
    return PairSampler(states, torch.tensor(np.cumsum(lengths)), (0, 2), EPSILON, T_MAX)


def test_first_hit_is_what_a_loop_finds(sampler: PairSampler) -> None:
    generator = torch.Generator().manual_seed(1)
    t = sampler.draw_starts(400, generator)
    u = sampler.draw_goals(t, MIXTURE, generator)
    g = sampler.goals_at(u)
    steps, hit = sampler.first_hit(t, g)
    for start, goal, found, any_hit in zip(t.tolist(), g, steps.tolist(), hit.tolist(), strict=True):
        stop = min(start + T_MAX, int(sampler.last[start]))
        near = [
            index - start
            for index in range(start, stop + 1)
            if (sampler.states[index, [0, 2]] - goal).abs().max() <= EPSILON
        ]
        assert any_hit == bool(near)
        if near:
            assert found == near[0]
    assert 0 < hit.float().mean() < 1
    assert (steps[hit] == 0).any()


def test_batches_never_cross_episode_ends(sampler: PairSampler) -> None:
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        batch = sampler.draw(256, MIXTURE, (1, 4, 64), generator)
        reached = batch.t + batch.k
        assert (batch.t < sampler.last[batch.t]).all()
        assert (reached <= sampler.last[batch.t]).all()
        assert torch.equal(batch.s_k, sampler.states[reached])
        at_goal = (batch.s_k[:, [0, 2]] - batch.g).abs().amax(dim=1) <= EPSILON
        assert at_goal[batch.hit].all()
        clipped = torch.minimum(torch.tensor(64), sampler.last[batch.t] - batch.t)
        assert (batch.k[~batch.hit] <= clipped[~batch.hit]).all()


def test_starts_are_uniform_over_transitions(sampler: PairSampler) -> None:
    t = sampler.draw_starts(200_000, torch.Generator().manual_seed(3))
    counts = torch.bincount(t, minlength=len(sampler.states)).float()
    last = torch.zeros(len(counts), dtype=torch.bool)
    last[sampler.last] = True
    assert (counts[last] == 0).all()
    expected = len(t) / int((~last).sum())
    assert (counts[~last] / expected - 1).abs().max() < 0.15


def test_goal_sources(sampler: PairSampler) -> None:
    generator = torch.Generator().manual_seed(4)
    t = sampler.draw_starts(5000, generator)
    endpoint = sampler.draw_goals(t, GoalMixture(1, 0, 0), generator)
    assert torch.equal(endpoint, sampler.last[t])
    local = sampler.draw_goals(t, GoalMixture(0, 1, 0), generator)
    reach = torch.minimum(sampler.last[t] - t, torch.tensor(T_MAX))
    assert ((local - t >= 1) & (local - t <= reach)).all()
    assert (local - t == T_MAX).any()
    assert (local - t == 1).any()
    far = sampler.draw_goals(t, GoalMixture(0, 0, 1), generator)
    assert len(torch.unique(far)) == len(sampler.states)


def test_even_draws_are_uniform_over_regions(sampler: PairSampler) -> None:
    region = torch.zeros(len(sampler.states), dtype=torch.int32)
    region[5:9], region[100] = 1, 2
    sampler.divide(region)
    generator = torch.Generator().manual_seed(6)
    drawn = torch.bincount(region[sampler.draw_states(30_000, generator, even=1.0)])
    assert (drawn / 10_000 - 1).abs().max() < 0.05
    half = torch.bincount(region[sampler.draw_states(30_000, generator, even=0.5)])
    assert (half[1] / 5_000 - 1).abs() < 0.2
    starts = sampler.draw_starts(30_000, generator, even=0.5)
    assert (starts < sampler.last[starts]).all()


def test_same_seed_same_batch(sampler: PairSampler) -> None:
    one, two = (sampler.draw(64, MIXTURE, (1, 2), torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one.t, two.t)
    assert torch.equal(one.k, two.k)
    assert torch.equal(one.g, two.g)


@pytest.mark.parametrize("shares", [(0, 0, 0), (-0.1, 1, 1)])
def test_bad_goal_shares_are_refused(shares: tuple[float, float, float]) -> None:
    with pytest.raises(VhdError, match="goal weights"):
        GoalMixture(*shares)
