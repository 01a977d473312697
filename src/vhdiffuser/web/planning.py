"""Horizon and plan for one pair, as replies for the page."""

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
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import DEADLINE_RISK
from vhdiffuser.planner.candidates import candidate_seeds, largest_excess
from vhdiffuser.planner.compose import window_starts
from vhdiffuser.planner.planner import Planner
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray
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
"""Maximum number of points of a plan whose states are not asked for."""
_FAR = 1e6
"""Units beyond which a box need not reach."""
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
        raise VhdError(f"a deadline of {loaded.spec.name} is at most {loaded.environment.step_budget} control steps.")
    if request.length is not None or avoided(loaded, request) is not None:
        raise VhdError("a deadline sets the length, and knows no boxes or added walls: leave out one or the other.")
    return planner if planner.options.risk is not None else planner.with_options(risk=DEADLINE_RISK)


def avoided(loaded: Loaded, request: PlanningRequest) -> FloatArray | None:
    """(n, 2, goal_dim) boxes that plans keep out of: the request's, and new walls if they are known; None: none."""
    dim = loaded.spec.goal_dim
    if any(len(corner) != dim for box in request.avoid for corner in box):
        raise VhdError(f"boxes to avoid need a lower and an upper corner of {dim} numbers each.")
    boxes = np.array(request.avoid, np.float64).reshape(-1, 2, dim).clip(-_FAR, _FAR).astype(np.float32)
    if (boxes[:, 0] > boxes[:, 1]).any():
        raise VhdError("boxes to avoid have their lower corner first, then their upper one.")
    if loaded.new_walls is not None and request.walls_known:
        boxes = np.concatenate([boxes, loaded.new_walls])
    return boxes if len(boxes) else None


@dataclass(frozen=True)
class Keeping:
    """A planner whose plans keep out of boxes; as execution uses it."""

    planner: Planner
    boxes: FloatArray | None
    predicted: bool = True
    """Whether lengths are predicted, so that a detour may lengthen them."""

    @property
    def spec(self) -> EnvSpec:
        """The environment it plans in."""
        return self.planner.spec

    @property
    def normalizer(self) -> Normalizer:
        """Normaliser of the planning state."""
        return self.planner.normalizer

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """L_hat of each pair, without detours."""
        return self.planner.predict_lengths(starts, goals)

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """Plans of the given lengths, or of those that detours need."""
        if self.boxes is not None and self.predicted:
            lengths = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BlockedRouteWarning)  # the page shows whether a plan enters a box
            return self.planner.plan_batch(starts, goals, lengths, avoid=self.boxes, seeds=seeds)


def horizon(loaded: Loaded, request: PlanRequest, instance: Instance) -> HorizonReply:
    """L_hat with its spread: over starts and goals within epsilon, and between the predicted quantiles."""
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
    """Whether a plan of the `needed` states, which keeps the planner's risk, is in time."""
    by_then = planner.horizon(instance.start, instance.goal, deadline).probability
    risk = planner.options.risk
    assert by_then is not None, "a length that keeps a risk needs a calibration"
    assert risk is not None, "planner_of sets one"
    return DeadlineReply(
        limit=deadline, kept=needed <= deadline, steps=needed, risk=risk, probability=round(by_then, 4)
    )


def _off_the_data(planner: Planner, instance: Instance) -> str:
    """Why a pair is not reachable."""
    assert isinstance(planner.length_predictor, LengthPredictor)
    ends = {"start": planner.spec.goal_of(instance.start), "goal": instance.goal}
    off = [name for name, place in ends.items() if planner.length_predictor.support(place) < OFF_SUPPORT]
    if not off:
        return "No moves in the data lead from the start to the goal: the horizon and the plan are guesses."
    return f"The data never was at the {' or the '.join(off)}: the horizon and the plan are guesses there."


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


def plan(loaded: Loaded, request: PlanRequest, instance: Instance) -> PlanReply:
    """The plan with which an execution of this seed starts, and its denoising."""
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
    scale = last / max(K - 1, 1)  # a plan that is stretched has more states per knot
    starts = window_starts(K, P)
    return [[round(first * scale), min(round((first + P - 1) * scale), last)] for first in starts]


def subsampled(states: FloatArray) -> FloatArray:
    """At most `_PLAN_POINTS` of (n, ...) states, evenly spaced, with both ends."""
    return states[np.unique(np.linspace(0, len(states) - 1, min(len(states), _PLAN_POINTS)).round().astype(int))]


def candidates(loaded: Loaded, request: CandidatesRequest, instance: Instance) -> CandidatesReply:
    """Several plans for a pair, of which the planner's option `candidates` returns the best."""
    planner, spec, boxes = planner_of(loaded, request), loaded.spec, avoided(loaded, request)
    if planner.length_predictor is None:
        raise VhdError(f"{spec.name}: this planner has no Length Predictor, so candidates have no score.")
    n, begun = request.count, time.perf_counter()
    starts, goals = np.repeat(instance.start[None], n, axis=0), np.repeat(instance.goal[None], n, axis=0)
    seeds = candidate_seeds(np.array([plan_seed(request.seed, 0, 0)]), n)[0]
    single = Keeping(planner.with_options(candidates=1), boxes, predicted=request.length is None)
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
    """L_hat of many pairs in one pass."""
    instances = [checked_instance(loaded, pair.start, pair.goal) for pair in request.pairs]
    starts, goals = np.stack([item.start for item in instances]), np.stack([item.goal for item in instances])
    planner = loaded.planner.with_options(gamma=request.gamma, risk=request.risk)
    return LengthsReply(lengths=planner.predict_lengths(starts, goals).tolist())
