"""Start-goal pairs as a calibration knows them: each by the tables that hold for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vhdiffuser.length.calibration import Calibration
from vhdiffuser.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Pairs:
    """B start-goal pairs, with their margins, probabilities and times of arrival."""

    expected: FloatArray
    """(B,) expected steps."""
    parts: tuple[tuple[Calibration, IntArray], ...]
    """Calibrations, and the numbers of the pairs that each holds for."""

    @classmethod
    def of(cls, calibration: Calibration, steps: npt.ArrayLike, places: FloatArray) -> Pairs:
        """From (B,) predicted steps and (B, 2 p) normalised starts and goals."""
        predicted, places = np.atleast_1d(np.asarray(steps, np.float64)), np.atleast_2d(places)
        elsewhere = calibration.elsewhere
        far = np.zeros(len(predicted), bool) if elsewhere is None else elsewhere.holds(places)
        parts = [(calibration, np.flatnonzero(~far))]
        if elsewhere is not None:
            parts.append((elsewhere.calibration, np.flatnonzero(far)))
        expected = np.empty(len(predicted))
        for own, numbers in parts:
            if len(numbers):
                expected[numbers] = own.expected(predicted[numbers], places[numbers])
        return cls(expected, tuple((own, numbers) for own, numbers in parts if len(numbers)))

    def margin(self, risk: float) -> tuple[FloatArray, FloatArray]:
        """`Calibration.margin` of each pair."""
        margins, failure = np.empty((2, len(self.expected)))
        for own, numbers in self.parts:
            margins[numbers], failure[numbers] = own.margin(self.expected[numbers], risk)
        return margins, failure

    def probability(self, lengths: npt.ArrayLike) -> FloatArray:
        """`Calibration.probability` of each pair, for (B,) horizons."""
        L, found = np.asarray(lengths), np.empty(len(self.expected))
        for own, numbers in self.parts:
            found[numbers] = own.probability(self.expected[numbers], L[numbers])
        return found

    def interval(self, lengths: npt.ArrayLike) -> FloatArray:
        """`Calibration.interval` of each pair, for (B,) horizons: (B, 2)."""
        L, found = np.asarray(lengths), np.empty((len(self.expected), 2))
        for own, numbers in self.parts:
            found[numbers] = own.interval(self.expected[numbers], L[numbers])
        return found
