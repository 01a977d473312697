"""OGBench's pointmaze behind the planning interface: a ball of radius 0.7 m whose actions are displacements.

An observation is its position. A step moves the ball by 0.2 m times the action and sets its velocity to zero; then
0.1 s of MuJoCo push it out of any wall that it was moved into.
"""

from __future__ import annotations

import mujoco
import numpy as np

from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.envs.locomaze.physics import FRAME_SKIP, LocoPhysics
from vhdiffuser.envs.locomaze.simulator import LocoMazeEnv
from vhdiffuser.envs.pointmaze.environments import RADIUS, STEP_LENGTH
from vhdiffuser.types import EnvSpec, FloatArray


class PointPhysics(LocoPhysics):
    """The point: moved by its action, pushed by walls alone."""

    body = "point"

    def restore(self, observation: FloatArray) -> None:
        """Stand at (x, y): a step begins at rest, so this is all there is to know."""
        mujoco.mj_resetData(self.model, self.data)
        self.position[:] = np.asarray(observation, np.float64)
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with an action in [-1, 1]^2."""
        self.position[:] = self.position + STEP_LENGTH * action
        self.velocity[:] = 0.0
        mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)

    def observation(self) -> FloatArray:
        """(2,) float64 copy of the position."""
        return self.position.copy()


class PointMazeEnv(LocoMazeEnv):
    """The point behind the planning interface."""

    radius = RADIUS

    def __init__(self, spec: EnvSpec, maze: MazeName = "medium") -> None:
        super().__init__(spec, PointPhysics(maze))
