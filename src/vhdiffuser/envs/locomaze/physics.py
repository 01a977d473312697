"""The simulation of a body in one of OGBench's mazes: set, step, read. Data generation runs on this.

Physics, body reset and tasks are OGBench's; its global random numbers are not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.errors import needs_extra
from vhdiffuser.types import FloatArray, IntArray

with needs_extra("ogbench", "OGBench's mazes"):
    from ogbench.locomaze.maze import make_maze_env

FRAME_SKIP = 5
"""Physics steps of 0.02 s in one control step."""
RESET_NOISE = 0.1
"""Scale of the noise on the joints and velocities of a body at reset."""


class LocoPhysics(ABC):
    """A body whose first two coordinates are its xy position."""

    body: Literal["point", "ant"]
    """OGBench's name of the body."""

    def __init__(self, maze: MazeName = "medium") -> None:
        ogbench = make_maze_env(self.body, "maze", maze_type=maze, terminate_at_goal=False)
        Path(ogbench.fullpath).unlink(missing_ok=True)  # OGBench leaves its temporary XML behind
        self.model, self.data = ogbench.model, ogbench.data
        self.action_dim = int(self.model.nu)
        self.maze_map: IntArray = ogbench.maze_map
        self.task_cells = [(task["init_ij"], task["goal_ij"]) for task in ogbench.task_infos]
        self._standing = np.concatenate([ogbench.init_qpos, ogbench.init_qvel])
        # Views into MuJoCo's memory: reading them costs nothing.
        self.position, self.velocity, self.control = self.data.qpos, self.data.qvel, self.data.ctrl

    def reset(self, xy: FloatArray, rng: np.random.Generator) -> None:
        """Stand at `xy` with OGBench's noise on body and velocities, drawn in its order."""
        nq, nv = self.model.nq, self.model.nv
        mujoco.mj_resetData(self.model, self.data)
        self.position[:] = self._standing[:nq] + rng.uniform(-RESET_NOISE, RESET_NOISE, nq)
        self.velocity[:] = self._standing[nq:] + RESET_NOISE * rng.standard_normal(nv)
        self.position[:2] = xy
        mujoco.mj_forward(self.model, self.data)

    @abstractmethod
    def restore(self, observation: FloatArray) -> None:
        """Stand as a whole observation says: it is all there is to know of the body."""

    @abstractmethod
    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with an action in [-1, 1]^m."""

    @abstractmethod
    def observation(self) -> FloatArray:
        """(o,) float64 copy."""
