"""The arm's arithmetic, written out, is OGBench's to the bit."""

import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")


import numpy as np
from ogbench.manipspace import lie
from ogbench.manipspace.controllers import DiffIKController

from vhdiffuser.envs.cube.arm import ArmIK, about_z, inverse, multiply, rotate, yaw_of
from vhdiffuser.envs.cube.simulator import CubePhysics


@pytest.fixture(scope="module")
def physics() -> CubePhysics:
    return CubePhysics()


def unit_quaternions(n: int, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).standard_normal((n, 4))
    return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.mark.parametrize("angle", [0.0, -0.0, 1e-7, -1e-6, 9e-6, 2e-5, 0.3, -0.3, 1.0, -2.5, np.pi, -np.pi])
def test_turns_about_the_vertical(angle):
    theirs = lie.SO3.from_z_radians(angle)
    assert about_z(angle) == tuple(theirs.wxyz)
    assert yaw_of(about_z(angle)) == theirs.compute_yaw_radians()
    assert yaw_of(about_z(angle)) == pytest.approx(angle, abs=1e-12)


def test_products_inverses_and_turned_vectors():
    vectors = np.random.default_rng(1).standard_normal((200, 3))
    for first, second, vector in zip(unit_quaternions(200, 2), unit_quaternions(200, 3), vectors, strict=True):
        one, two = tuple(first.tolist()), tuple(second.tolist())
        assert multiply(one, two) == tuple((lie.SO3(first) @ lie.SO3(second)).wxyz)
        assert inverse(one) == tuple(lie.SO3(first).inverse().wxyz)
        assert rotate(one, tuple(vector.tolist())) == tuple(lie.SO3(first) @ vector)
        assert yaw_of(one) == lie.SO3(first).compute_yaw_radians()
        np.testing.assert_allclose(rotate(inverse(one), rotate(one, tuple(vector.tolist()))), vector, atol=1e-12)


@pytest.mark.parametrize("thresholds", [{}, {"max_iters": 50, "pos_thresh": 1e-6, "ori_thresh": 1e-6}])
def test_inverse_kinematics(physics, thresholds):
    """Near and far targets, and some that the arm cannot reach."""
    ours, theirs = ArmIK(physics._ik._model), DiffIKController(physics._ik._model, sites=["attachment_site"])
    rng, joints = np.random.default_rng(4), physics._home_qpos
    for quaternion in unit_quaternions(40, 5):
        place = rng.uniform([0.1, -0.6, 0.0], [0.9, 0.6, 0.8])
        found = ours.solve(place, quaternion, joints, **thresholds)
        np.testing.assert_array_equal(found, theirs.solve(place, quaternion, joints, **thresholds))
        joints = found + rng.normal(0, 0.05, 6)


def test_actions_are_scaled_and_clipped(physics):
    moves = np.random.default_rng(6).normal(0, 0.2, (100, 5))
    for move in moves:
        np.testing.assert_array_equal(
            physics.normalize_action(move), super(CubePhysics, physics).normalize_action(move)
        )
