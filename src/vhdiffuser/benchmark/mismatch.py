"""Fig. 1: plans for one pair that are too short, right and too long."""

from __future__ import annotations

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.execution.loop import BatchPlanner, plan_seed
from vhdiffuser.results.rollout_files import PlanSheet
from vhdiffuser.types import FloatArray, Instance

MISMATCH = (0.5, 1.0, 1.4)
"""Lengths of the plans in Fig. 1, as multiples of L_hat."""


def plan_sheet(
    planner: BatchPlanner, env: PlanningEnv, walls: FloatArray, instances: list[Instance], seed: int
) -> PlanSheet:
    """Fig. 1: the pair with the longest L_hat among `instances`, planned too short, right and too long."""
    spec = planner.spec
    starts = np.stack([spec.planning_state(env.reset(item)) for item in instances])
    goals = np.stack([item.goal for item in instances])
    predicted = np.asarray(planner.predict_lengths(starts, goals))
    # A pair whose longest plan still fits below T_max shows all three lengths.
    fitting = np.where(predicted * MISMATCH[-1] <= spec.T_max, predicted, 0)
    number = int(fitting.argmax())
    lengths = np.clip(np.rint(predicted[number] * np.array(MISMATCH)), spec.L_min, spec.T_max).astype(np.int64)
    rows = [number] * len(lengths)
    seeds = np.full(len(lengths), plan_seed(seed, number, 0), np.int64)
    plans = planner.plan_batch(starts[rows], goals[rows], lengths, seeds=seeds)
    return PlanSheet(
        environment=spec.name,
        goal=goals[number],
        plans=tuple(spec.goal_of(plan.states) for plan in plans),
        walls=np.asarray(walls),
    )
