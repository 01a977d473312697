"""From a target position to wheel speeds: the controller, and the driver that collects data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from my_robot.cart import TRACK
from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.trajectories import Plan

AHEAD = 5
"""Look-ahead of the controller on the plan, in control steps."""


def wheel_speeds(observations: np.ndarray, targets: np.ndarray, speeds: np.ndarray) -> np.ndarray:
    """(B, 6) observations, (B, 2) places, (B,) speeds -> (B, 2): turn towards the place, and slow down in turns."""
    way = targets - observations[:, :2]
    cos, sin = observations[:, 2], observations[:, 3]
    error = np.arctan2(cos * way[:, 1] - sin * way[:, 0], cos * way[:, 0] + sin * way[:, 1])
    forward = speeds * np.clip(np.cos(error), 0.0, 1.0)
    turn = np.clip(4.0 * error, -3.0, 3.0) * TRACK / 2
    turn = np.where(np.linalg.norm(way, axis=1) < 0.03, 0.0, turn)  # at the place, the direction is meaningless
    return np.clip(np.stack([forward - turn, forward + turn], axis=1), -1, 1).astype(np.float32)


class PursuitController(Controller):
    """Drives to the plan's position `AHEAD` steps ahead, at the speed that gets there in time."""

    def act(self, observations: np.ndarray, plans: Sequence[Plan], indices: np.ndarray) -> np.ndarray:
        """(B, 6) observations -> (B, 2) wheel speeds."""
        targets = reference_states(plans, indices, AHEAD)[:, :2]
        distances = np.linalg.norm(targets - observations[:, :2], axis=1)
        return wheel_speeds(observations, targets, np.minimum(1.0, 2.0 * distances))

    def describe(self) -> dict[str, Any]:
        """Stored with every result."""
        return {"name": "my_robot_pursuit", "ahead": AHEAD}
