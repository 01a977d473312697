"""Plan tracking for robots whose actions are displacements (OGBench's point).

Such a robot has no velocity to control: the action that reaches the plan's next state is known exactly. If that state
is farther away than one step, the robot moves as far as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.errors import VhdError
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


class DisplacementController(Controller):
    """a_t = clip((p_{t+1} - p) / step_length, -1, 1)."""

    def __init__(self, spec: EnvSpec, step_length: float | None) -> None:
        """`step_length`: distance, in units, that an action of 1 moves the robot per control step."""
        if step_length is None or not step_length > 0:
            raise VhdError(
                f"{spec.name}: the controller `displacement` needs the distance that an action of 1 moves the "
                f"robot in one step; got {step_length}. Set `Environment.displacement`."
            )
        if spec.goal_dim != spec.action_dim:
            raise VhdError(
                f"{spec.name}: the controller `displacement` needs one action per goal dimension; got "
                f"{spec.action_dim} actions and {spec.goal_dim} dimensions."
            )
        self.spec, self.step_length = spec, step_length

    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, o), B plans, (B,) -> (B, m)."""
        here = self.spec.goal_of(self.spec.planning_state(observations))  # (B, goal_dim)
        there = self.spec.goal_of(reference_states(plans, indices))  # (B, goal_dim)
        return np.clip((there - here) / self.step_length, -1.0, 1.0).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """Name and step length."""
        return {"name": "displacement", "step_length": self.step_length}
