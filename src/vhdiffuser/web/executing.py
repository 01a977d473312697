"""Execution of one start-goal pair, by one or several methods, optionally with a moving goal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import get_args

import numpy as np

from vhdiffuser.benchmark.methods import METHODS, Method
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.protocols import ExecutionRule, paper_rule, replan_every
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import BatchPlanner, ControlLoop, Episode, Group, plan_seed
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.planner.forwarding import BeginsWith
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import FloatArray, Instance
from vhdiffuser.web.endings import explain
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.limits import NotReady
from vhdiffuser.web.planning import KeepsOut, avoided, planner_of, subsampled
from vhdiffuser.web.replies import ExecutionReply, MadePlan, MethodReply, Reason, SkeletonReply, TrialReply
from vhdiffuser.web.requests import ExecuteRequest, GoalMove, MethodName, Protocol, TrialsRequest
from vhdiffuser.web.scene import checked_instance, numbers, random_instance

COMPARED: tuple[MethodName, ...] = get_args(MethodName)
"""Methods in the page's comparison: those of Fig. 3 of the paper."""

_POINTS, _LEAST_POINTS = 16_000, 24
"""Points sent of all plans of an execution together, and of each of many at least."""
_POSES = 300
"""Maximum number of poses sent with an execution."""


def execute(loaded: Loaded, request: ExecuteRequest, instance: Instance) -> ExecutionReply:
    """Execute VHD on this pair, or a plan of the requested length."""
    return _run(loaded, planner_of(loaded, request), request, instance, request.length)


def execute_method(loaded: Loaded, request: ExecuteRequest, instance: Instance, name: MethodName) -> MethodReply:
    """Execute one of the `COMPARED` methods on this pair, with the request's seed."""
    if request.deadline is not None:
        raise VhdError("a comparison varies the horizon, which a deadline fixes: leave out the deadline.")
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


def trial(loaded: Loaded, request: TrialsRequest, number: int) -> TrialReply:
    """Execute one method on the random pair with this number."""
    pair = random_instance(loaded, number)
    settings = request.model_dump(exclude={"method", "first", "count"})
    asked = ExecuteRequest(**settings, start=pair.start, goal=pair.goal)
    instance = checked_instance(loaded, pair.start, pair.goal, request.seed)
    run = execute_method(loaded, asked, instance, request.method).execution
    return TrialReply(
        number=number,
        start=pair.start,
        goal=pair.goal,
        success=run.success,
        ending=run.ending,
        explanation=run.explanation,
        length=run.plans[0].length,
        steps=run.steps,
        replans=len(run.plans) - 1,
        planning_seconds=run.planning_seconds,
    )


def _title(method: Method, horizon: int | None) -> str:
    return "VHD" if horizon is None else f"FH-H{method.name[-1]} = {horizon}"


@dataclass(frozen=True)
class _Made:
    """When and why a plan of an execution was made."""

    reason: Reason
    seconds: float


def _run(
    loaded: Loaded,
    planner: Planner,
    request: ExecuteRequest,
    instance: Instance,
    horizon: int | None,
) -> ExecutionReply:
    if loaded.pool is None:
        raise NotReady(f"{loaded.spec.name} has data but no simulator, so plans cannot be executed.")
    if loaded.controller is None:
        raise NotReady(
            f"{loaded.spec.name}: the controller has no weights, so plans cannot be executed. Train it with "
            f"`vhd train dynamics {loaded.spec.name}`."
        )
    budget = loaded.environment.step_budget + (request.moves[-1].step if request.moves else 0)
    rule, boxes = _rule(request.protocol, budget), avoided(loaded, request)
    used: BatchPlanner = KeepsOut(planner, boxes, predicted=horizon is None)
    begun = time.perf_counter()
    if request.deadline is not None:
        used = BeginsWith(planner, _plan_until(planner, request, instance))
    planned = time.perf_counter() - begun
    loop = ControlLoop(used, loaded.controller, rule, request.seed, horizon)
    with loaded.pool.lent() as simulators:
        episode, made = _drive(loop, simulators, instance, _checked_moves(loaded, request.moves, instance))
    spec, rollout = loaded.spec, episode.rollout(loaded.spec.action_dim)
    states = spec.planning_state(rollout.observations)
    places = spec.goal_of(states)
    explained = explain(loaded, rule, rollout, episode.goal)
    return ExecutionReply(
        protocol=request.protocol,
        success=rollout.success,
        steps=rollout.steps,
        ending=explained.ending,
        explanation=explained.text,
        missed_by=round(explained.missed_by, 4),
        places=numbers(places, 3),
        states=numbers(states, 3) if spec.state_dim > spec.goal_dim else [],
        plans=_made_plans(loaded, rollout.plans, made),
        intrusions=_intrusions(places, boxes),
        skeleton=_skeleton(loaded, rollout.observations) if request.skeleton else None,
        final_distance=round(loop.distance_to_goal(episode), 4),
        epsilon=spec.epsilon,
        budget=rule.budget,
        planning_seconds=round(planned + episode.planning, 4),
        control_seconds=round(episode.control, 4),
    )


