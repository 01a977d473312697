"""Min-max normaliser, fitted on the training data and stored with every model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vhdiffuser.arguments import LARGEST, shown
from vhdiffuser.errors import DataError
from vhdiffuser.types import FloatArray


@dataclass(frozen=True)
class Normalizer:
    """Maps [low, high] to [-1, 1] per dimension. A constant dimension maps to 0."""

    low: FloatArray
    """(d,) lower limits."""
    high: FloatArray
    """(d,) upper limits."""

    def __post_init__(self) -> None:
        if self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise DataError(
                f"normaliser limits must be two vectors of equal length; got shapes {self.low.shape} and "
                f"{self.high.shape}."
            )
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all() and (self.low <= self.high).all()):
            raise DataError("normaliser limits must be finite with low <= high.")
        if max(np.abs(self.low).max(initial=0), np.abs(self.high).max(initial=0)) > LARGEST:
            raise DataError(f"normaliser limits must not exceed {LARGEST:g}.")

    @classmethod
    def fit(cls, values: FloatArray) -> Normalizer:
        """Fit the limits to the extremes of (N, d) values."""
        return cls(values.min(axis=0).astype(np.float32), values.max(axis=0).astype(np.float32))

    @classmethod
    def spread(cls, values: FloatArray) -> Normalizer:
        """Fit the limits to mean +- two standard deviations of (N, d) values, so that outliers do not compress the
        rest."""
        mean, deviation = values.mean(axis=0, dtype=np.float64), values.std(axis=0, dtype=np.float64)
        return cls((mean - 2 * deviation).astype(np.float32), (mean + 2 * deviation).astype(np.float32))

    @cached_property
    def center(self) -> FloatArray:
        """(d,) value that maps to 0."""
        return (self.high + self.low) / 2

    @cached_property
    def scale(self) -> FloatArray:
        """(d,) units per normalised unit; 1 in constant dimensions, which map to 0 and back."""
        half = (self.high - self.low) / 2
        return np.where(half > 0, half, np.float32(1.0))

    def normalize(self, values: FloatArray) -> FloatArray:
        """Units -> [-1, 1]; (..., d)."""
        return ((values - self.center) / self.scale).astype(np.float32, copy=False)

    def unnormalize(self, values: FloatArray) -> FloatArray:
        """[-1, 1] -> units; (..., d)."""
        return (values * self.scale + self.center).astype(np.float32, copy=False)

    def select(self, dims: tuple[int, ...]) -> Normalizer:
        """The normaliser of a subset of dimensions; cached."""
        if dims not in self._selected:
            self._selected[dims] = Normalizer(self.low[list(dims)], self.high[list(dims)])
        return self._selected[dims]

    @cached_property
    def _selected(self) -> dict[tuple[int, ...], Normalizer]:
        return {}

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict, exact for float32."""
        return {"low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Normalizer:
        """The inverse of `to_json`."""
        try:
            return cls(np.asarray(value["low"], np.float32), np.asarray(value["high"], np.float32))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"a normaliser needs two lists of numbers, low and high; got {shown(value)}.") from error
