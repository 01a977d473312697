"""Recorded paths as plans: windows of the data, and simulators started at their first state."""

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
        raise VhdError(f"at least 1 window of at least 2 states is required; got {n} of {length}.")
    last = np.repeat(episodes.ends - 1, np.diff(episodes.ends, prepend=0))
    first = np.arange(len(last))
    # Count falls and grasps before each row: a window without any has equal counts at both ends.
    before = np.concatenate([[0], np.cumsum(environment.is_hindered(episodes.observations))])
    end = np.minimum(first + length, len(last))
    usable = np.flatnonzero((first + length - 1 <= last) & (before[end] == before[first]))
    if len(usable) == 0:
        raise DataError(
            f"{environment.name}: no episode has {length} consecutive states without a fall or grasp; the "
            f"longest has {int(np.diff(episodes.ends, prepend=0).max())} states. Use fewer steps, or get more "
            "data."
        )
    begins = rng.choice(usable, size=n, replace=len(usable) < n)
    return episodes.observations[begins[:, None] + np.arange(length)]


class RecordedStart(PlanningEnv):
    """An environment that starts at recorded observations: an instance's `start` is one, (o,)."""

    def __init__(self, environment: Environment) -> None:
        if environment.restore is None:
            raise VhdError(f"{environment.name}: its simulator cannot be set to a recorded observation (`restore`).")
        self.env, self.spec, self._restore = environment.make(), environment.spec, environment.restore

    def reset(self, instance: Instance) -> FloatArray:
        """Set the simulator to the recorded observation."""
        return self._restore(self.env, instance.start, instance.goal)

    def step(self, action: FloatArray) -> FloatArray:
        """Step the environment."""
        return self.env.step(action)

    def vector(self, slots: int, threads: int, reset: Reset | None = None) -> VectorEnv | None:
        """The environment's vectorised simulator, started at recorded observations."""
        return self.env.vector(slots, threads, reset or self.reset)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Not available: starts come from the data."""
        raise VhdError("recorded starts come from the data and cannot be drawn.")

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` unless the start is a full observation."""
        if np.shape(instance.start) != (self.spec.observation_dim,):
            raise VhdError(
                f"{self.spec.name}: a recorded start needs {self.spec.observation_dim} numbers; got shape "
                f"{np.shape(instance.start)}."
            )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """Render the environment."""
        return self.env.render(width, height)
