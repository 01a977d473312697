"""Regenerate cube-single-play: OGBench's plan oracle moves the cube from place to place.

Follows OGBench's `generate_manipspace.py` for `play`: the oracle follows a plan with correlated noise
(scale 0.1, smoothing 0.5), and gets a new target for the cube when it has reached one. Episodes never end
early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.interpolate import interp1d
from scipy.ndimage import gaussian_filter1d

from vhdiffuser.envs.cube.arm import about_z, multiply, yaw_of
from vhdiffuser.envs.cube.simulator import CubePhysics
from vhdiffuser.errors import needs_extra
from vhdiffuser.types import FloatArray

with needs_extra("ogbench", "cube"):
    from ogbench.manipspace import lie
    from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

EPISODE = 1000
"""Transitions per episode: OGBench's 1001 rows are 1001 states, and the last row's action leads nowhere."""
PLAN_NOISE = 0.1
"""Scale of the noise on the oracle's plan, in units of the largest action."""
NOISE_SMOOTHING = 0.5
"""Standard deviation, in steps, of the filter that correlates that noise in time."""


def build_chunk(transitions: int, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Episodes of (T states, T-1 actions) with `transitions` transitions in total; the last may be shorter."""
    physics = _physics()
    lengths = [EPISODE] * (transitions // EPISODE) + ([transitions % EPISODE] if transitions % EPISODE else [])
    with _global_numpy_seeded(rng):
        return [_episode(length, int(rng.integers(2**31)), physics) for length in lengths]


def _episode(length: int, seed: int, physics: CubePhysics) -> tuple[FloatArray, FloatArray]:
    states = np.empty((length + 1, 28), np.float32)
    actions = np.empty((length, 5), np.float32)
    oracle = PlanOracle(env=physics, noise=PLAN_NOISE, noise_smoothing=NOISE_SMOOTHING)
    observation, info = physics.reset(seed=seed)
    oracle.reset(observation, info)
    states[0] = observation
    for t in range(length):
        # Rounded before use, so that the stored action is the one applied.
        actions[t] = oracle.select_action(observation, info)
        observation, _, _, _, info = physics.step(actions[t].astype(np.float64))
        states[t + 1] = observation
        if oracle.done:
            oracle.reset(*physics.set_new_target(p_stack=0.0))
    return states, actions


class PlanOracle(CubePlanOracle):
    """OGBench's oracle with vectorised interpolation: bitwise the same plans."""

    def compute_plan(self, times: Sequence[float], poses: Sequence[lie.SE3], grasps: Sequence[float]) -> FloatArray:
        """(n, 5) effector position, yaw and gripper at every control step from keyframes, with correlated noise."""
        moments, t = [], 0.0
        while t < self._t_max:
            moments.append(t)
            t += self._env_dt
        plan = np.empty((len(moments), 5))
        plan[:, :3] = interp1d(times, [pose.translation() for pose in poses], axis=0, assume_sorted=True)(moments)
        plan[:, 3] = self._yaws(times, [pose.rotation() for pose in poses], moments)
        plan[:, 4] = interp1d(times, grasps, assume_sorted=True)(moments)
        noise = np.random.normal(0, 1, size=plan.shape) * self._env.action_high * self._noise  # noqa: NPY002
        return plan + gaussian_filter1d(noise, axis=0, sigma=self._noise_smoothing)

    @staticmethod
    def _yaws(times: Sequence[float], rotations: list[lie.SO3], moments: Sequence[float]) -> list[float]:
        """Yaw interpolated linearly between keyframes; the effector turns only about the vertical."""
        ways = [(a.inverse() @ b).log()[2] for a, b in pairwise(rotations)]
        starts = [tuple(rotation.wxyz.tolist()) for rotation in rotations]
        yaws = []
        for t, s in zip(moments, np.searchsorted(times, moments, side="right") - 1, strict=True):
            share = min(max((t - times[s]) / (times[s + 1] - times[s]), 0.0), 1.0)
            yaws.append(yaw_of(multiply(starts[s], about_z(share * float(ways[s])))))
        return yaws


@contextmanager
def _global_numpy_seeded(rng: np.random.Generator) -> Iterator[None]:
    """Seed numpy's global state from `rng`, since OGBench's oracle draws from it, and restore it afterwards."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, size=4, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


@cache
def _physics() -> CubePhysics:
    return CubePhysics()