def _rule(protocol: Protocol, budget: int) -> ExecutionRule:
    """The paper's protocols, or a new plan at every control step."""
    return replan_every(1, budget) if protocol == "live" else paper_rule(protocol, budget)


def _plan_until(planner: Planner, request: ExecuteRequest, instance: Instance) -> Plan:
    """The plan for the request's deadline, identical to `planning.plan`."""
    seed = plan_seed(request.seed, 0, 0)
    return planner.plan(instance.start, instance.goal, deadline=request.deadline, arrive=request.arrive, seed=seed)


def _drive(
    loop: ControlLoop, simulators: Simulators, instance: Instance, moves: list[GoalMove]
) -> tuple[Episode, list[_Made]]:
    """Execute once with a moving goal; moves after the end are ignored."""
    episode = Episode(0, instance.goal, [simulators.reset([0], [instance])[0]])
    made: list[_Made] = []
    waiting = list(moves)
    moved = False
    while episode.phase != "ended":
        while waiting and episode.steps >= waiting[0].step:
            episode.aim(np.asarray(waiting.pop(0).goal, np.float32))
            moved = True
        if episode.phase == "waiting":
            before = episode.planning
            reason = "goal" if moved else _reason(episode, loop.rule)
            loop.plan([episode])
            made.append(_Made(reason, episode.planning - before))
            moved = False
            continue  # the start may lie in the goal region
        group = Group([episode])
        actions = loop.act(group)
        loop.advance(group, actions, simulators.step([0], actions))
    return episode, made


def _reason(episode: Episode, rule: ExecutionRule) -> Reason:
    if not episode.plans:
        return "start"
    if rule.every is not None:
        return "due"
    return "ended" if episode.index >= episode.plan.length else "deviation"


def _checked_moves(loaded: Loaded, moves: Sequence[GoalMove], instance: Instance) -> list[GoalMove]:
    if any(later.step < earlier.step for earlier, later in pairwise(moves)):
        raise VhdError("goal moves must be sorted by step.")
    for move in moves:
        loaded.env.check(replace(instance, goal=np.asarray(move.goal, np.float32)))
    return list(moves)


def _made_plans(loaded: Loaded, plans: Sequence[tuple[int, Plan]], made: Sequence[_Made]) -> list[MadePlan]:
    points = max(_POINTS // len(plans), _LEAST_POINTS)
    return [
        MadePlan(
            step=step,
            length=plan.length,
            reason=why.reason,
            places=numbers(loaded.spec.goal_of(subsampled(plan.states, points)), 3),
            route=[] if plan.route is None else numbers(subsampled(plan.route, points), 3),
            seconds=round(why.seconds, 4),
        )
        for (step, plan), why in zip(plans, made, strict=True)
    ]


def _intrusions(places: FloatArray, boxes: FloatArray | None) -> int:
    """Number of control steps inside boxes."""
    if boxes is None:
        return 0
    inside = (boxes[:, 0] < places[1:, None]) & (places[1:, None] < boxes[:, 1])  # (steps, n, goal_dim)
    return int(inside.all(axis=-1).any(axis=-1).sum())


def _skeleton(loaded: Loaded, observations: FloatArray) -> SkeletonReply | None:
    if not isinstance(loaded.env, PlanningEnv):
        return None
    last = len(observations) - 1
    steps = np.unique(np.linspace(0, last, min(last + 1, _POSES)).round().astype(int))
    skeleton = loaded.env.skeleton(observations[steps])
    if skeleton is None:
        return None
    bones = [[float(first), float(second), radius] for first, second, radius in skeleton.bones]
    return SkeletonReply(bones=bones, steps=steps.tolist(), poses=numbers(skeleton.points, 3))
