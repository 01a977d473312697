"""OGBench's cube-single behind the planning interface: positioning the effector of a UR5e arm.

As in the paper, the cube's own task is ignored. An observation has 28 numbers: 6 joint angles, 6 joint
velocities, effector position (12..14, in units of 10 cm from (0.425, 0, 0) m), its yaw as cosine and
sine, gripper opening and contact, then the cube's 9. An action moves the effector by up to 5 cm and
turns it by up to 0.3 rad, through OGBench's inverse kinematics.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import mujoco
import numpy as np

from vhdiffuser.envs.base import PlanningEnv, Skeleton
from vhdiffuser.envs.cube.arm import ArmIK, about_z, inverse, multiply, rotate, yaw_of
from vhdiffuser.envs.cube.workspace import CENTRE, UNITS, WORKSPACE, to_metres, to_units
from vhdiffuser.envs.offscreen import Offscreen, resized
from vhdiffuser.errors import UnknownNameError, VhdError, needs_extra
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray, Instance

with needs_extra("ogbench", "cube"):
    from ogbench.manipspace import lie
    from ogbench.manipspace.controllers import DiffIKController
    from ogbench.manipspace.envs.cube_env import CubeEnv as OgbenchCube

SAMPLED = WORKSPACE + np.array([[0.02], [-0.02]])
"""Metres, low and high: box of `reset` instances, the workspace less 2 cm on each side (73 % of its volume)."""
REACHABLE = WORKSPACE + np.array([[0.01], [-0.01]])
"""Metres, low and high: box of `uniform` instances, where the data is thin at the edges. The faces themselves
cannot be reached: targets are clipped to the workspace, and the arm sags by up to 8 mm under its target."""
START_TOLERANCE = 0.001
"""Maximum distance from the requested start in each dimension, in observation units (0.1 mm)."""
RECORD_TOLERANCE = 0.1
"""Maximum distance between a recorded effector position and the one that follows from the recorded joints, in
observation units (1 cm). In the observation of a moving arm, the effector position is one physics step old."""

_THICKNESS = (0.6, 0.2)
"""Radii of the drawn arm from base to fingers, in observation units."""

_LOW, _HIGH = WORKSPACE.tolist()
_CUBE_PLACES = np.array([(x, y) for x in (0.30, 0.55) for y in (-0.30, 0.30)])
_OPEN_GRIPPER = 0.0
_TABLE = 0.02
"""Height of a cube's centre when it lies on the table."""


