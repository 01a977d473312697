"""Fig. 1: plans for one pair that are too short, right, and too long."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.execution.loop import BatchPlanner, plan_seed
from vhdiffuser.results.rollout_files import PlanSheet
from vhdiffuser.types import FloatArray, Instance

MISMATCH = (0.5, 1.0, 1.4)
"""Plan lengths in Fig. 1 as multiples of L_hat, without fixed-horizon planners."""


def plan_sheet(
    planner: BatchPlanner,
    env: PlanningEnv,
    walls: FloatArray,
    instances: list[Instance],
    seed: int,
    fixed: Mapping[int, BatchPlanner] | None = None,
) -> PlanSheet:
    """Fig. 1: one pair among `instances`, planned too short, right, and too long.

    With planners of three horizons (`fixed`, by horizon), each plans at its own, for the pair whose L_hat is nearest to
    the middle one. Otherwise VHD plans the pair with the longest L_hat at multiples of it.
    """
    spec = planner.spec
    starts = np.stack([spec.planning_state(env.reset(item)) for item in instances])
    goals = np.stack([item.goal for item in instances])
    predicted = planner.predict_lengths(starts, goals)
    assert predicted is not None, "this figure needs planners that predict lengths"
    if fixed:
        planners = dict(sorted(fixed.items()))
        H = list(planners)[len(planners) // 2]
        number = int(np.abs(predicted - H).argmin())
        rule = f"its predicted length ({predicted[number]}) is nearest to {H}"
    else:
        # Choose a pair whose longest plan fits below T_max, to show all three lengths.
        number = int(np.where(predicted * MISMATCH[-1] <= spec.T_max, predicted, 0).argmax())
        lengths = np.clip(np.rint(predicted[number] * np.array(MISMATCH)), spec.L_min, spec.T_max).astype(np.int64)
        planners = {int(length): planner for length in lengths}
        rule = f"its predicted length ({predicted[number]}) is the longest"
    start, goal = starts[number][None], goals[number][None]
    seeds = np.array([plan_seed(seed, number, 0)])
    plans = [own.plan_batch(start, goal, np.array([length]), seeds=seeds)[0] for length, own in planners.items()]
    return PlanSheet(
        environment=spec.name,
        goal=goals[number],
        plans=tuple(spec.goal_of(plan.states) for plan in plans),
        walls=np.asarray(walls),
        planner="" if fixed else "VHD",
        rule=f"of {len(instances)}, {rule}",
    )
