"""OGBench's pointmaze behind the planning interface: a ball of radius 0.7 m whose actions are displacements.

An observation is its position. A step moves the ball by 0.2 m times the action and sets its velocity to zero; then
0.1 s of MuJoCo physics pushes it out of any wall that it was moved into.
"""

from __future__ import annotations

import mujoco
import numpy as np

from vhdiffuser.envs.locomaze.maze import MazeName, cell_of, cells_of
from vhdiffuser.envs.locomaze.physics import FRAME_SKIP, LocoBatch, LocoPhysics
from vhdiffuser.envs.locomaze.simulator import LocoMazeEnv
from vhdiffuser.envs.pointmaze.environments import CLOSEST, RADIUS, STEP_LENGTH
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, ImageArray, IntArray

_NEAR = RADIUS + 1e-6
"""Half the side of the square around the ball in which walls can push it."""


class PointPhysics(LocoPhysics):
    """The point: moved by its action, pushed only by walls."""

    body = "point"
    reach = RADIUS

    def __init__(self, maze: MazeName = "medium") -> None:
        super().__init__(maze)
        self._is_wall: list[list[bool]] = (self.maze_map == 1).tolist()

    def restore(self, observation: FloatArray) -> None:
        """Set the position (x, y), which is the full state, since each step starts at rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.position[:] = np.asarray(observation, np.float64)
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with an action in [-1, 1]^2."""
        self.position[:] = self.position + STEP_LENGTH * action
        self.velocity[:] = 0.0
        if self._near_wall():
            mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)
        else:  # No force acts on a ball at rest: MuJoCo would leave it there, at ten times the cost.
            self.data.qacc_warmstart[:] = 0.0

    def observation(self) -> FloatArray:
        """(2,) float64 copy of the position."""
        return self.position.copy()

    def batch(self, copies: int, threads: int = 1) -> LocoBatch:
        """Copies to be stepped together."""
        return PointBatch(self, copies, threads)

    def _near_wall(self) -> bool:
        """Whether the square around the ball overlaps a wall's cell."""
        x, y = self.position.tolist()
        top, left = cell_of((x - _NEAR, y - _NEAR))
        bottom, right = cell_of((x + _NEAR, y + _NEAR))
        rows = self._is_wall[top], self._is_wall[bottom]
        return rows[0][left] or rows[0][right] or rows[1][left] or rows[1][right]


class PointBatch(LocoBatch):
    """Points stepped together; as in `PointPhysics`, only those near a wall are simulated."""

    def __init__(self, physics: PointPhysics, copies: int, threads: int = 1) -> None:
        super().__init__(physics, copies, threads)
        self._is_wall: BoolArray = physics.maze_map == 1

    def step(self, copies: IntArray, actions: FloatArray) -> None:
        """One control step of these copies, in ascending order, with actions (k, 2) in [-1, 1]."""
        points = self.simulations
        moved = points.position[copies] + STEP_LENGTH * actions
        points.position[copies], points.velocity[copies] = moved, 0.0
        near = np.zeros(len(copies), bool)
        for side in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
            i, j = cells_of(moved + _NEAR * np.array(side)).T
            near |= self._is_wall[i, j]
        points.warmstart[copies[~near]] = 0.0
        points.step(copies[near], FRAME_SKIP)

    def observations(self, copies: IntArray) -> FloatArray:
        """(k, 2) float64."""
        return self.simulations.position[copies]


class PointMazeEnv(LocoMazeEnv):
    """The point behind the planning interface."""

    closest = CLOSEST

    def __init__(self, spec: EnvSpec, maze: MazeName = "medium") -> None:
        super().__init__(spec, PointPhysics(maze))

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The whole maze from above, with the goal as OGBench draws it."""
        mujoco.mj_kinematics(
            self.physics.model, self.physics.data
        )  # the ball may have been moved without a physics step
        return super().render(width, height)
