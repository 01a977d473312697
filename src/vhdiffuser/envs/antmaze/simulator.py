"""OGBench's antmaze-medium behind the planning interface: an ant with eight joints in a maze of 4 m cells.

An observation is MuJoCo's qpos and qvel: xy, height, quaternion, 8 joints (15 numbers), then the 14
velocities. Rows of the maze are y, columns are x: cell (i, j) is centred at (4 j - 4, 4 i - 4).
Physics, body reset, noise and tasks are OGBench's; its global random state is not used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from vhdiffuser.envs.antmaze.maze import CLEARANCE, TORSO_RADIUS, cell_centre, noisy_centre, wall_boxes
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.offscreen import Offscreen, resized
from vhdiffuser.envs.walls import draw_free, wall_distance
from vhdiffuser.errors import UnknownNameError, VhdError, needs_extra
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray, Instance, IntArray

with needs_extra("ogbench", "antmaze-medium"):
    from ogbench.locomaze.maze import make_maze_env

FRAME_SKIP = 5
"""Physics steps of 0.02 s per control step."""
RESET_NOISE = 0.1
"""Scale of the noise on the joints and velocities of a standing ant."""


class AntPhysics:
    """The simulation alone: set, step, read. Data generation runs on this."""

    def __init__(self) -> None:
        ogbench = make_maze_env("ant", "maze", maze_type="medium", terminate_at_goal=False)
        Path(ogbench.fullpath).unlink(missing_ok=True)  # OGBench leaves its temporary XML behind
        self.model, self.data = ogbench.model, ogbench.data
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

    def restore(self, observation: FloatArray) -> None:
        """Set the full state from an observation (29,)."""
        mujoco.mj_resetData(self.model, self.data)
        self.position[:], self.velocity[:] = np.split(np.asarray(observation, np.float64), [self.model.nq])
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: FloatArray) -> None:
        """One control step of 0.1 s with torques in [-1, 1]^8."""
        self.control[:] = action
        mujoco.mj_step(self.model, self.data, nstep=FRAME_SKIP)

    def observation(self) -> FloatArray:
        """(29,) float64 copy of qpos and qvel."""
        return np.concatenate([self.position, self.velocity])


class AntMazeEnv(PlanningEnv):
    """The ant behind the planning interface.

    A start that is a full observation sets the whole body. Of any other start only the position is set: everything
    else (velocities, joints) comes from the body reset, which `instance.seed` fixes. Read it from the observation that
    `reset` returns.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.physics = AntPhysics()
        self.maze_map = self.physics.maze_map
        """(8, 8): 1 wall, 0 free; rows are y, columns are x."""
        self.walls = wall_boxes(self.maze_map)
        """(n, 4): x_low, x_high, y_low, y_high."""
        self._free = np.argwhere(self.maze_map == 0)
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
        """One action, clipped to [-1, 1]^8."""
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
        """Raise `VhdError` unless start and goal are finite and in free space (a start may be more than that)."""
        for name, value in self.finite_ends(instance):
            xy = self.spec.place_of(value)
            if self.clearance(xy) < TORSO_RADIUS:
                nearest = cell_centre(min(self._free, key=lambda cell: np.linalg.norm(cell_centre(cell) - xy)))
                raise VhdError(
                    f"{self.spec.name}: {name} ({xy[0]:.2f}, {xy[1]:.2f}) is in a wall, outside the maze, or nearer to "
                    f"a wall than the torso's radius of {TORSO_RADIUS}. The nearest free cell is centred at "
                    f"({nearest[0]:g}, {nearest[1]:g}); cells are 4 wide."
                )

        norm = float(np.linalg.norm(instance.start[3:7])) if self.spec.is_observation(instance.start) else 1.0
        # After OGBench's body reset the norm lies between 0.7 and 1.3.
        if not 0.5 <= norm <= 1.5:
            raise VhdError(
                f"{self.spec.name}: numbers 3 to 6 of a full observation are the torso's unit quaternion; "
                f"its norm here is {norm:.2f}. Give an observation as the environment returns it (qpos, then qvel), "
                "or a position."
            )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The whole maze from above, with the goal as OGBench draws it."""
        self._offscreen = resized(self._offscreen, self.physics.model, width, height)
        return self._offscreen.draw(self.physics.data, self._camera())

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
