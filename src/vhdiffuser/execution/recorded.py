"""Recorded paths as plans: windows of the data, and simulators that start where one begins."""

from __future__ import annotations

import numpy as np

from vhdiffuser.envs.base import PlanningEnv, Reset, VectorEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.types import Episodes, FloatArray, ImageArray, Instance


def recorded_windows(
    environment: Environment, episodes: Episodes, rng: np.random.Generator, n: int, length: int
) -> FloatArray:
    """(n, length, o) observations: random windows of the episodes without a fall or a grasp."""
    if n < 1 or length < 2:
        raise VhdError(f"needs at least 1 window of at least 2 states, got {n} of {length}.")
    last = np.repeat(episodes.ends - 1, np.diff(episodes.ends, prepend=0))
    first = np.arange(len(last))
    # Falls and grasps before each row: a window without one has the same count at both ends.
    before = np.concatenate([[0], np.cumsum(environment.is_hindered(episodes.observations))])
    end = np.minimum(first + length, len(last))
    usable = np.flatnonzero((first + length - 1 <= last) & (before[end] == before[first]))
    if len(usable) == 0:
        raise DataError(
            f"{environment.name}: no such episode has {length} consecutive states without fall or grasp; the "
            f"longest has {int(np.diff(episodes.ends, prepend=0).max())} states. Ask for fewer steps, or get more data."
        )
    begins = rng.choice(usable, size=n, replace=len(usable) < n)
    return episodes.observations[begins[:, None] + np.arange(length)]


class RecordedStart(PlanningEnv):
    """An environment that starts at a recorded observation: an instance's `start` is one, (o,)."""

    def __init__(self, environment: Environment) -> None:
        if environment.restore is None:
            raise VhdError(f"{environment.name}: its simulator cannot be set to a recorded observation (`restore`).")
        self.env, self.spec, self._restore = environment.make(), environment.spec, environment.restore

    def reset(self, instance: Instance) -> FloatArray:
        """Set the simulator to the recorded observation."""
        return self._restore(self.env, instance.start, instance.goal)

    def step(self, action: FloatArray) -> FloatArray:
        """The environment's own."""
        return self.env.step(action)

    def vector(self, slots: int, threads: int, reset: Reset | None = None) -> VectorEnv | None:
        """The environment's own, started at recorded observations."""
        return self.env.vector(slots, threads, reset or self.reset)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Not available: starts come from data."""
        raise VhdError("recorded starts come from data and are not drawn.")

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` unless the start is a full observation."""
        if np.shape(instance.start) != (self.spec.observation_dim,):
            raise VhdError(
                f"{self.spec.name}: a recorded start has {self.spec.observation_dim} numbers, "
                f"got shape {np.shape(instance.start)}."
            )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """The environment's own."""
        return self.env.render(width, height)
