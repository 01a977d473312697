"""A planner with its options fixed: what execution and the benchmark plan with, and record."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from vhdiffuser.errors import OutsideDataWarning, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


@dataclass(frozen=True)
class BoundPlanner:
    """A planner, and how it plans."""

    planner: Planner
    """The planner itself."""
    sampler: str
    """Reverse process."""
    steps: int
    """Its steps."""
    gamma: float
    """Margin on the predicted length."""
    candidates: int = 1
    """Plans drawn for each plan used; of several, the one that the Length Predictor believes most is kept."""
    keep_denoising: bool = False
    """Whether plans remember how they were denoised."""

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise VhdError(f"candidates must be at least 1 (no selection), got {self.candidates}.")
        if not self.gamma > 0:
            raise VhdError(f"gamma must be above 0 (1 is no margin), got {self.gamma}.")

    @classmethod
    def of(
        cls,
        planner: Planner,
        sampler: str | None = None,
        steps: int | None = None,
        gamma: float | None = None,
        candidates: int = 1,
        keep_denoising: bool = False,
    ) -> BoundPlanner:
        """The planner's own options where none are given."""
        config = planner.config
        return cls(
            planner,
            sampler or config.sampler,
            config.steps if steps is None else steps,
            planner.gamma if gamma is None else gamma,
            candidates,
            keep_denoising,
        )

    @property
    def spec(self) -> EnvSpec:
        """The planner's environment."""
        return self.planner.spec

    @property
    def normalizer(self) -> Normalizer:
        """The planner's normaliser."""
        return self.planner.normalizer

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """L_hat with this margin."""
        return self.planner.predict_lengths(starts, goals, self.gamma)

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """One plan a pair: the only one drawn, or the best of the candidates."""
        lengths = self.predict_lengths(starts, goals) if lengths is None else lengths
        n = self.candidates
        # Candidate 0 has the seed that a single plan would have: more candidates never change it.
        spread = (np.asarray(seeds, np.int64)[:, None] + np.arange(n) * 1_000_003) & (2**63 - 1)
        plans = self.planner.plan_batch(
            np.repeat(starts, n, axis=0),
            np.repeat(goals, n, axis=0),
            np.repeat(lengths, n),
            self.steps,
            self.sampler,
            spread.ravel(),
            keep_denoising=self.keep_denoising,
        )
        if n == 1:
            return plans
        faults = self._largest_excess(plans).reshape(-1, n)
        return [plans[row * n + int(best)] for row, best in enumerate(faults.argmin(axis=1))]

    def _largest_excess(self, plans: list[Plan]) -> FloatArray:
        """(len(plans),) by how many steps a part of each plan is shorter than the Length Predictor says it can be.

        A plan through a wall joins two places in fewer steps than any way between them takes. What the predictor
        learned from the data is all that is used. Without a predictor: the largest turn between two control
        steps, normalised, for jumps and kinks are large.
        """
        predictor = self.planner.length_predictor
        if predictor is None:
            return np.array([self._largest_turn(plan) for plan in plans])
        reach = max(self.spec.T_max // 10, 1)
        begins = [np.arange(0, plan.length - 1, reach) for plan in plans]
        ends = [np.minimum(begin + reach, plan.length - 1) for begin, plan in zip(begins, plans, strict=True)]
        starts = np.concatenate([plan.states[begin] for plan, begin in zip(plans, begins, strict=True)])
        goals = np.concatenate([self.spec.goal_of(plan.states[end]) for plan, end in zip(plans, ends, strict=True)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideDataWarning)  # a bad plan may leave the data; that is the point
            needed = np.asarray(predictor.predict_steps(starts, goals))
        excess = needed - np.concatenate([end - begin for begin, end in zip(begins, ends, strict=True)])
        firsts = np.cumsum([0, *(len(begin) for begin in begins[:-1])])
        return np.maximum.reduceat(excess, firsts)

    def _largest_turn(self, plan: Plan) -> float:
        places = self.normalizer.normalize(plan.states)[:, list(self.spec.goal_dims)]
        return float(np.abs(np.diff(places, n=2, axis=0)).max()) if plan.length > 2 else 0.0
