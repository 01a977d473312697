"""Several candidate plans per start-goal pair, and the selection of the best."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vhdiffuser.diffusion.guidance import Cost
from vhdiffuser.errors import OutsideDataWarning
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


class StepsPredictor(Protocol):
    """The interface of a Length Predictor that the planner needs."""

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(B,) shortest-step distances f_theta(s, g) T_max for (B, d) starts and (B, goal_dim) goals.

        A planner that clamps the full last state passes full goal states (B, d) if it has them.
        """
        ...


def candidate_seeds(seeds: IntArray, n: int) -> IntArray:
    """Seeds of n candidates per pair, (B,) -> (B, n). Candidate 0 has the seed of a single plan, whatever n is."""
    spread = (seeds[:, None] + np.arange(n) * 1_000_003) & (2**63 - 1)
    spread[:, 0] = seeds
    return spread


def best_candidates(
    plans: Sequence[Plan],
    n: int,
    spec: EnvSpec,
    normalizer: Normalizer,
    predictor: StepsPredictor | None,
    cost: Cost | None = None,
) -> list[Plan]:
    """The best of each n consecutive plans, which are the candidates of one pair.

    The best candidate is the one that least violates predicted distances; without a predictor, the one with the
    smallest maximum turn. With a cost on positions, the lowest cost comes first, and this breaks ties.
    """
    if predictor is not None:
        faults = largest_excess(plans, spec, predictor)
    else:
        faults = np.array([largest_turn(plan, spec, normalizer) for plan in plans])
    costs = np.zeros(len(plans)) if cost is None else np.array([plan_cost(plan, spec, cost) for plan in plans])
    ranked = np.lexsort((faults.reshape(-1, n), costs.reshape(-1, n)), axis=1)  # (pairs, n), best first
    return [plans[row * n + int(best)] for row, best in enumerate(ranked[:, 0])]


def plan_cost(plan: Plan, spec: EnvSpec, cost: Cost) -> float:
    """Sum of the cost over a plan's positions."""
    return float(cost.values(spec.goal_of(plan.states)[None]).sum())


def largest_excess(plans: Sequence[Plan], spec: EnvSpec, predictor: StepsPredictor) -> FloatArray:
    """(len(plans),) largest violation of predicted distances: steps by which a part of a plan is too short."""
    return np.array([excess.max() for _, excess in distance_excess(plans, spec, predictor)])


def distance_excess(
    plans: Sequence[Plan], spec: EnvSpec, predictor: StepsPredictor
) -> list[tuple[IntArray, FloatArray]]:
    """For each plan, the first indices (n,) of its parts of T_max / 10 steps, and the steps (n,) by which each is
    shorter than predicted.

    A plan through a wall connects two points in fewer steps than any real path.
    """
    reach = max(spec.T_max // 10, 1)
    begins = [np.arange(0, plan.length - 1, reach) for plan in plans]
    ends = [np.minimum(begin + reach, plan.length - 1) for begin, plan in zip(begins, plans, strict=True)]
    starts = np.concatenate([plan.states[begin] for plan, begin in zip(plans, begins, strict=True)])
    goals = np.concatenate([spec.goal_of(plan.states[end]) for plan, end in zip(plans, ends, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideDataWarning)  # a bad plan may leave the data
        needed = np.asarray(predictor.predict_steps(starts, goals))
    excess = needed - np.concatenate([end - begin for begin, end in zip(begins, ends, strict=True)])
    return list(zip(begins, np.split(excess, np.cumsum([len(begin) for begin in begins])[:-1]), strict=True))


def largest_turn(plan: Plan, spec: EnvSpec, normalizer: Normalizer) -> float:
    """Largest second difference of the normalised positions: large at jumps and kinks."""
    places = normalizer.normalize(plan.states)[:, list(spec.goal_dims)]
    return float(np.abs(np.diff(places, n=2, axis=0)).max()) if plan.length > 2 else 0.0
