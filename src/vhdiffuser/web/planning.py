"""Horizon and plan for one pair, as replies for the page."""

from __future__ import annotations

import itertools
import time

import numpy as np

from vhdiffuser.envs.base import InstanceSource
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.planner.calibrated import belongs
from vhdiffuser.planner.planner import Planner
from vhdiffuser.types import FloatArray, Instance
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.messages import HorizonReply, LengthsReply, LengthsRequest, PlanReply, PlanRequest
from vhdiffuser.web.scene import checked_instance, notes_on, numbers, tolerance

_FRAMES = 65
"""Maximum number of reverse steps sent to the page, evenly spaced."""


def planner_of(loaded: Loaded, request: PlanRequest) -> Planner:
    """The planner with the request's options."""
    if request.length is not None and not loaded.spec.L_min <= request.length <= loaded.spec.T_max:
        raise VhdError(
            f"length {request.length} is out of range: {loaded.spec.name} has plans of "
            f"{loaded.spec.L_min} to {loaded.spec.T_max} states."
        )
    return loaded.planner.with_options(
        sampler=request.sampler, steps=request.steps, gamma=request.gamma, risk=request.risk
    )


def horizon(loaded: Loaded, request: PlanRequest, instance: Instance) -> HorizonReply:
    """L_hat with its spread: over starts and goals within epsilon, and between the predicted quantiles."""
    planner = planner_of(loaded, request)
    starts, goals = neighbours(loaded, instance)
    lengths = planner.predict_lengths(starts, goals)
    notes = notes_on(loaded, instance)
    if request.length is None and lengths[0] == loaded.spec.T_max:
        notes.append(f"L_hat is clipped at T_max = {loaded.spec.T_max} states; the plan may be too short to follow.")
    length = request.length or int(lengths[0])
    known = None
    if planner.calibration is not None and belongs(planner, planner.calibration):
        known = planner.horizon(instance.start, instance.goal, length)
    return HorizonReply(
        length=length,
        predicted=request.length is None,
        low=int(lengths.min()),
        high=int(lengths.max()),
        quantile_spread=_quantile_spread(loaded, instance),
        probability=None if known is None or known.probability is None else round(known.probability, 4),
        interval=None if known is None or known.interval is None else [round(end) for end in known.interval],
        notes=notes,
    )


def neighbours(loaded: Loaded, instance: Instance) -> tuple[FloatArray, FloatArray]:
    """(n, d) starts and (n, goal_dim) goals: the pair, then copies with one end moved by epsilon, if that is free."""
    dims = list(loaded.spec.goal_dims)
    side = tolerance(loaded)
    starts, goals = [instance.start], [instance.goal]
    for direction in itertools.product((-1, 0, 1), repeat=len(dims)):
        shift = np.asarray(direction) * side
        if not shift.any():
            continue
        moved = instance.start.copy()
        moved[dims] += shift
        for start, goal in ((moved, instance.goal), (instance.start, instance.goal + shift)):
            if _is_free(loaded.env, Instance(start, goal, 0)):
                starts.append(start)
                goals.append(goal)
    return np.stack(starts).astype(np.float32), np.stack(goals).astype(np.float32)


def _is_free(env: InstanceSource, instance: Instance) -> bool:
    try:
        env.check(instance)
    except VhdError:
        return False
    return True


def _quantile_spread(loaded: Loaded, instance: Instance) -> float | None:
    """Steps between the outer quantiles, if the Length Predictor has several."""
    predict_spread = getattr(loaded.planner.length_predictor, "predict_spread", None)
    if predict_spread is None:
        return None
    try:
        _, spread = predict_spread(instance.start, instance.goal)
    except VhdError:  # a predictor of one quantile
        return None
    return round(float(spread), 1)


def plan(loaded: Loaded, request: PlanRequest, instance: Instance, length: int) -> PlanReply:
    """The plan with which an execution of this seed starts, and its denoising."""
    planner, spec = planner_of(loaded, request), loaded.spec
    begun = time.perf_counter()
    seed = plan_seed(request.seed, 0, 0)
    made = planner.plan(instance.start, instance.goal, length, seed=seed, keep_denoising=True)
    seconds = time.perf_counter() - begun
    assert made.denoising is not None
    last = len(made.denoising) - 1
    frames = np.unique(np.linspace(0, last, min(_FRAMES, last + 1)).round().astype(int))
    return PlanReply(
        environment=spec.name,
        length=made.length,
        state_names=list(spec.state_names),
        goal=numbers(made.goal),
        states=numbers(made.states),
        frames=frames.tolist(),
        denoising=numbers(spec.goal_of(made.denoising[frames]), 3),
        sampler=planner.options.sampler,
        steps=planner.options.steps,
        gamma=planner.options.gamma,
        seed=request.seed,
        seconds=round(seconds, 4),
    )


def lengths(loaded: Loaded, request: LengthsRequest) -> LengthsReply:
    """L_hat of many pairs in one pass."""
    instances = [checked_instance(loaded, pair.start, pair.goal) for pair in request.pairs]
    starts, goals = np.stack([item.start for item in instances]), np.stack([item.goal for item in instances])
    planner = loaded.planner.with_options(gamma=request.gamma, risk=request.risk)
    return LengthsReply(lengths=planner.predict_lengths(starts, goals).tolist())
