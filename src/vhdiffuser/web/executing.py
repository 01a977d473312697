"""Execution of one pair, by one method or several."""

from __future__ import annotations

from typing import Literal

import numpy as np

from vhdiffuser.benchmark.methods import METHODS, Method
from vhdiffuser.envs.protocols import paper_rule
from vhdiffuser.execution.executor import Executor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Instance
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.limits import NotReady
from vhdiffuser.web.messages import ExecuteRequest, ExecutionReply, MadePlan, MethodReply
from vhdiffuser.web.planning import planner_of
from vhdiffuser.web.scene import numbers

COMPARED = ("vhd", "fh-h1", "fh-h2", "fh-h3")
"""Methods of the page's comparison: those of the paper's Fig. 3."""

_PLAN_POINTS = 160
"""Maximum number of points of a plan sent with an execution."""


def execute(loaded: Loaded, request: ExecuteRequest, instance: Instance) -> ExecutionReply:
    """VHD on this pair, or a plan of the requested length."""
    return _run(loaded, planner_of(loaded, request), request, instance, request.length)


def execute_method(loaded: Loaded, request: ExecuteRequest, instance: Instance, name: str) -> MethodReply:
    """One of `COMPARED` on this pair; all have the request's seed."""
    method = METHODS[name]
    horizon = method.horizon(loaded.environment)
    own = None if horizon is None else loaded.fixed.get(horizon)
    planner = planner_of(loaded, request)
    if own is not None:
        options = planner.options.within(own.config)
        planner = own.with_options(sampler=options.sampler, steps=options.steps, gamma=options.gamma)
    return MethodReply(
        method=name,
        title=_title(method, horizon),
        weights="own" if own is not None or horizon is None else "forced",
        horizon=horizon,
        execution=_run(loaded, planner, request, instance, horizon),
    )


def _title(method: Method, horizon: int | None) -> str:
    return "VHD" if horizon is None else f"FH-H{method.name[-1]} = {horizon}"


def _run(
    loaded: Loaded,
    planner: Planner,
    request: ExecuteRequest,
    instance: Instance,
    horizon: int | None,
) -> ExecutionReply:
    if loaded.controller is None:
        raise NotReady(
            f"{loaded.spec.name}: its controller's weights are missing, so plans cannot be executed. "
            f"Make them with `vhd train dynamics {loaded.spec.name}`."
        )
    rule = paper_rule(request.protocol, loaded.environment.step_budget)
    assert loaded.pool is not None  # without a simulator, requests to execute are refused
    with loaded.pool.lent() as simulators:
        executor = Executor(
            planner,
            loaded.controller,
            simulators,
            rule,
            request.seed,
            horizon,
        )
        (outcome,) = executor.run([instance])
    spec, rollout = loaded.spec, outcome.rollout
    return ExecutionReply(
        protocol=request.protocol,
        success=rollout.success,
        steps=rollout.steps,
        places=numbers(spec.goal_of(spec.planning_state(rollout.observations)), 3),
        plans=made_plans(spec, rollout.plans),
        final_distance=round(outcome.final_distance, 4),
        epsilon=spec.epsilon,
        budget=rule.budget,
        planning_seconds=round(outcome.planning_seconds, 4),
        control_seconds=round(outcome.control_seconds, 4),
    )


def made_plans(spec: EnvSpec, plans: tuple[tuple[int, Plan], ...]) -> list[MadePlan]:
    """The plans of an execution and the reason for each: the first, a deviation, or the end of the previous plan."""
    result = []
    for number, (step, plan) in enumerate(plans):
        reason: Literal["start", "deviation", "ended"] = "start"
        if number:
            before, old = plans[number - 1]
            reason = "ended" if step - before >= old.length else "deviation"
        chosen = np.unique(np.linspace(0, plan.length - 1, min(plan.length, _PLAN_POINTS)).round().astype(int))
        places = numbers(spec.goal_of(plan.states[chosen]), 3)
        result.append(MadePlan(step=step, length=plan.length, reason=reason, places=places))
    return result
