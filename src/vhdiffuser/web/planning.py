"""Horizon, plan and candidates for one start-goal pair, as replies to the page."""

from __future__ import annotations

import itertools
import time
import warnings
from dataclasses import dataclass

import numpy as np

from vhdiffuser.diffusion.interpolation import knot_count
from vhdiffuser.envs.base import InstanceSource
from vhdiffuser.errors import BlockedRouteWarning, VhdError
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.length.predictor import OFF_SUPPORT, LengthPredictor
from vhdiffuser.planner.calibrated import DEADLINE_RISK
from vhdiffuser.planner.candidates import candidate_seeds, largest_excess
from vhdiffuser.planner.compose import window_starts
from vhdiffuser.planner.forwarding import ForwardingPlanner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import FloatArray, Instance, IntArray
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.replies import (
    CandidateReply,
    CandidatesReply,
    DeadlineReply,
    HorizonReply,
    LengthsReply,
    PlanReply,
)
from vhdiffuser.web.requests import CandidatesRequest, LengthsRequest, PlanningRequest, PlanRequest
from vhdiffuser.web.scene import checked_instance, notes_on, numbers, tolerance

_PLAN_POINTS = 160
"""Maximum number of points when only the shape of a plan is shown."""
_FAR = 1e6
"""Coordinates of boxes are clipped to this magnitude."""
_FRAMES = 65
"""Maximum number of reverse steps sent to the page, evenly spaced."""


def planner_of(loaded: Loaded, request: PlanningRequest) -> Planner:
    """The planner with the request's options."""
    if request.length is not None and not loaded.spec.L_min <= request.length <= loaded.spec.T_max:
        raise VhdError(
            f"length {request.length} is out of range: {loaded.spec.name} has plans of "
            f"{loaded.spec.L_min} to {loaded.spec.T_max} states."
        )
    planner = loaded.planner.with_options(
        sampler=request.sampler, steps=request.steps, gamma=request.gamma, risk=request.risk
    )
    if not isinstance(request, PlanRequest) or request.deadline is None:
        return planner
    if request.deadline > loaded.environment.step_budget:
        raise VhdError(f"deadlines in {loaded.spec.name} are at most {loaded.environment.step_budget} control steps.")
    if request.length is not None or avoided(loaded, request) is not None:
        raise VhdError(
            "a deadline cannot be combined with a fixed length, boxes or added walls: leave out one or the other."
        )
    return planner if planner.options.risk is not None else planner.with_options(risk=DEADLINE_RISK)


def avoided(loaded: Loaded, request: PlanningRequest) -> FloatArray | None:
    """(n, 2, goal_dim) boxes to avoid: the request's, plus added walls if the planner is told of them; None if there
    are none."""
    dim = loaded.spec.goal_dim
    if any(len(corner) != dim for box in request.avoid for corner in box):
        raise VhdError(f"each box to avoid needs a lower and an upper corner of {dim} numbers.")
    boxes = np.array(request.avoid, np.float64).reshape(-1, 2, dim).clip(-_FAR, _FAR).astype(np.float32)
    if (boxes[:, 0] > boxes[:, 1]).any():
        raise VhdError("each box to avoid needs its lower corner first, then its upper corner.")
    if loaded.new_walls is not None and request.walls_known:
        boxes = np.concatenate([boxes, loaded.new_walls])
    return boxes if len(boxes) else None


@dataclass(frozen=True)
class KeepsOut(ForwardingPlanner):
    """A planner that avoids boxes, with the interface that execution needs."""

    boxes: FloatArray | None
    """(n, 2, goal_dim) lower and upper corners."""
    predicted: bool = True
    """Whether lengths are predicted, so that detours may lengthen them."""

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """Plans of the given lengths, lengthened by detours if lengths are predicted."""
        if self.boxes is not None and self.predicted:
            lengths = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlockedRouteWarning)  # the page shows boxes that a plan enters
            return self.planner.plan_batch(starts, goals, lengths, avoid=self.boxes, seeds=seeds)


def horizon(loaded: Loaded, request: PlanRequest, instance: Instance) -> HorizonReply:
    """L_hat and its spread: over starts and goals within epsilon, and between predicted quantiles."""
    planner = planner_of(loaded, request)
    starts, goals = neighbours(loaded, instance)
    lengths = planner.predict_lengths(starts, goals)
    notes = notes_on(loaded, instance)
    if request.length is None and lengths[0] == loaded.spec.T_max:
        notes.append(f"L_hat is clipped at T_max = {loaded.spec.T_max} states; the plan may be too short to follow.")
    length = request.length or int(lengths[0])
    known = planner.horizon(instance.start, instance.goal, length)
    if known.reachable is False:
        notes.append(_off_the_data(planner, instance))
    return HorizonReply(
        length=length,
        predicted=request.length is None,
        low=int(lengths.min()),
        high=int(lengths.max()),
        quantile_spread=_quantile_spread(loaded, instance),
        probability=None if known.probability is None else round(known.probability, 4),
        interval=None if known.interval is None else [round(end) for end in known.interval],
        reachable=known.reachable,
        deadline=None if request.deadline is None else _deadline(planner, instance, request.deadline, length),
        notes=notes,
    )


