"""The landmark near a point, looked up on a fine grid: for very many points at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhdiffuser.types import FloatArray, IntArray

_CELLS = {1: 2**16, 2: 512, 3: 64}
"""Cells along each dimension, by the number of dimensions."""


class LandmarkGrid:
    """A grid over landmarks; each cell knows the landmark nearest to its middle."""

    @staticmethod
    def serves(places: FloatArray) -> bool:
        """Whether places (M, g) have few enough dimensions."""
        return places.shape[1] in _CELLS

    def __init__(self, places: FloatArray, margin: float, nearest: Callable[[FloatArray], IntArray]) -> None:
        """places (M, g) of landmarks; the grid reaches `margin` beyond them. `nearest` maps points (n, g) to (n,)."""
        g = places.shape[1]
        self._size, self._low, high = _CELLS[g], places.min(axis=0) - margin, places.max(axis=0) + margin
        self._step = np.maximum((high - self._low) / self._size, 1e-9).astype(np.float32)
        middles = np.arange(self._size) + 0.5
        axes = [low + side * middles for low, side in zip(self._low, self._step, strict=True)]
        self._landmarks = nearest(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, g))

    def __call__(self, points: FloatArray) -> IntArray:
        """(n, g) -> (n,) landmarks; points beyond the grid count as at its edge."""
        axes = np.clip(((points - self._low) / self._step).astype(np.int32), 0, self._size - 1)  # (n, g)
        cell = axes[:, 0]
        for dim in range(1, axes.shape[1]):
            cell = cell * self._size + axes[:, dim]
        return self._landmarks[cell]
