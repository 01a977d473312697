"""Rotations and inverse kinematics of OGBench's arm, written out.

OGBench creates an object for every quaternion and calls numpy for every number, which takes half as long as the
physics. Here the same operations run in the same order on plain floats, so the results are bitwise identical (tests
compare them). Sines, cosines and arctangents are still numpy's: Python's may differ in the last bit, as may x * x from
x**2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import mujoco
import numpy as np

from vhdiffuser.errors import needs_extra
from vhdiffuser.types import FloatArray

with needs_extra("ogbench", "cube"):
    from ogbench.manipspace.controllers import DiffIKController

Quaternion = tuple[float, float, float, float]
"""w, x, y, z."""

_SMALL = 1e-10
"""Squared angle below which OGBench uses the first terms of a series."""


def yaw_of(quaternion: Sequence[float]) -> float:
    """Rotation of a unit quaternion (w, x, y, z) about the vertical."""
    w, x, y, z = quaternion
    return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y**2 + z**2)))


def about_z(angle: float) -> Quaternion:
    """Rotation by an angle about the vertical."""
    squared = angle * angle
    if squared < _SMALL:
        fourth = squared * squared
        real, imaginary = 1.0 - squared / 8.0 + fourth / 384.0, 0.5 - squared / 48.0 + fourth / 3840.0
    else:
        size = sqrt(squared)
        real, imaginary = float(np.cos(0.5 * size)), float(np.sin(0.5 * size)) / size
    return real, imaginary * 0.0, imaginary * 0.0, imaginary * angle


def multiply(first: Quaternion, second: Quaternion) -> Quaternion:
    """first * second: the rotation `second`, then `first`."""
    w0, x0, y0, z0 = first
    w1, x1, y1, z1 = second
    return (
        -x0 * x1 - y0 * y1 - z0 * z1 + w0 * w1,
        x0 * w1 + y0 * z1 - z0 * y1 + w0 * x1,
        -x0 * z1 + y0 * w1 + z0 * x1 + w0 * y1,
        x0 * y1 - y0 * x1 + z0 * w1 + w0 * z1,
    )


def inverse(quaternion: Quaternion) -> Quaternion:
    """The inverse of a unit quaternion."""
    w, x, y, z = quaternion
    return w, -x, -y, -z


def rotate(quaternion: Quaternion, vector: tuple[float, float, float]) -> tuple[float, float, float]:
    """The rotated vector."""
    _, x, y, z = multiply(multiply(quaternion, (0.0, *vector)), inverse(quaternion))
    return x, y, z


class ArmIK(DiffIKController):
    """OGBench's differential inverse kinematics of the flange, by damped least squares."""

    def __init__(self, model: mujoco.MjModel) -> None:
        super().__init__(model, sites=["attachment_site"])
        site = int(self._site_ids[0])
        self._site = site
        self._joints = self._data.qpos
        self._place, self._matrix = self._data.site_xpos[site], self._data.site_xmat[site]
        self._quaternion, self._turned_back, self._difference = np.empty(4), np.empty(4), np.empty(4)
        self._error = np.empty(6)
        self._position_error, self._rotation_error = self._error[:3], self._error[3:]
        self._jacobian = np.empty((6, model.nv))
        self._jacobian_place, self._jacobian_turn = self._jacobian[:3], self._jacobian[3:]

    def solve(
        self,
        pos: FloatArray,
        quat: FloatArray,
        curr_qpos: FloatArray,
        max_iters: int = 20,
        pos_thresh: float = 1e-4,
        ori_thresh: float = 1e-4,
    ) -> FloatArray:
        """(6,) joint angles that bring the flange to a position (3,) and orientation (4,), from `curr_qpos` (6,)."""
        model, data, joints, jacobian = self._model, self._data, self._joints, self._jacobian
        position, rotation = self._position_error, self._rotation_error
        joints[:] = curr_qpos
        for _ in range(max_iters):
            mujoco.mj_kinematics(model, data)
            np.subtract(pos, self._place, out=position)
            mujoco.mju_mat2Quat(self._quaternion, self._matrix)
            mujoco.mju_negQuat(self._turned_back, self._quaternion)
            mujoco.mju_mulQuat(self._difference, quat, self._turned_back)
            mujoco.mju_quat2Vel(rotation, self._difference, 1.0)
            if sqrt(position @ position) <= pos_thresh and sqrt(rotation @ rotation) <= ori_thresh:
                break
            mujoco.mj_comPos(model, data)  # the Jacobian needs it
            mujoco.mj_jacSite(model, data, self._jacobian_place, self._jacobian_turn, self._site)
            update = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + self._damping, self._error)
            largest = max(abs(change) for change in update.tolist())
            if largest > self._max_angle_change:
                update *= self._max_angle_change / largest
            joints += update
        return joints.copy()
