"""Standard normal noise from a seed: the numbers drawn by `torch.randn` on a CPU, without torch.

Plans were first sampled with torch's generators; the same seed gives the same plan with and without torch.
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
    """A dummy seed for a generator that is seeded right afterwards; numpy would query the operating system."""

    _words = np.zeros(624, np.uint32)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        return self._words[:n_words]


_UNSEEDED = _Unseeded()


class Noise:
    """torch.Generator().manual_seed(seed): the Mersenne Twister with a Box-Muller transform."""

    def __init__(self, seed: int) -> None:
        self._twister = np.random.MT19937(_UNSEEDED)  # type: ignore[arg-type]  # any ISeedSequence is allowed
        np.random.RandomState(self._twister).seed(seed & 0xFFFFFFFF)
        self._spare: float | None = None

    def draw(self, *shape: int) -> FloatArray:
        """Draw float32 standard normal numbers, equal to torch's up to rounding (1e-6)."""
        count = math.prod(shape)
        if count < _BLOCK:
            return np.array([self._one() for _ in range(count)], np.float32).reshape(shape)
        return draw_all([self], *shape)[0]

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """The next 32-bit outputs."""
        return self._twister.random_raw(count)  # type: ignore[return-value]

    def _one(self) -> float:
        """One number in double precision; they are generated in pairs."""
        if self._spare is not None:
            value, self._spare = self._spare, None
            return value
        high1, low1, high2, low2 = self.words(4).tolist()
        angle, radius = (((high << 32 | low) & (2**53 - 1)) * 2.0**-53 for high, low in ((high1, low1), (high2, low2)))
        length = math.sqrt(-2 * math.log1p(-radius))
        self._spare = length * math.sin(2 * math.pi * angle)
        return length * math.cos(2 * math.pi * angle)


def draw_all(streams: Sequence[Noise], *shape: int) -> FloatArray:
    """(B, *shape): one draw from each stream."""
    count = math.prod(shape)
    if count < _BLOCK:
        return np.stack([stream.draw(*shape) for stream in streams])
    values = np.empty((len(streams), count), np.float32)
    whole = count - count % _BLOCK
    words = np.stack([stream.words(count if whole == count else count + _BLOCK) for stream in streams])
    values[:, :whole] = _normal(words[:, :whole])
    if whole < count:  # the last block is drawn again and overlaps the previous one
        values[:, -_BLOCK:] = _normal(words[:, count:])
    return values.reshape(-1, *shape)


def _normal(words: npt.NDArray[np.uint64]) -> FloatArray:
    """(B, 16 n) outputs -> as many normal numbers; in each block of 16 the first eight are paired with the last
    eight."""
    uniform = (words & np.uint64(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)  # the lowest 24 bits
    blocks = uniform.reshape(-1, 2, _BLOCK // 2)
    length = np.sqrt(-2 * np.log(1 - blocks[:, 0]))
    angle = _TWO_PI * blocks[:, 1]
    blocks[:, 0], blocks[:, 1] = length * np.cos(angle), length * np.sin(angle)
    return uniform
