"""Evaluation of plans without execution: plans between states of held-out episodes, compared with the episodes.

A plan has no unique ground truth, so it is measured by what good plans share with the data: they stay close to the
data, move no faster than it, and take about as long as the episode, or less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from vhdiffuser.benchmark.length_eval import PAIRS_SEED, recorded_pairs
from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.data.motion import fastest_motion
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.recorded import HELD_OUT
from vhdiffuser.planner.planner import Planner
from vhdiffuser.types import Episodes, FloatArray
from vhdiffuser.weights.places import Source

_STATES = 200_000
"""Approximate number of training states to compare plans with, evenly subsampled."""


@dataclass(frozen=True)
class PlanEvaluation:
    """Summary figures and the values behind them."""

    figures: dict[str, float | int]
    """Figures by name."""
    recorded: FloatArray
    """(n,) steps in the episodes."""
    planned: FloatArray
    """(n,) steps of the plans."""
    distance: FloatArray
    """(n,) largest normalised distance of each plan from the training data."""

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON-serialisable dict."""
        return dict(self.figures)


def evaluate_plans(
    planner: Planner, training: Episodes, held_out: Episodes, n: int = 200, seed: int = PAIRS_SEED
) -> PlanEvaluation:
    """Plan between n pairs of states of held-out episodes.

    Distances to the nearest training state are infinity norms over the normalised goal dimensions, as for epsilon. The
    held-out episodes' own distances are the reference.
    """
    spec, normalizer = planner.spec, planner.normalizer

    def places(states: FloatArray) -> FloatArray:
        return spec.goal_of(normalizer.normalize(states))

    starts, goals, steps = recorded_pairs(held_out, spec, n, seed)
    plans = planner.plan_batch(starts, goals, seeds=seed)
    known = spec.planning_state(training.observations[:: max(1, len(training.observations) // _STATES)])
    tree = cKDTree(places(known))
    away = np.array([tree.query(places(plan.states), p=np.inf)[0].max() for plan in plans])
    fresh = spec.planning_state(held_out.observations[:: max(1, len(held_out.observations) // (10 * n))])
    recorded_away = tree.query(places(fresh), p=np.inf)[0]
    fastest = (planner.motion or fastest_motion(training, spec)).speed
    moved = [np.linalg.norm(np.diff(spec.goal_of(plan.states), axis=0), axis=1) for plan in plans]
    planned = np.array([plan.length - 1 for plan in plans], np.float64)
    ratio = planned / steps
    low, middle, high = np.quantile(ratio, (0.1, 0.5, 0.9))
    return PlanEvaluation(
        figures={
            "pairs": n,
            "on_data": float((away <= spec.epsilon).mean()),
            "distance_mean": float(away.mean()),
            "distance_p95": float(np.quantile(away, 0.95)),
            "recorded_distance_p95": float(np.quantile(recorded_away, 0.95)),
            "too_fast_steps": float(np.mean(np.concatenate(moved) > fastest)),
            "length_ratio_p10": float(low),
            "length_ratio_median": float(middle),
            "length_ratio_p90": float(high),
        },
        recorded=steps,
        planned=planned,
        distance=away,
    )


def evaluate_held_out(
    environment: Environment, source: Source = "auto", n: int = 200, seed: int = PAIRS_SEED
) -> dict[str, Any]:
    """Evaluate an environment's planner on n pairs of held-out episodes.

    Training holds out episodes only if there is no simulator; `held_out` says whether it did.
    """
    training, held_out = load_dataset(environment.name).episodes.split(environment.held_out or HELD_OUT)
    planner = load_method("vhd", environment, source).planner
    assert isinstance(planner, Planner)
    result = evaluate_plans(planner, training, held_out, n, seed)
    return {"environment": environment.name, "held_out": bool(environment.held_out), **result.to_json()}
