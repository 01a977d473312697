"""Crops stay inside their episode, start everywhere they may, and have the knots that the lengths ask for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vhdiffuser.data.crops import Crops
from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.errors import DataError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbered(lengths: list[int]) -> tuple[Crops, np.ndarray, np.ndarray]:
    """States that say which episode they belong to and where they are in it."""
    states = np.concatenate([np.stack([np.full(n, e), np.arange(n)], 1) for e, n in enumerate(lengths)])
    ends = np.cumsum(lengths)
    return Crops(states.astype(np.float32), ends), states, ends


@pytest.mark.parametrize("stride", [1, 3, 4])
@pytest.mark.parametrize("knots", [2, 3, 5])
def test_crops_never_cross_an_episode_end_and_keep_the_stride(stride: int, knots: int) -> None:
    crops, _, _ = numbered([5, 17, 2, 40, 13])
    drawn = crops.draw(knots, stride, 2000, generator())
    assert drawn.shape == (2000, knots, 2)
    assert (drawn[:, :, 0] == drawn[:, :1, 0]).all()
    assert (drawn[:, 1:, 1] - drawn[:, :-1, 1] == stride).all()


def test_starts_are_uniform_over_all_valid_ones() -> None:
    crops, states, ends = numbered([4, 3, 9, 6])
    length = 4
    begins = np.concatenate([[0], ends[:-1]])
    valid = [t for b, e in zip(begins, ends, strict=True) for t in range(b, e - length + 1)]
    assert len(valid) == 1 + 0 + 6 + 3
    starts = crops.draw_starts(length, 50_000, generator()).numpy()
    counts = np.bincount(starts, minlength=len(states))
    assert set(np.flatnonzero(counts)) == set(valid)
    expected = 50_000 / len(valid)
    assert np.abs(counts[valid] - expected).max() < 5 * np.sqrt(expected)


def test_a_demonstration_drawn_first_makes_short_ones_as_likely_as_long_ones() -> None:
    """Algorithm 1, lines 2 and 3: each demonstration of at least L states, then i ~ {0..T-L}, both uniform."""
    crops, states, _ = numbered([5, 3, 30, 4])
    starts = crops.draw_starts(4, 60_000, generator(), demonstration_first=True).numpy()
    counts = np.bincount(starts, minlength=len(states))
    for begin, valid in ((0, 2), (8, 27), (38, 1)):
        expected = 20_000 / valid
        assert np.abs(counts[begin : begin + valid] - expected).max() < 5 * np.sqrt(expected)
    assert counts.sum() == sum(counts[begin : begin + valid].sum() for begin, valid in ((0, 2), (8, 27), (38, 1)))


def test_the_whole_of_an_episode_is_a_valid_crop() -> None:
    crops, _, _ = numbered([7, 9])
    assert (crops.draw(9, 1, 50, generator())[:, :, 1] == torch.arange(9)).all()
    assert (crops.draw(3, 4, 50, generator())[:, :, 0] == 1).all()


def test_same_seed_same_crops() -> None:
    crops, _, _ = numbered([30, 30])
    assert torch.equal(crops.draw(5, 2, 64, generator(3)), crops.draw(5, 2, 64, generator(3)))
    assert not torch.equal(crops.draw(5, 2, 64, generator(3)), crops.draw(5, 2, 64, generator(4)))


def test_a_crop_longer_than_every_episode_says_so() -> None:
    crops, _, _ = numbered([7, 9])
    with pytest.raises(DataError, match="the longest has 9"):
        crops.draw(10, 1, 4, generator())


def test_ends_that_do_not_fit_the_states_are_refused() -> None:
    with pytest.raises(DataError, match="must end at the last"):
        Crops(np.zeros((5, 2), np.float32), np.array([3, 4]))


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, 8])
def test_knots_span_the_length_to_within_half_a_stride(stride: int) -> None:
    for length in range(stride + 1, 700):
        span = (knot_count(length, stride) - 1) * stride
        assert abs(span - (length - 1)) <= stride / 2
        if (length - 1) % stride == 0:
            assert span == length - 1
    assert [knot_count(length, 1) for length in (2, 3, 100)] == [2, 3, 100]
    assert knot_count(2, 8) == 2
