"""Data without a simulator as an environment: starts and goals are recorded states."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhdiffuser.data.store import Dataset, dataset_path, read_dataset
from vhdiffuser.envs.base import InstanceSource
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.types import EnvSpec, Instance

HELD_OUT = 0.05
"""Fraction of episodes held out for evaluation if no simulator can draw fresh instances."""

_PIECE = 3 / 8
"""States per piece, as a fraction of T_max; chosen on two datasets (48 of 128, 64 of 160)."""
_SMOOTHING = 1 / 32
"""Smoothing as a fraction of T_max: about the time between two knots."""


def planning_of(spec: EnvSpec) -> dict[str, Any]:
    """Planning options for imported data: smoothing proportional to T_max rather than a fixed number of steps, and long
    plans composed of pieces along a route if goals have two or three dimensions, which the data can cover densely."""
    piece = round(_PIECE * spec.T_max) if spec.goal_dim in (2, 3) else 0
    return {"smoothing": _SMOOTHING * spec.T_max, "piece": piece}


class RecordedStates(InstanceSource):
    """Draws pairs of states from a dataset, across episodes."""

    def __init__(self, dataset: Dataset) -> None:
        self.spec, self._states = dataset.spec, dataset.states()

    @classmethod
    def of_name(cls, name: str) -> RecordedStates:
        """The states of the dataset of that name."""
        return cls(read_dataset(dataset_path(name), name))

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Two recorded states; the start is at rest if the state has velocities."""
        if distribution != "reset":
            raise UnknownNameError("distribution of recorded data", distribution, ["reset"])
        start, goal = self._states[rng.integers(len(self._states), size=2)].copy()
        if self.spec.velocity_dims is not None:
            start[list(self.spec.velocity_dims)] = 0.0
        return Instance(start, self.spec.goal_of(goal), int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        """Check size and finiteness only: without a simulator, free space is unknown."""
        for _ in self.finite_ends(instance):
            pass
