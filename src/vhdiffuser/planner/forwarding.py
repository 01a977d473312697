"""Wrappers around a planner that change how executions plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray


@dataclass(frozen=True)
class ForwardingPlanner:
    """Forwards everything to `planner`; a subclass changes `plan_batch`."""

    planner: Planner
    """The wrapped planner."""

    @property
    def spec(self) -> EnvSpec:
        """The planner's environment."""
        return self.planner.spec

    @property
    def normalizer(self) -> Normalizer:
        """The planner's normaliser."""
        return self.planner.normalizer

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """(B,) L_hat."""
        return self.planner.predict_lengths(starts, goals)

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans, in order."""
        return self.planner.plan_batch(starts, goals, lengths, seeds=seeds)

    def replan_batch(
        self, plans: Sequence[Plan], starts: FloatArray, goals: FloatArray, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans, in order, that keep the remainders of older ones."""
        return self.planner.replan_batch(plans, starts, goals, seeds=seeds)

    def warm_up(self) -> None:
        """Prepare everything that plans of any length need."""
        self.planner.warm_up()


@dataclass(frozen=True)
class KeepsDenoising(ForwardingPlanner):
    """A planner whose plans keep their denoising, even during an execution."""

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans, in order, each with its `denoising`."""
        return self.planner.plan_batch(starts, goals, lengths, seeds=seeds, keep_denoising=True)


@dataclass(frozen=True)
class BeginsWith(ForwardingPlanner):
    """A planner whose executions begin with a given plan, e.g. one for a deadline; replans are its own."""

    plan: Plan
    """The given plan. Executions must start at its first state."""

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """(B,) L_hat; the given plan's length where it applies."""
        lengths = np.asarray(self.planner.predict_lengths(starts, goals))
        return np.where(self._begins(starts), self.plan.length, lengths)

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans, in order."""
        first = self._begins(starts)
        others = np.flatnonzero(~first)
        own = None if lengths is None else lengths[others]
        made = iter(self.planner.plan_batch(starts[others], goals[others], own, seeds=seeds[others]))
        return [self.plan if begins else next(made) for begins in first]

    def _begins(self, starts: FloatArray) -> BoolArray:
        """(B,) whether each start is the plan's first state."""
        return (np.asarray(starts) == self.plan.states[0]).all(axis=1)
