"""One of OGBench's mazes behind the planning interface.

Rows of the maze are y, columns are x: cell (i, j) is centred at (4 j - 4, 4 i - 4). Starts, goals, noise and tasks are
OGBench's.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from vhdiffuser.envs.base import PlanningEnv, Reset, VectorEnv
from vhdiffuser.envs.locomaze.maze import CLEARANCE, cell_centre, noisy_centre, wall_boxes
from vhdiffuser.envs.locomaze.oracle import free_cells
from vhdiffuser.envs.locomaze.physics import LocoPhysics
from vhdiffuser.envs.offscreen import Offscreen, resized
from vhdiffuser.envs.walled_batch import BodiesVector
from vhdiffuser.envs.walls import draw_free, wall_distance
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray, Instance


class LocoMazeEnv(PlanningEnv):
    """A body behind the planning interface.

    A start that is a full observation sets the whole body. Any other start sets only the position: everything else
    (velocities, joints) comes from the body reset, which depends on `instance.seed`. Read it from the observation
    returned by `reset`.
    """

    closest: float
    """Minimum distance of the body's centre from a wall; closer points are refused."""

    def __init__(self, spec: EnvSpec, physics: LocoPhysics) -> None:
        self.spec, self.physics = spec, physics
        self.maze_map = physics.maze_map
        """(n, m): 1 wall, 0 free; rows are y, columns are x."""
        self.walls = wall_boxes(self.maze_map)
        """(n, 4): x_low, x_high, y_low, y_high."""
        self._free = free_cells(self.maze_map)
        self._offscreen: Offscreen | None = None

    def reset(self, instance: Instance) -> FloatArray:
        """OGBench's body reset from the instance's seed, at the start's position; or the state of an observation."""
        self.check(instance)
        self.physics.model.geom("target").pos[:2] = instance.goal  # the disc in `render`; it has no contacts
        if self.spec.is_observation(instance.start):
            self.physics.restore(instance.start)
        else:
            self.physics.reset(self.spec.place_of(instance.start), np.random.default_rng(instance.seed))
        return self.physics.observation().astype(np.float32)

    def step(self, action: FloatArray) -> FloatArray:
        """One action, clipped to [-1, 1]^m."""
        self.physics.step(np.clip(action, -1.0, 1.0))
        return self.physics.observation().astype(np.float32)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """`reset`: a random free cell +- 1, OGBench's noise; `uniform`: anywhere 1 m from all walls."""
        if distribution == "reset":
            start, goal = (noisy_centre(rng.choice(self._free), rng) for _ in range(2))
        elif distribution == "uniform":
            start, goal = (draw_free(self.walls, CLEARANCE, rng) for _ in range(2))
        else:
            raise UnknownNameError("distribution", distribution, ["reset", "uniform"])
        return self._instance(start, goal, rng)

    def ogbench_tasks(self, rng: np.random.Generator) -> list[Instance]:
        """OGBench's five evaluation tasks, with its noise on start and goal."""
        return [
            self._instance(noisy_centre(start, rng), noisy_centre(goal, rng), rng)
            for start, goal in self.physics.task_cells
        ]

    def clearance(self, points: FloatArray) -> FloatArray:
        """Distance from (..., 2) points to the nearest wall; 0 inside a wall or outside the maze."""
        return wall_distance(self.walls, points)

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` unless start and goal are finite and in free space (a start may have more dimensions)."""
        for name, value in self.finite_ends(instance):
            xy = self.spec.place_of(value)
            if self.clearance(xy) < self.closest:
                nearest = cell_centre(min(self._free, key=lambda cell: np.linalg.norm(cell_centre(cell) - xy)))
                raise VhdError(
                    f"{self.spec.name}: {name} ({xy[0]:.2f}, {xy[1]:.2f}) is in a wall, outside the maze, or "
                    f"closer to a wall than the body can come ({self.closest} m). The nearest free cell is "
                    f"centred at ({nearest[0]:g}, {nearest[1]:g}); cells are 4 m wide."
                )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The whole maze from above, with the goal as OGBench draws it."""
        self._offscreen = resized(self._offscreen, self.physics.model, width, height)
        return self._offscreen.draw(self.physics.data, self._camera())

    def vector(self, slots: int, threads: int, reset: Reset | None = None) -> VectorEnv | None:
        """Bodies stepped together; None for a subclass with a `step` of its own."""
        if type(self).step is not LocoMazeEnv.step:
            return None
        return BodiesVector(self, self.physics.batch(slots, threads), reset)

    def _camera(self) -> Any:
        camera = mujoco.MjvCamera()
        rows, columns = self.maze_map.shape
        camera.lookat[:2] = 2 * (columns - 3), 2 * (rows - 3)
        camera.distance, camera.elevation = 5 * (columns - 2), -90
        return camera

    def _instance(self, start: FloatArray, goal: FloatArray, rng: np.random.Generator) -> Instance:
        state = np.zeros(self.spec.state_dim, np.float32)
        state[list(self.spec.goal_dims)] = start
        return Instance(state, goal.astype(np.float32), int(rng.integers(2**31)))
