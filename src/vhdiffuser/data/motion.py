"""Speeds in the data. A planner's file stores their maximum, to check plans against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhdiffuser.errors import DataError
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

SPEED_LAG = 10
"""Control steps over which speed is measured."""


@dataclass(frozen=True)
class FastestMotion:
    """Maximum speed and acceleration of the goal dimensions in the data."""

    speed: float
    """Units per control step."""
    acceleration: float
    """Units per control step squared; infinity means no limit."""

    def to_notes(self) -> dict[str, float | None]:
        """Entry for a model's header; JSON has no infinity."""
        at_once = self.acceleration == np.inf
        return {"fastest_speed": self.speed, "fastest_acceleration": None if at_once else self.acceleration}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> FastestMotion | None:
        """Inverse of `to_notes`; None if the header has no such entry."""
        if "fastest_speed" not in notes:
            return None
        acceleration = notes["fastest_acceleration"]
        return cls(notes["fastest_speed"], np.inf if acceleration is None else acceleration)


def observed_speeds(episodes: Episodes, spec: EnvSpec) -> FloatArray:
    """(N - SPEED_LAG,) speed of the goal dimensions in units per control step; NaN across episode boundaries.

    Measured over 10 steps, since an ant's sway within a stride is not progress.
    """
    goals = spec.goal_of(spec.planning_state(episodes.observations))
    moved = np.linalg.norm(goals[SPEED_LAG:] - goals[:-SPEED_LAG], axis=1)
    number = np.repeat(np.arange(len(episodes)), np.diff(episodes.ends, prepend=0))
    same = number[SPEED_LAG:] == number[:-SPEED_LAG]
    if not same.any():
        raise DataError(
            f"no episode has {SPEED_LAG + 1} states, so the maximum speed cannot be measured. Set it explicitly."
        )
    return np.where(same, moved / SPEED_LAG, np.nan)


def fastest_motion(episodes: Episodes, spec: EnvSpec) -> FastestMotion:
    """Maximum speed and acceleration of the goal dimensions in the data, each over 10 control steps."""
    speeds = observed_speeds(episodes, spec)
    fastest = float(np.nanmax(speeds))
    gain = float(np.nanmax(speeds[SPEED_LAG:] - speeds[:-SPEED_LAG], initial=0.0))
    # If no acceleration can be measured (short episodes, or constant speed up to rounding), it is unlimited.
    return FastestMotion(fastest, gain / SPEED_LAG if gain > 1e-3 * fastest else np.inf)