def _deadline(planner: Planner, instance: Instance, deadline: int, needed: int) -> DeadlineReply:
    """Whether a plan of `needed` states, which meets the planner's risk, meets the deadline."""
    known = deadline >= planner.lengths[0]  # nothing was executed with shorter plans
    by_then = planner.horizon(instance.start, instance.goal, deadline).probability if known else None
    risk = planner.options.risk
    assert risk is not None, "planner_of sets a risk"
    return DeadlineReply(
        limit=deadline,
        kept=needed <= deadline,
        steps=needed,
        risk=risk,
        probability=None if by_then is None else round(by_then, 4),
    )


def _off_the_data(planner: Planner, instance: Instance) -> str:
    """Explain why a pair is not reachable."""
    assert isinstance(planner.length_predictor, LengthPredictor)
    ends = {"start": planner.spec.goal_of(instance.start), "goal": instance.goal}
    off = [name for name, place in ends.items() if planner.length_predictor.support(place) < OFF_SUPPORT]
    if not off:
        return "No transitions in the data connect the start to the goal: horizon and plan are extrapolated."
    return f"The data never visits the {' or the '.join(off)}: horizon and plan are extrapolated there."


def neighbours(loaded: Loaded, instance: Instance) -> tuple[FloatArray, FloatArray]:
    """(n, d) starts and (n, goal_dim) goals: the pair, then copies with one end shifted by epsilon where that is
    free."""
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
    """Steps between the outer quantiles; None if the Length Predictor has only one."""
    predict_spread = getattr(loaded.planner.length_predictor, "predict_spread", None)
    if predict_spread is None:
        return None
    try:
        _, spread = predict_spread(instance.start, instance.goal)
    except VhdError:  # single-quantile predictor
        return None
    return round(float(spread), 1)


def plan(loaded: Loaded, request: PlanRequest, instance: Instance) -> PlanReply:
    """The first plan of an execution with this seed, and its denoising."""
    planner, spec, boxes = planner_of(loaded, request), loaded.spec, avoided(loaded, request)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlockedRouteWarning)
        made = planner.plan(
            instance.start,
            instance.goal,
            request.length,
            avoid=boxes,
            deadline=request.deadline,
            arrive=request.arrive,
            seed=plan_seed(request.seed, 0, 0),
            keep_denoising=True,
        )
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
        route=[] if made.route is None else numbers(subsampled(made.route), 3),
        pieces=pieces(planner, made),
        frames=frames.tolist(),
        denoising=numbers(spec.goal_of(made.denoising[frames]), 3),
        sampler=planner.options.sampler,
        steps=planner.options.steps,
        gamma=planner.options.gamma,
        risk=planner.options.risk,
        seed=request.seed,
        seconds=round(seconds, 4),
    )


def pieces(planner: Planner, plan: Plan) -> list[list[int]]:
    """First and last state of each piece of a composed plan."""
    if plan.route is None:
        return []
    stride, P = planner.config.stride, knot_count(planner.options.piece, planner.config.stride)
    K = knot_count(plan.length, stride)
    last = plan.length - 1
    scale = last / max(K - 1, 1)  # a stretched plan has more states per knot
    starts = window_starts(K, P)
    return [[round(first * scale), min(round((first + P - 1) * scale), last)] for first in starts]


def subsampled(states: FloatArray, most: int = _PLAN_POINTS) -> FloatArray:
    """At most `most` and `_PLAN_POINTS` of (n, ...) states, evenly spaced, both ends included."""
    count = min(len(states), most, _PLAN_POINTS)
    return states[np.unique(np.linspace(0, len(states) - 1, count).round().astype(int))]


def candidates(loaded: Loaded, request: CandidatesRequest, instance: Instance) -> CandidatesReply:
    """Several plans for one pair; the planning option `candidates` returns the best of them."""
    planner, spec, boxes = planner_of(loaded, request), loaded.spec, avoided(loaded, request)
    if planner.length_predictor is None:
        raise VhdError(f"{spec.name}: this planner has no Length Predictor, so candidates cannot be scored.")
    n, begun = request.count, time.perf_counter()
    starts, goals = np.repeat(instance.start[None], n, axis=0), np.repeat(instance.goal[None], n, axis=0)
    seeds = candidate_seeds(np.array([plan_seed(request.seed, 0, 0)]), n)[0]
    single = KeepsOut(planner.with_options(candidates=1), boxes, predicted=request.length is None)
    length = request.length or int(planner.predict_lengths(starts[:1], goals[:1])[0])
    plans = single.plan_batch(starts, goals, np.full(n, length), seeds=seeds)
    scores = largest_excess(plans, spec, planner.length_predictor)
    return CandidatesReply(
        length=plans[0].length,
        best=int(scores.argmin()),
        candidates=[
            CandidateReply(places=numbers(spec.goal_of(subsampled(made.states)), 3), score=round(float(score), 2))
            for made, score in zip(plans, scores, strict=True)
        ],
        seconds=round(time.perf_counter() - begun, 4),
    )


def lengths(loaded: Loaded, request: LengthsRequest) -> LengthsReply:
    """L_hat of many pairs in one forward pass."""
    instances = [checked_instance(loaded, pair.start, pair.goal) for pair in request.pairs]
    starts, goals = np.stack([item.start for item in instances]), np.stack([item.goal for item in instances])
    planner = loaded.planner.with_options(gamma=request.gamma, risk=request.risk)
    return LengthsReply(lengths=planner.predict_lengths(starts, goals).tolist())