class CubePhysics(OgbenchCube):
    """OGBench's environment in its data-collection mode, without unnecessary work.

    At each step OGBench collects a large dictionary three times and recolours the cubes; here a step
    collects the observation once and recolours nothing. Observations and physics are bitwise identical
    (a test compares them). A step's `info` has only what OGBench's plan oracle reads.
    """

    def __init__(self) -> None:
        super().__init__(env_type="single", mode="data_collection", terminate_at_goal=False)
        self._ik: DiffIKController = ArmIK(self._ik._model)
        self._down = tuple(self._effector_down_rotation.wxyz.tolist())
        self._largest_action = self.action_high.tolist()
        self.reset(seed=0)

    def post_compilation(self) -> None:
        """Cache views of the observation in MuJoCo's memory: looking names up is slow."""
        super().post_compilation()
        model, data = self._model, self._data
        cube = model.joint("object_joint_0").qposadr[0]
        arm = slice(self._arm_joint_ids[0], self._arm_joint_ids[-1] + 1)
        self._joint_pos, self._joint_vel = data.qpos[arm], data.qvel[arm]
        self._cube_pose = data.qpos[cube : cube + 7]
        self._pad_force = data.cfrc_ext[model.body("ur5e/robotiq/right_pad").id]
        self._effector_pos = data.site_xpos[self._pinch_site_id]
        self._orientation = np.empty(4)
        self._effector_mat = data.site_xmat[self._pinch_site_id]
        self._joint_targets = data.ctrl[self._arm_actuator_ids[0] : self._arm_actuator_ids[-1] + 1]
        flange = self._T_pa.wxyz_xyz.tolist()
        self._flange_turn, self._flange_place = tuple(flange[:4]), tuple(flange[4:])

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """One control step; reward and success belong to OGBench's task, which is ignored."""
        self.set_control(action)
        self.pre_step()
        mujoco.mj_step(self._model, self._data, nstep=self._n_steps)
        mujoco.mj_rnePostConstraint(self._model, self._data)  # contact forces
        return self.compute_observation(), 0.0, False, False, self._oracle_info

    def pre_step(self) -> None:
        """Provide the part of OGBench's dictionary that the oracle reads when it gets a new target."""
        self._prev_qpos = self._data.qpos.copy()
        self._prev_qvel = self._data.qvel.copy()

    def set_control(self, action: FloatArray) -> None:
        """Set joint targets from an action (5,) that moves, turns and opens the effector, within the workspace."""
        dx, dy, dz, turn, opening = (
            0.5 * (share + 1) * (most + most) - most
            for share, most in zip(action.tolist(), self._largest_action, strict=True)
        )
        x, y, z = self._effector_pos.tolist()
        (low_x, low_y, low_z), (high_x, high_y, high_z) = _LOW, _HIGH
        x = min(max(x + dx, low_x), high_x)
        y = min(max(y + dy, low_y), high_y)
        z = min(max(z + dz, low_z), high_z)
        turned = multiply(multiply(about_z(turn), about_z(self._yaw)), inverse(self._down))
        target = multiply(about_z(yaw_of(turned)), self._down)
        # From the point between the fingers to the flange that carries the gripper.
        along_x, along_y, along_z = rotate(target, self._flange_place)
        self._joint_targets[:] = self._ik.solve(
            pos=np.array((along_x + x, along_y + y, along_z + z)),
            quat=np.array(multiply(target, self._flange_turn)),
            curr_qpos=self._joint_pos,
        )
        self._data.ctrl[self._gripper_actuator_ids] = 255.0 * min(max(self._opening + opening, 0.0), 1.0)

    def normalize_action(self, action: FloatArray) -> FloatArray:
        """Metres, radians and opening (5,) -> [-1, 1]^5."""
        scaled = 2 * (action - self.action_low) / (self.action_high - self.action_low) - 1
        return np.minimum(np.maximum(scaled, -1.0), 1.0)

    def compute_observation(self) -> FloatArray:
        """(28,) OGBench's observation. Every state change ends with this call, so the next action starts from it."""
        mujoco.mju_mat2Quat(self._orientation, self._effector_mat)
        self._yaw = yaw_of(self._orientation.tolist())
        self._opening = min(max(float(self._data.qpos[self._gripper_opening_joint_id]) / 0.8, 0.0), 1.0)
        cube, force = self._cube_pose, self._pad_force
        cube_yaw = yaw_of(cube[3:].tolist())
        contact = min(sqrt(force @ force) / 50, 1.0)
        observation = np.empty(28)
        observation[:6] = self._joint_pos
        observation[6:12] = self._joint_vel
        observation[12:15] = (self._effector_pos - CENTRE) * UNITS
        observation[15:19] = np.cos(self._yaw), np.sin(self._yaw), self._opening * 3.0, contact
        observation[19:22] = (cube[:3] - CENTRE) * UNITS
        observation[22:26] = cube[3:]
        observation[26:28] = np.cos(cube_yaw), np.sin(cube_yaw)
        self._oracle_info = {
            "time": (self._data.time,),
            "proprio/effector_pos": self._effector_pos.copy(),
            "proprio/effector_yaw": (self._yaw,),
            "proprio/gripper_opening": (self._opening,),
        }
        return observation

    def place(self, effector: FloatArray, yaw: float, cube: FloatArray) -> FloatArray:
        """Set the arm at rest, effector at (3,) metres, gripper open, cube at (2,) metres; observation (28,)."""
        model, data = self._model, self._data
        mujoco.mj_resetData(model, data)
        rotation = lie.SO3.from_z_radians(yaw) @ self._effector_down_rotation
        flange = lie.SE3.from_rotation_and_translation(rotation, effector) @ self._T_pa
        joints = self._ik.solve(
            pos=flange.translation(),
            quat=flange.rotation().wxyz,
            curr_qpos=self._home_qpos,
            max_iters=50,
            pos_thresh=1e-6,
            ori_thresh=1e-6,
        )
        data.qpos[self._arm_joint_ids] = joints
        data.ctrl[self._arm_actuator_ids] = joints
        data.ctrl[self._gripper_actuator_ids] = _OPEN_GRIPPER
        data.joint("object_joint_0").qpos[:3] = (*cube, _TABLE)
        # Move OGBench's target marker for the cube out of sight, under the table.
        data.mocap_pos[self._cube_target_mocap_ids[0]] = (0.0, 0.0, -0.3)
        mujoco.mj_forward(model, data)
        return self.compute_observation()

    def restore_arm(self, observation: FloatArray) -> FloatArray:
        """Set only the arm's joints and velocities from an observation (28,); returns the new observation (28,)."""
        self._joint_pos[:], self._joint_vel[:] = observation[:6], observation[6:12]
        mujoco.mj_forward(self._model, self._data)
        return self.compute_observation()


