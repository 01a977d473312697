"""Why an execution ended: goal reached, fell over, stuck, out of steps, off the plan, or narrowly missed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhdiffuser.envs.protocols import THRESHOLD, ExecutionRule
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import FloatArray
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.replies import Ending

_STILL = 40, 0.2
"""A robot is stuck if it stayed in one place for at least this many final control steps and this fraction of all
steps."""
_AT_WALL = 1.5
"""A wall within this many body radii counts as touching."""


@dataclass(frozen=True)
class Explained:
    """How an execution ended."""

    ending: Ending
    text: str
    """One sentence for the user."""
    missed_by: float
    """Distance to the goal, in the environment's units."""


def explain(loaded: Loaded, rule: ExecutionRule, rollout: Rollout, goal: FloatArray) -> Explained:
    """Explain how a rollout towards its (last) goal ended."""
    spec = loaded.spec
    places = spec.goal_of(spec.planning_state(rollout.observations))  # (steps + 1, goal_dim)
    missed_by = float(np.linalg.norm(places[-1] - goal))
    replans = len(rollout.plans) - 1
    if rollout.success:
        again = f", replanned {'once' if replans == 1 else f'{replans} times'}" if replans else ""
        return Explained("reached", f"Goal reached in {rollout.steps} steps{again}.", missed_by)
    unit = f" {loaded.environment.geometry.unit}" if loaded.environment.geometry.unit else ""
    missed = f"missed by {missed_by:.2g}{unit} after {rollout.steps} steps" + (
        f" and {replans} replan{'s' if replans > 1 else ''}" if replans else ""
    )
    ending, why = _why(loaded, rule, rollout, places)
    return Explained(ending, f"Goal {missed}: {why}.", missed_by)


def _why(loaded: Loaded, rule: ExecutionRule, rollout: Rollout, places: FloatArray) -> tuple[Ending, str]:
    fallen = loaded.environment.has_fallen(rollout.observations)
    if fallen[-1]:
        upright = np.flatnonzero(~fallen)
        return "fell", f"it fell over at step {int(upright[-1]) + 1 if len(upright) else 0} and did not get up"
    off = _off_plan(loaded, rollout)
    if off > THRESHOLD or rule.replans:
        where = _stuck_at(loaded, places)
        if where is not None:
            return "stuck", f"it got stuck {where}"
    if rule.budget is not None and rollout.steps >= rule.budget:
        return "out-of-steps", f"it ran out of steps (the limit is {rule.budget})"
    if off > THRESHOLD:
        step = _left_at(loaded, rollout)
        return "off-plan", f"it left the plan at step {step}, and single-shot does not replan"
    return "missed", "it followed the plan to its end, but the plan ends beside the goal"


def _errors(loaded: Loaded, rollout: Rollout) -> FloatArray:
    """(k,) tracking error along the last plan: normalised, infinity norm."""
    made, plan = rollout.plans[-1]
    observations = rollout.observations[made:]
    spec, states = loaded.spec, loaded.spec.planning_state(observations)
    due = spec.goal_of(_due(loaded, observations, plan))
    return np.asarray(goal_distance(spec, loaded.planner.normalizer.scale, states, due))


def _due(loaded: Loaded, observations: FloatArray, plan: Plan) -> FloatArray:
    """(k, d) reference states of the plan, as the replanning rule defines them."""
    indices = np.minimum(np.arange(len(observations)), plan.length - 1)
    assert loaded.controller is not None
    return loaded.controller.due(observations, [plan] * len(observations), indices)


def _off_plan(loaded: Loaded, rollout: Rollout) -> float:
    return float(_errors(loaded, rollout)[-1])


def _left_at(loaded: Loaded, rollout: Rollout) -> int:
    """First control step after which the robot stayed off its last plan."""
    within = np.flatnonzero(_errors(loaded, rollout) <= THRESHOLD)
    return rollout.plans[-1][0] + (int(within[-1]) + 1 if len(within) else 0)


def _stuck_at(loaded: Loaded, places: FloatArray) -> str | None:
    """Where the robot was stuck at the end; None if it was moving."""
    steps = max(_STILL[0], int(_STILL[1] * len(places)))
    lately = places[-steps:]
    room = 2 * loaded.spec.epsilon * loaded.spec.goal_of(loaded.planner.normalizer.scale)
    if len(lately) < steps or (np.ptp(lately, axis=0) > room).any():
        return None
    geometry = loaded.environment.geometry
    if geometry.is_maze and float(wall_distance(geometry.walls, places[-1])) <= _AT_WALL * geometry.radius:
        return "at a wall"
    return "in place"
