"""Regenerate cube-single-play: OGBench's plan oracle carries the cube from place to place.

Follows OGBench's `generate_manipspace.py` for `play`: the oracle follows a plan with correlated noise
(scale 0.1, smoothing 0.5), and gets a new place for the cube when it is done with one. Nothing ends an
episode before its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

from vhdiffuser.envs.cube import CubePhysics
from vhdiffuser.types import FloatArray

EPISODE = 1000
"""Transitions of a whole episode: OGBench's 1001 rows are 1001 states, and the last row's action leads nowhere."""
PLAN_NOISE = 0.1
"""Scale of the noise on the oracle's plan, in units of the largest action."""
NOISE_SMOOTHING = 0.5
"""Standard deviation, in steps, of the filter that correlates that noise in time."""


def build_chunk(transitions: int, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Episodes of (T states, T-1 actions) with `transitions` transitions in all; the last may be shorter."""
    physics = _physics()
    lengths = [EPISODE] * (transitions // EPISODE) + ([transitions % EPISODE] if transitions % EPISODE else [])
    with _global_numpy_seeded(rng):
        return [_episode(length, int(rng.integers(2**31)), physics) for length in lengths]


def _episode(length: int, seed: int, physics: CubePhysics) -> tuple[FloatArray, FloatArray]:
    states = np.empty((length + 1, 28), np.float32)
    actions = np.empty((length, 5), np.float32)
    oracle = CubePlanOracle(env=physics, noise=PLAN_NOISE, noise_smoothing=NOISE_SMOOTHING)
    observation, info = physics.reset(seed=seed)
    oracle.reset(observation, info)
    states[0] = observation
    for t in range(length):
        # Rounded before use, so that the stored action is the one that was taken.
        actions[t] = np.clip(oracle.select_action(observation, info), -1.0, 1.0)
        observation, _, _, _, info = physics.step(actions[t].astype(np.float64))
        states[t + 1] = observation
        if oracle.done:
            oracle.reset(*physics.set_new_target(p_stack=0.0))
    return states, actions


@contextmanager
def _global_numpy_seeded(rng: np.random.Generator) -> Iterator[None]:
    """OGBench's oracle draws from numpy's global state: seed it from `rng` here, and give it back as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, size=4, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


@cache
def _physics() -> CubePhysics:
    return CubePhysics()