class CubeEnv(PlanningEnv):
    """The arm behind the planning interface.

    Of an instance's start only the effector's position is set; its yaw is drawn from `instance.seed`
    as in OGBench, and the joints follow by inverse kinematics. The arm is at rest. A start that is a
    full observation sets the joints and their velocities instead. Either way the gripper is open, and the cube
    lies in the corner of OGBench's cube area farthest from the straight line.
    """

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.physics = CubePhysics()
        self.workspace = to_units(WORKSPACE)
        """(2, 3) lower and upper corner of the effector's workspace, in the observation's units."""
        self._goal: FloatArray = np.zeros(3)
        self._offscreen: Offscreen | None = None

    def reset(self, instance: Instance) -> FloatArray:
        """Set the effector to the start, within `START_TOLERANCE`; or the arm's joints from a full observation."""
        self.check(instance)
        start, self._goal = to_metres(self.spec.place_of(instance.start)), to_metres(instance.goal)
        yaw = np.random.default_rng(instance.seed).uniform(-np.pi, np.pi)
        observation = self.physics.place(start, yaw, _cube_aside(start[:2], self._goal[:2]))
        if self.spec.is_observation(instance.start):
            return self._restored(instance.start)
        miss = np.abs(observation[12:15] - to_units(start)).max()
        if miss > START_TOLERANCE:
            raise VhdError(
                f"{self.spec.name}: the arm cannot start at {to_units(start).round(3).tolist()}: inverse "
                f"kinematics ends {miss:.3f} units off. Choose a start closer to the middle of the workspace."
            )
        return observation.astype(np.float32)

    def step(self, action: FloatArray) -> FloatArray:
        """One action, clipped to [-1, 1]^5."""
        observation, *_ = self.physics.step(np.clip(np.asarray(action, np.float64), -1.0, 1.0))
        return observation.astype(np.float32)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Start and goal uniform in the workspace, less 2 cm on each side (`reset`) or 1 cm (`uniform`)."""
        boxes = {"reset": SAMPLED, "uniform": REACHABLE}
        if distribution not in boxes:
            raise UnknownNameError("distribution", distribution, list(boxes))
        start, goal = (to_units(rng.uniform(*boxes[distribution])).astype(np.float32) for _ in range(2))
        state = np.zeros(self.spec.state_dim, np.float32)
        state[list(self.spec.goal_dims)] = start
        return Instance(state, goal, int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` unless start and goal are finite and in the workspace (a start may have more dimensions)."""
        low, high = self.workspace
        for name, value in self.finite_ends(instance):
            point = self.spec.place_of(value)
            if (point < low - 1e-4).any() or (point > high + 1e-4).any():
                raise VhdError(
                    f"{self.spec.name}: {name} {point.round(3).tolist()} is outside the workspace: x, y and z "
                    f"must be between {low.tolist()} and {high.round(3).tolist()} (units of 10 cm from (0.425, "
                    "0, 0) m)."
                )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """OGBench's front view of the arm; a red ball marks the goal."""
        self._offscreen = resized(self._offscreen, self.physics.model, width, height)
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        camera.fixedcamid = self.physics.model.camera("front").id
        return self._offscreen.draw(self.physics.data, camera, marks=[(self._goal, 0.01)])

    def skeleton(self, observations: FloatArray) -> Skeleton:
        """The arm from its base over its joints to the point between the fingers, in the observation's units."""
        model, data = self.physics.model, mujoco.MjData(self.physics.model)
        mujoco.mj_resetData(model, data)
        joints = self.physics._arm_joint_ids
        bodies = [int(model.jnt_bodyid[joint]) for joint in joints]
        points = np.zeros((len(observations), len(bodies) + 2, 3))
        for row, observation in zip(points, observations, strict=True):
            data.qpos[joints] = observation[:6]
            mujoco.mj_kinematics(model, data)
            row[0] = data.xpos[model.body_parentid[bodies[0]]]
            row[1:-1], row[-1] = data.xpos[bodies], data.site_xpos[self.physics._pinch_site_id]
        radii = np.interp(np.arange(len(bodies) + 1), (0, len(bodies)), _THICKNESS)
        return Skeleton(to_units(points), tuple((n, n + 1, float(radius)) for n, radius in enumerate(radii)))

    def _restored(self, recorded: FloatArray) -> FloatArray:
        """Set the arm from a full observation; raises `VhdError` if joints and effector are inconsistent."""
        observation = self.physics.restore_arm(recorded)
        miss = np.abs(observation[12:15] - recorded[12:15]).max()
        if miss > RECORD_TOLERANCE:
            raise VhdError(
                f"{self.spec.name}: the start's joint angles (0 to 5) place the effector {miss:.3f} units from "
                "its position (12 to 14). Pass an observation as returned by the environment, or a position."
            )
        return observation.astype(np.float32)


def _cube_aside(start: FloatArray, goal: FloatArray) -> FloatArray:
    """(2,) the corner of OGBench's cube area farthest from the straight line between two xy points."""
    way = goal - start
    along = np.clip((_CUBE_PLACES - start) @ way / max(float(way @ way), 1e-9), 0.0, 1.0)
    nearest = start + along[:, None] * way
    return _CUBE_PLACES[np.linalg.norm(_CUBE_PLACES - nearest, axis=1).argmax()]
