"""A single execution; the benchmark does the same for many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_seed, shown
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.checked import check_trained_for, observed
from vhdiffuser.envs.protocols import paper_rule
from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.agent import Agent
from vhdiffuser.execution.loop import BatchPlanner, require_planner
from vhdiffuser.planner.forwarding import KeepsDenoising
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Rollout
from vhdiffuser.types import Instance


def execute(
    planner: BatchPlanner,
    start: npt.ArrayLike,
    goal: npt.ArrayLike,
    protocol: str = "rp",
    *,
    seed: int = 0,
    length: int | None = None,
    env: PlanningEnv | None = None,
    controller: Controller | None = None,
) -> Rollout:
    """Plan from `start` (d,) to `goal` (goal_dim,) and execute the plan, one action per index.

    `protocol` is `ss` (single-shot: one plan, followed to its end) or `rp` (replan-on-deviation, until the goal is
    reached or the step budget is spent). `seed` determines the plans and what the start leaves open. Plans have
    `length` states (default: predicted). `env` and `controller` default to the environment's; with a simulator of your
    own, pass both.

    >>> rollout = execute(planner, [1, 1, 0, 0], [7, 9])             # doctest: +SKIP
    >>> rollout.success, rollout.steps, rollout.replans              # doctest: +SKIP
    """
    require_planner(planner)
    environment = environment_of(planner.spec)
    rule = paper_rule(protocol, environment.step_budget)
    if env is None:
        if environment.simulator is None:
            raise VhdError(f"{environment.name} has no registered simulator: pass `env`, a PlanningEnv of your own.")
        env = environment.make()
    if not isinstance(env, PlanningEnv):
        raise VhdError(f"env must be a PlanningEnv (a simulator); got {shown(env)}.")
    check_trained_for(planner.spec, env.spec)
    instance = Instance(as_numbers("a start", start), as_numbers("a goal", goal), as_seed(seed))
    env.check(instance)
    agent = Agent(planner, controller, rule, seed=seed, length=length)
    agent.reset(instance.goal)
    action = agent.act(observed(env, "reset", instance))
    while not agent.done:
        action = agent.act(observed(env, "step", action))
    return agent.rollout()


def execute_goals(
    planner: Planner,
    start: npt.ArrayLike,
    goals: Sequence[npt.ArrayLike],
    protocol: str = "rp",
    *,
    after: int | None = None,
    seed: int = 0,
    length: int | None = None,
    keep_denoising: bool = False,
) -> list[Rollout]:
    """One rollout per goal (goal dimensions, or whole planning states), each from where the one before it ended.

    The first is cut `after` so many control steps, if given: the goal moves on the way.
    """
    follower = KeepsDenoising(planner) if keep_denoising else planner
    spec, rollouts = planner.spec, list[Rollout]()
    for number, goal in enumerate(goals):
        whole = np.asarray(goal, np.float32)
        own = spec.goal_of(whole) if len(whole) == spec.state_dim else whole
        rollout = execute(follower, start, own, protocol, seed=seed + number, length=length)
        if after is not None and number == 0 and after < rollout.steps:
            rollout = rollout.until(after)
        rollouts.append(rollout)
        start = spec.planning_state(rollout.observations[-1])
    return rollouts
