"""Simulation of a body in one of OGBench's mazes, alone or many at once.

Physics, body reset and tasks are OGBench's; its global random state is not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from vhdiffuser.envs.locomaze.maze import CELL, MazeName, cell_centre
from vhdiffuser.envs.walled_batch import Bodies, WalledBatch, WallGrid
from vhdiffuser.errors import needs_extra
from vhdiffuser.types import FloatArray, IntArray

with needs_extra("ogbench", "OGBench's mazes"):
    from ogbench.locomaze.maze import make_maze_env

FRAME_SKIP = 5
"""Physics steps of 0.02 s per control step."""
RESET_NOISE = 0.1
"""Scale of the noise on the joints and velocities of a body at reset."""
_SLACK = 0.6
"""Metres. An ant's torso moves 0.11 m in a control step (median; 0.29 m at most in all but one of a thousand)."""


class LocoPhysics(ABC):
    """A body whose first two coordinates are its xy position."""

    body: Literal["point", "ant"]
    """OGBench's name of the body."""
    reach: float
    """Maximum distance of any part of the body, including the contact margin, from its xy position, in metres."""

    def __init__(self, maze: MazeName = "medium") -> None:
        ogbench = make_maze_env(self.body, "maze", maze_type=maze, terminate_at_goal=False)
        path = Path(ogbench.fullpath)
        self.xml = path.read_text()
        path.unlink()  # OGBench leaves its temporary file behind
        self.model, self.data = ogbench.model, ogbench.data
        self.action_dim = int(self.model.nu)
        self.maze_map: IntArray = ogbench.maze_map
        self.task_cells = [(task["init_ij"], task["goal_ij"]) for task in ogbench.task_infos]
        self._standing = np.concatenate([ogbench.init_qpos, ogbench.init_qvel])
        # Views into MuJoCo's memory: reading them costs nothing.
        self.position, self.velocity, self.control = self.data.qpos, self.data.qvel, self.data.ctrl

    def reset(self, xy: FloatArray, rng: np.random.Generator) -> None:
        """Reset at `xy` with OGBench's noise on body and velocities, drawn in its order."""
        nq, nv = self.model.nq, self.model.nv
        mujoco.mj_resetData(self.model, self.data)
        self.position[:] = self._standing[:nq] + rng.uniform(-RESET_NOISE, RESET_NOISE, nq)
        self.velocity[:] = self._standing[nq:] + RESET_NOISE * rng.standard_normal(nv)
        self.position[:2] = xy
        mujoco.mj_forward(self.model, self.data)

    @abstractmethod
    def restore(self, observation: FloatArray) -> None:
        """Set the full state from an observation."""

    @abstractmethod
    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with an action in [-1, 1]^m."""

    @abstractmethod
    def observation(self) -> FloatArray:
        """(o,) float64 copy."""

    def batch(self, copies: int, threads: int = 1) -> LocoBatch:
        """Copies to be stepped together."""
        return LocoBatch(self, copies, threads)


class LocoBatch(Bodies):
    """Copies of a body in one maze, stepped together: bitwise equal to as many `LocoPhysics`."""

    def __init__(self, physics: LocoPhysics, copies: int, threads: int = 1) -> None:
        is_wall = physics.maze_map == 1
        names = tuple(f"block_{i}_{j}" for i, j in np.argwhere(is_wall))
        x, y = cell_centre((0, 0))
        height = float(physics.model.geom(names[0]).pos[2])
        walls = WallGrid(names, is_wall, origin=(y, x), cell=CELL, axes=(1, 0), height=height)
        self.simulations = WalledBatch(physics.xml, walls, physics.reach, _SLACK, copies, threads)

    def step(self, copies: IntArray, actions: FloatArray) -> None:
        """One control step of these copies, in ascending order, with actions (k, m) in [-1, 1]."""
        self.simulations.control[copies] = actions
        self.simulations.step(copies, FRAME_SKIP)
