"""Standard normal noise from a seed: the numbers that `torch.randn` draws on a CPU, without torch.

Plans were first drawn with torch's generators. The same seed gives the same plan, with torch and without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.types import FloatArray

_BLOCK = 16
"""torch fills blocks of 16 numbers at once; fewer are drawn one by one, in double precision."""
_TWO_PI = np.float32(2 * math.pi)


class _Unseeded(np.random.bit_generator.ISeedSequence):
    """A seed for a generator that is seeded right afterwards: numpy would ask the operating system for one."""

    _words = np.zeros(624, np.uint32)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        return self._words[:n_words]


_UNSEEDED = _Unseeded()


class Noise:
    """torch.Generator().manual_seed(seed): the Mersenne Twister, and Box-Muller's transformation of its output."""

    def __init__(self, seed: int) -> None:
        self._twister = np.random.RandomState(np.random.MT19937(_UNSEEDED))
        self._twister.seed(seed & 0xFFFFFFFF)
        self._spare: float | None = None

    def draw(self, *shape: int) -> FloatArray:
        """float32 standard normal numbers; equal to torch's up to rounding (1e-6)."""
        count = math.prod(shape)
        if count < _BLOCK:
            return np.array([self._one() for _ in range(count)], np.float32).reshape(shape)
        whole = count - count % _BLOCK
        values = self._uniform(count)
        _transform(values[:whole])
        if whole < count:  # the last block is drawn anew, and overlaps the one before
            values[-_BLOCK:] = self._uniform(_BLOCK)
            _transform(values[-_BLOCK:])
        return values.reshape(shape)

    def _uniform(self, count: int) -> FloatArray:
        """float32 in [0, 1): the lowest 24 bits of each output."""
        bits = self._twister.randint(0, 2**32, count, np.uint32) & np.uint32(0xFFFFFF)
        return bits.astype(np.float32) * np.float32(2**-24)

    def _one(self) -> float:
        """One number in double precision; they come in pairs."""
        if self._spare is not None:
            value, self._spare = self._spare, None
            return value
        high1, low1, high2, low2 = self._twister.randint(0, 2**32, 4, np.uint32).tolist()
        angle, radius = (((high << 32 | low) & (2**53 - 1)) * 2.0**-53 for high, low in ((high1, low1), (high2, low2)))
        length = math.sqrt(-2 * math.log1p(-radius))
        self._spare = length * math.sin(2 * math.pi * angle)
        return length * math.cos(2 * math.pi * angle)


def _transform(uniform: FloatArray) -> None:
    """Uniform -> normal numbers, in place; in each block of 16 the first eight go with the last eight."""
    blocks = uniform.reshape(-1, 2, _BLOCK // 2)
    length = np.sqrt(-2 * np.log(1 - blocks[:, 0]))
    angle = _TWO_PI * blocks[:, 1]
    blocks[:, 0], blocks[:, 1] = length * np.cos(angle), length * np.sin(angle)


def draw_all(streams: Sequence[Noise], *shape: int) -> FloatArray:
    """(B, *shape): one draw from each stream."""
    return np.stack([stream.draw(*shape) for stream in streams])
