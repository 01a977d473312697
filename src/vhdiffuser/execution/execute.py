"""A single execution; the benchmark does the same for many."""

from __future__ import annotations

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

    `protocol` is `ss` (single-shot: one plan, to its end) or `rp` (replan-on-deviation, until the goal is
    reached or the step budget is spent); `seed` fixes the plans and what the start leaves open. Each plan has
    `length` states, or the predicted length. `env` and `controller` default to the environment's; your own simulator
    needs both.

    >>> rollout = execute(planner, [1, 1, 0, 0], [7, 9])             # doctest: +SKIP
    >>> rollout.success, rollout.steps, rollout.replans              # doctest: +SKIP
    """
    require_planner(planner)
    environment = environment_of(planner.spec)
    rule = paper_rule(protocol, environment.step_budget)
    if env is None:
        if environment.simulator is None:
            raise VhdError(f"{environment.name} has no registered simulator: give `env`, a PlanningEnv of your own.")
        env = environment.make()
    if not isinstance(env, PlanningEnv):
        raise VhdError(f"env must be a PlanningEnv (a simulator of yours), got {shown(env)}.")
    check_trained_for(planner.spec, env.spec)
    instance = Instance(as_numbers("a start", start), as_numbers("a goal", goal), as_seed(seed))
    env.check(instance)
    agent = Agent(planner, controller, rule, seed=seed, length=length)
    agent.reset(instance.goal)
    action = agent.act(observed(env, "reset", instance))
    while not agent.done:
        action = agent.act(observed(env, "step", action))
    return agent.rollout()
