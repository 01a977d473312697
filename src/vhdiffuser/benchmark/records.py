"""What rows and figures keep of an execution."""

from __future__ import annotations

import numpy as np

from vhdiffuser.envs.success import goal_distance
from vhdiffuser.execution.executor import Outcome
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.trajectories import Rollout
from vhdiffuser.types import EnvSpec, FloatArray


def path_length(spec: EnvSpec, observations: FloatArray) -> float:
    """Length of the path (T, observation_dim) in the goal dimensions, in the environment's units."""
    places = spec.goal_of(spec.planning_state(observations)).astype(np.float64)
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())


def start_gap(spec: EnvSpec, scale: FloatArray, rollout: Rollout) -> float:
    """Largest normalised distance between a plan's first state and the state it was made at."""
    places = [spec.goal_of(spec.planning_state(rollout.observations[step])) for step, _ in rollout.plans]
    return max(
        float(goal_distance(spec, scale, plan.states[0], place))
        for (_, plan), place in zip(rollout.plans, places, strict=True)
    )


def kept_rollout(spec: EnvSpec, outcome: Outcome) -> KeptRollout:
    """The part of an execution that figures and videos need."""
    rollout = outcome.rollout
    return KeptRollout(
        number=outcome.number,
        instance=outcome.instance,
        success=rollout.success,
        states=spec.planning_state(rollout.observations),
        actions=rollout.actions,
        plans=tuple((step, spec.goal_of(plan.states)) for step, plan in rollout.plans),
    )
