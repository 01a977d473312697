"""Robots as lines between points: they stand where their observations say."""

from __future__ import annotations

import numpy as np
import pytest

from vhdiffuser.envs.registry import get_environment

pytest.importorskip("ogbench", reason="needs ogbench (extra 'ogbench')")


def observed(name: str) -> tuple:
    """A simulator, and its observations over a few random steps."""
    env = get_environment(name).make()
    rng = np.random.default_rng(0)
    observations = [env.reset(env.sample_instance(rng))]
    observations += [env.step(rng.uniform(-1, 1, env.spec.action_dim).astype(np.float32)) for _ in range(5)]
    return env, np.stack(observations)


def test_the_ants_torso_and_feet_are_where_its_joints_put_them():
    env, observations = observed("antmaze-medium")
    skeleton = env.skeleton(observations)
    np.testing.assert_allclose(skeleton.points[:, 0], observations[:, :3], atol=1e-5)
    lengths = [
        np.linalg.norm(skeleton.points[:, one] - skeleton.points[:, other], axis=-1) for one, other, _ in skeleton.bones
    ]
    assert len(skeleton.bones) == 13, "the torso, and three links for each of four legs"
    for length in lengths:  # bones are rigid
        np.testing.assert_allclose(length, length[0], atol=1e-5)
    np.testing.assert_array_equal(env.step(np.zeros(8)), _again(observations))


def _again(observations: np.ndarray) -> np.ndarray:
    """What the next observation is if nobody has drawn the robot."""
    env, same = observed("antmaze-medium")
    np.testing.assert_array_equal(same, observations)
    return env.step(np.zeros(8))


def test_the_arm_reaches_from_its_base_to_the_effector():
    env, observations = observed("cube")
    skeleton = env.skeleton(observations)
    # In the observation of a moving arm, the effector's position is one physics step old.
    np.testing.assert_allclose(skeleton.points[:, -1], observations[:, 12:15], atol=0.1)
    np.testing.assert_allclose(skeleton.points[0, -1], observations[0, 12:15], atol=1e-4)
    np.testing.assert_allclose(skeleton.points[:, 0], np.tile([-4.25, 0, 0], (6, 1)), atol=1e-6)


def test_a_ball_has_no_skeleton():
    env = get_environment("maze2d-umaze").make()
    assert env.skeleton(np.zeros((2, 4), np.float32)) is None
