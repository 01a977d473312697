"""Several plans for one pair, and which of them to keep: by what the Length Predictor learned from the data alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from vhdiffuser.diffusion.guidance import Cost
from vhdiffuser.errors import OutsideDataWarning
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


class StepsPredictor(Protocol):
    """What the planner asks of a Length Predictor."""

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B, d) and (B, goal_dim) -> (B,) shortest-step distances f_theta(s, g) T_max."""
        ...


def candidate_seeds(seeds: IntArray, n: int) -> IntArray:
    """(B,) -> (B, n). Candidate 0 has the seed that a single plan would have: more candidates never change it."""
    spread = (seeds[:, None] + np.arange(n) * 1_000_003) & (2**63 - 1)
    spread[:, 0] = seeds
    return spread


def most_believable(
    plans: Sequence[Plan],
    n: int,
    spec: EnvSpec,
    normalizer: Normalizer,
    predictor: StepsPredictor | None,
    cost: Cost | None = None,
) -> list[Plan]:
    """Of every n plans in a row, which join one pair, the one with the smallest fault.

    Where there is a cost of positions, it comes first: the fault decides between plans of the same cost.
    """
    if predictor is not None:
        faults = largest_excess(plans, spec, predictor)
    else:
        faults = np.array([largest_turn(plan, spec, normalizer) for plan in plans])
    costs = np.zeros(len(plans)) if cost is None else np.array([plan_cost(plan, spec, cost) for plan in plans])
    ranked = np.lexsort((faults.reshape(-1, n), costs.reshape(-1, n)), axis=1)  # (pairs, n), the best first
    return [plans[row * n + int(best)] for row, best in enumerate(ranked[:, 0])]


def plan_cost(plan: Plan, spec: EnvSpec, cost: Cost) -> float:
    """The cost of all of a plan's positions together."""
    with torch.no_grad():
        return float(cost(torch.from_numpy(spec.goal_of(plan.states))[None].float()).sum())


def largest_excess(plans: Sequence[Plan], spec: EnvSpec, predictor: StepsPredictor) -> FloatArray:
    """(len(plans),) by how many steps a part of each plan is shorter than the Length Predictor says it can be.

    A plan through a wall joins two places in fewer steps than any way between them takes.
    """
    reach = max(spec.T_max // 10, 1)
    begins = [np.arange(0, plan.length - 1, reach) for plan in plans]
    ends = [np.minimum(begin + reach, plan.length - 1) for begin, plan in zip(begins, plans, strict=True)]
    starts = np.concatenate([plan.states[begin] for plan, begin in zip(plans, begins, strict=True)])
    goals = np.concatenate([spec.goal_of(plan.states[end]) for plan, end in zip(plans, ends, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)  # a bad plan may leave the data; that is the point
        needed = np.asarray(predictor.predict_steps(starts, goals))
    excess = needed - np.concatenate([end - begin for begin, end in zip(begins, ends, strict=True)])
    firsts = np.cumsum([0, *(len(begin) for begin in begins[:-1])])
    return np.maximum.reduceat(excess, firsts)


def largest_turn(plan: Plan, spec: EnvSpec, normalizer: Normalizer) -> float:
    """The largest turn between two control steps, normalised: jumps and kinks are large."""
    places = normalizer.normalize(plan.states)[:, list(spec.goal_dims)]
    return float(np.abs(np.diff(places, n=2, axis=0)).max()) if plan.length > 2 else 0.0
