"""The arm's workspace without its simulator, in metres and in the observation's units."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import FloatArray

CENTRE = np.array([0.425, 0.0, 0.0])
"""Metres: where the observation's effector position is zero."""
UNITS = 10.0
"""Observation units per metre."""
WORKSPACE = np.array([[0.25, -0.35, 0.02], [0.60, 0.35, 0.35]])
"""Metres, low and high: OGBench clips the effector's target to this box."""


def to_units(metres: FloatArray) -> FloatArray:
    """World position (..., 3) -> the observation's units."""
    return (metres - CENTRE) * UNITS


def to_metres(units: FloatArray) -> FloatArray:
    """The observation's units (..., 3) -> world position."""
    return np.asarray(units, np.float64) / UNITS + CENTRE
