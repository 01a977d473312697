"""OGBench's antmaze behind the planning interface: an ant with eight joints in a maze of 4 m cells.

An observation is MuJoCo's qpos and qvel: xy, height, quaternion, 8 joints (15 numbers), then the 14 velocities.
"""

from __future__ import annotations

import mujoco
import numpy as np

from vhdiffuser.envs.antmaze.environments import TORSO_RADIUS
from vhdiffuser.envs.base import Skeleton
from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.envs.locomaze.physics import FRAME_SKIP, LocoPhysics
from vhdiffuser.envs.locomaze.simulator import LocoMazeEnv
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, FloatArray, Instance


class AntPhysics(LocoPhysics):
    """The ant: torques on eight joints."""

    body = "ant"
    # A leg's links in a line, 0.8 sqrt(2), and their radius, 0.08; contacts act within 0.02.
    reach = 1.24

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


class AntMazeEnv(LocoMazeEnv):
    """The ant behind the planning interface."""

    closest = TORSO_RADIUS

    def __init__(self, spec: EnvSpec, maze: MazeName = "medium") -> None:
        super().__init__(spec, AntPhysics(maze))

    def check(self, instance: Instance) -> None:
        """Check for free space and, if the start is a full observation, for a valid quaternion."""
        super().check(instance)
        norm = float(np.linalg.norm(instance.start[3:7])) if self.spec.is_observation(instance.start) else 1.0
        # After OGBench's body reset the norm lies between 0.7 and 1.3.
        if not 0.5 <= norm <= 1.5:
            raise VhdError(
                f"{self.spec.name}: numbers 3 to 6 of a full observation are the torso's unit quaternion, but "
                f"its norm is {norm:.2f}. Pass an observation as returned by the environment (qpos, then qvel), "
                "or a position."
            )

    def skeleton(self, observations: FloatArray) -> Skeleton:
        """The capsules of its legs, from hip to foot, and its torso."""
        model, data = self.physics.model, mujoco.MjData(self.physics.model)
        torso, *_ = ant = [int(geom) for geom in range(model.ngeom) if model.geom_bodyid[geom] > 0]
        legs = [geom for geom in ant if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_CAPSULE]
        points = np.zeros((len(observations), 1 + 2 * len(legs), 3))
        for row, observation in zip(points, observations, strict=True):
            data.qpos[:] = observation[: model.nq]
            mujoco.mj_kinematics(model, data)
            along = data.geom_xmat[legs][:, 2::3] * model.geom_size[legs, 1:2]  # (legs, 3): from the middle to an end
            row[0] = data.geom_xpos[torso]
            row[1::2], row[2::2] = data.geom_xpos[legs] - along, data.geom_xpos[legs] + along
        bones = [(1 + 2 * leg, 2 + 2 * leg, float(model.geom_size[geom, 0])) for leg, geom in enumerate(legs)]
        return Skeleton(points, ((0, 0, float(model.geom_size[torso, 0])), *bones))
