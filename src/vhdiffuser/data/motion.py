"""How fast data moves: its speeds, and the fastest of them, which a planner's file keeps for judging its plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhdiffuser.errors import DataError
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

SPEED_LAG = 10
"""Control steps over which a speed is taken."""


@dataclass(frozen=True)
class FastestMotion:
    """The fastest that the goal dimensions moved in some data."""

    speed: float
    """Units per control step."""
    acceleration: float
    """Gain of speed, in units per control step, per control step; infinity: at once."""

    def to_notes(self) -> dict[str, float | None]:
        """As a model's header keeps it; JSON has no infinity."""
        at_once = self.acceleration == np.inf
        return {"fastest_speed": self.speed, "fastest_acceleration": None if at_once else self.acceleration}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> FastestMotion | None:
        """What `to_notes` wrote; none where the header does not say."""
        if "fastest_speed" not in notes:
            return None
        acceleration = notes["fastest_acceleration"]
        return cls(notes["fastest_speed"], np.inf if acceleration is None else acceleration)


def observed_speeds(episodes: Episodes, spec: EnvSpec) -> FloatArray:
    """(N - SPEED_LAG,) speed of the goal dimensions from each state on, units per control step; NaN over an end.

    Taken over 10 steps: an ant's sway within a stride is not progress.
    """
    goals = spec.goal_of(spec.planning_state(episodes.observations))
    moved = np.linalg.norm(goals[SPEED_LAG:] - goals[:-SPEED_LAG], axis=1)
    number = np.repeat(np.arange(len(episodes)), np.diff(episodes.ends, prepend=0))
    same = number[SPEED_LAG:] == number[:-SPEED_LAG]
    if not same.any():
        raise DataError(f"no episode has {SPEED_LAG + 1} states: the data is too short to tell its speed. State one.")
    return np.where(same, moved / SPEED_LAG, np.nan)


def fastest_motion(episodes: Episodes, spec: EnvSpec) -> FastestMotion:
    """The fastest speed of the goal dimensions in the data, and its fastest gain, both over 10 control steps."""
    speeds = observed_speeds(episodes, spec)
    fastest = float(np.nanmax(speeds))
    gain = float(np.nanmax(speeds[SPEED_LAG:] - speeds[:-SPEED_LAG], initial=0.0))
    # Without a gain to be seen (episodes too short, or one speed but for rounding) it takes no time to get going.
    return FastestMotion(fastest, gain / SPEED_LAG if gain > 1e-3 * fastest else np.inf)
