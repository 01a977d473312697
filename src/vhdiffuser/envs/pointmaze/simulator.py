"""OGBench's pointmaze behind the planning interface: a ball of radius 0.7 m whose actions are displacements.

An observation is its position. A step moves the ball by 0.2 m times the action and sets its velocity to zero; then
0.1 s of MuJoCo push it out of any wall that it was moved into.
"""

from __future__ import annotations

import mujoco
import numpy as np

from vhdiffuser.envs.locomaze.maze import MazeName, cell_of
from vhdiffuser.envs.locomaze.physics import FRAME_SKIP, LocoPhysics
from vhdiffuser.envs.locomaze.simulator import LocoMazeEnv
from vhdiffuser.envs.pointmaze.environments import CLOSEST, RADIUS, STEP_LENGTH
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray


class PointPhysics(LocoPhysics):
    """The point: moved by its action, pushed by walls alone."""

    body = "point"

    def __init__(self, maze: MazeName = "medium") -> None:
        super().__init__(maze)
        self._is_wall: list[list[bool]] = (self.maze_map == 1).tolist()

    def restore(self, observation: FloatArray) -> None:
        """Stand at (x, y): a step begins at rest, so this is all there is to know."""
        mujoco.mj_resetData(self.model, self.data)
        self.position[:] = np.asarray(observation, np.float64)
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with an action in [-1, 1]^2."""
        self.position[:] = self.position + STEP_LENGTH * action
        self.velocity[:] = 0.0
        if self._near_wall():
            mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)
        else:  # Nothing acts on a ball at rest: MuJoCo would leave it there, at ten times the cost.
            self.data.qacc_warmstart[:] = 0.0

    def observation(self) -> FloatArray:
        """(2,) float64 copy of the position."""
        return self.position.copy()

    def _near_wall(self) -> bool:
        """Whether the square around the ball reaches into a wall's cell."""
        x, y = self.position.tolist()
        reach = RADIUS + 1e-6
        top, left = cell_of((x - reach, y - reach))
        bottom, right = cell_of((x + reach, y + reach))
        rows = self._is_wall[top], self._is_wall[bottom]
        return rows[0][left] or rows[0][right] or rows[1][left] or rows[1][right]


class PointMazeEnv(LocoMazeEnv):
    """The point behind the planning interface."""

    closest = CLOSEST

    def __init__(self, spec: EnvSpec, maze: MazeName = "medium") -> None:
        super().__init__(spec, PointPhysics(maze))

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The whole maze from above, with the goal as OGBench draws it."""
        mujoco.mj_kinematics(self.physics.model, self.physics.data)  # where the ball was moved to without a step
        return super().render(width, height)
