"""Interfaces of instance sources and simulators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray, Instance, IntArray

Reset = Callable[[Instance], FloatArray]
"""Resets a simulator to an instance's start and returns the first observation (o,)."""


@dataclass(frozen=True)
class Skeleton:
    """A robot as lines between points, for drawing."""

    points: FloatArray
    """(n, p, 3) x, y, z of p points in n poses; x and y (and z, if it is a goal dimension) in the goal's units."""
    bones: tuple[tuple[int, int, float], ...]
    """Line segments: two points and a radius."""


class InstanceSource(ABC):
    """Draws start-goal pairs and validates given ones."""

    spec: EnvSpec

    @abstractmethod
    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """A random start and goal.

        A simulator draws them in free space, independently of any data: `reset` is its own reset distribution;
        `uniform` is uniform over free space.
        """

    @abstractmethod
    def check(self, instance: Instance) -> None:
        """Raise `VhdError` if start or goal has the wrong shape, is not finite or lies outside free space."""

    def finite_ends(self, instance: Instance) -> Iterator[tuple[str, FloatArray]]:
        """Yield ("start", value) and ("goal", value), each checked to be finite and of a valid size.

        A start may be a planning state, goal dimensions only, or a full observation.
        """
        spec = self.spec
        sizes = {"start": sorted({spec.goal_dim, spec.state_dim, spec.observation_dim}), "goal": [spec.goal_dim]}
        for name, value in (("start", np.asarray(instance.start)), ("goal", np.asarray(instance.goal))):
            if value.ndim != 1 or len(value) not in sizes[name]:
                allowed = " or ".join(str(size) for size in sizes[name])
                raise VhdError(f"{self.spec.name}: {name} needs {allowed} numbers; got shape {value.shape}.")
            if not np.isfinite(value).all():
                raise VhdError(f"{self.spec.name}: {name} {value.tolist()} contains NaN or infinity.")
            yield name, value


class VectorEnv(ABC):
    """Many simulators of one environment, stepped together. Each has a numbered slot.

    A slot's output depends only on its instance and actions: it is bitwise what a `PlanningEnv` would return, whatever
    the other slots do and whatever the number of threads or processes.
    """

    spec: EnvSpec

    @abstractmethod
    def reset(self, slots: Sequence[int], instances: Sequence[Instance]) -> FloatArray:
        """Reset these slots (in any order) to their instances; returns (k, o) first observations."""

    @abstractmethod
    def step(self, slots: Sequence[int] | IntArray, actions: FloatArray) -> FloatArray:
        """One control step of these slots with actions (k, m); returns (k, o) observations."""

    savable: bool = False
    """Whether slots can be saved and restored; benchmarks then execute what two protocols have in common only once."""

    def save(self, slot: int) -> FloatArray:
        """The complete state of a slot's simulator."""
        raise NotImplementedError

    def load(self, slot: int, state: FloatArray) -> None:
        """Restore a saved state, of this slot or another."""
        raise NotImplementedError


class PlanningEnv(InstanceSource):
    """A simulator that can be reset to a start, stepped and observed.

    It knows nothing about plans. Success is determined by `vhdiffuser.envs.success.reached` from its observations,
    never by its own reward.
    """

    @abstractmethod
    def reset(self, instance: Instance) -> FloatArray:
        """Reset to the instance's start (not counted as a step); returns the first observation (o,)."""

    @abstractmethod
    def step(self, action: FloatArray) -> FloatArray:
        """Apply one action (m,) for one control step; returns the next observation (o,)."""

    @abstractmethod
    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """(height, width, 3) uint8 image of the current state, rendered off-screen."""

    def vector(self, slots: int, threads: int, reset: Reset | None = None) -> VectorEnv | None:
        """Many simulators like this one, stepped together on threads; None makes benchmarks use one process each.

        They may use this simulator, which is then not used otherwise. `reset` resets it to an instance (default: its
        own `reset`).
        """
        return None

    def skeleton(self, observations: FloatArray) -> Skeleton | None:
        """The robot in n poses, from its observations (n, o); None if there is nothing to draw. Does not change the
        state."""
        return None
