"""Parts of a composed plan, resampled along the plan while the rest of it is kept.

Used by replanning for the path ahead, and by candidates for pieces that no observed path matches. A part starts in a
given state, ends at a state of the plan, and blends into the plan over its last states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from vhdiffuser.diffusion.guidance import Cost
from vhdiffuser.length.centring import evenly
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.planner.candidates import (
    StepsPredictor,
    best_candidates,
    candidate_seeds,
    distance_excess,
    largest_excess,
)
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.planner.waiting import moving_lengths
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, FloatArray, IntArray

AHEAD = 1.25
"""Number of pieces that replanning resamples."""
MEETING = 0.5
"""Number of pieces over which the new part blends into the plan."""
ALONE = 8
"""Number of single resamplings per plan before several are drawn for one piece at once."""
TOGETHER = 128
"""Maximum number of draws of one piece at once."""
LONGER = 2.0
"""A part is resampled only if predicted distances make it at most this many times as long as in the plan; otherwise the
robot has left the plan's path and needs a new plan."""


@dataclass(frozen=True)
class Part:
    """The part of a plan from index `first`, with a new start state, to index `stop`."""

    plan: Plan
    """The plan."""
    first: int
    """Index of the state that `start` replaces."""
    stop: int
    """Index of its last state."""
    start: FloatArray
    """(d,) new first state."""

    @property
    def target(self) -> FloatArray:
        """(d,) last state."""
        return self.plan.states[self.stop]

    @property
    def longest(self) -> float:
        """Maximum number of states."""
        return LONGER * (self.stop - self.first + 1)

    def way(self, denoiser: Denoiser) -> Route:
        """The plan's route from the start to the part's end, normalised. The plan itself is not used as the route,
        since replanning errors would then accumulate."""
        assert self.plan.route is not None
        spec, normal = denoiser.spec, denoiser.normalizer.select(denoiser.spec.goal_dims)
        ends = normal.normalize(np.stack([spec.goal_of(self.start), spec.goal_of(self.target)]))
        finely = evenly(normal.normalize(self.plan.route), 2 * self.plan.length)
        first, stop = (int(np.abs(finely - end).max(axis=1).argmin()) for end in ends)
        places = np.concatenate([ends[:1], finely[first + 1 : max(stop, first + 1)], ends[1:]])
        travelled = np.cumsum(np.linalg.norm(np.diff(places, axis=0, prepend=places[:1]), axis=1))
        return Route(places, travelled, known=True)

    def joined(self, states: FloatArray, meeting: int, before: int = 0) -> Plan:
        """The plan with this part's new states (n, d), following its states from `before` to the part."""
        count = min(meeting, len(states), self.stop - self.first + 1)
        share = np.linspace(0, 1, count, dtype=np.float32)[:, None]
        share = share * share * (3 - 2 * share)  # zero slope at both ends
        old = self.plan.states[self.stop + 1 - count : self.stop + 1]
        met = (1 - share) * states[len(states) - count :] + share * old
        kept = (self.plan.states[before : self.first], self.plan.states[self.stop + 1 :])
        whole = np.concatenate([kept[0], states[: len(states) - count], met, kept[1]])
        return replace(self.plan, states=whole, denoising=None)


def draw_parts(
    denoiser: Denoiser, parts: Sequence[Part], routes: Sequence[Route], lengths: IntArray, seeds: IntArray
) -> list[FloatArray]:
    """States (lengths[i], d) of each part, all sampled together along their normalised routes."""
    starts, targets = (np.stack([getattr(part, end) for part in parts]) for end in ("start", "target"))
    return [plan.states for plan in denoiser.draw(starts, targets, lengths, seeds, False, None, routes)]


def part_ahead(plan: Plan, state: FloatArray, goal: FloatArray, denoiser: Denoiser) -> Part | None:
    """The part of a plan ahead of a state (d,); None if nothing would be kept, or if the plan is not a composed plan to
    this goal (goal_dim,)."""
    ahead = round(AHEAD * denoiser.options.piece)
    if plan.route is None or not np.array_equal(plan.goal, goal) or plan.length <= ahead:
        return None
    spec, scale = denoiser.spec, denoiser.spec.goal_of(denoiser.normalizer.scale)
    away = np.abs(spec.goal_of(plan.states) - spec.goal_of(state)) / scale  # (L, goal_dim)
    first = int(away.max(axis=1).argmin())
    return None if plan.length - first <= ahead + 1 else Part(plan, first, first + ahead, state)


class LengthsAndPlans(Protocol):
    """The interface of a planner that replanning needs."""

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """(B,) L_hat."""
        ...

    def plan_batch(self, starts: FloatArray, goals: FloatArray, *, seeds: IntArray) -> list[Plan]:
        """B new plans."""
        ...


def replanned(
    planner: LengthsAndPlans,
    denoiser: Denoiser,
    plans: Sequence[Plan],
    states: FloatArray,
    goals: FloatArray,
    seeds: IntArray,
) -> list[Plan]:
    """Plans from states (B, d) to goals (B, goal_dim): the parts ahead are resampled and the rest kept; if that is not
    possible, new plans."""
    parts = [part_ahead(plan, state, goal, denoiser) for plan, state, goal in zip(plans, states, goals, strict=True)]
    lengths = np.zeros(len(plans), np.int64)
    if rows := [row for row, part in enumerate(parts) if part is not None]:
        ends = np.stack([denoiser.spec.goal_of(part.target) for part in parts if part is not None])
        predicted = planner.predict_lengths(states[rows], ends)  # each part has its own horizon, and waits nowhere
        lengths[rows] = moving_lengths(predicted, denoiser.options.wait, denoiser.spec.L_min)
    keeps = np.array([part is not None and part.longest >= L for part, L in zip(parts, lengths, strict=True)])

    def ahead(rows: IntArray) -> list[Plan]:
        own = [part for part in (parts[row] for row in rows) if part is not None]
        meeting = round(MEETING * denoiser.options.piece)
        routes = [part.way(denoiser) for part in own]
        drawn = draw_parts(denoiser.quick, own, routes, lengths[rows], seeds[rows])
        return [part.joined(new, meeting, before=part.first) for part, new in zip(own, drawn, strict=True)]

    return in_two(keeps, ahead, lambda rows: planner.plan_batch(states[rows], goals[rows], seeds=seeds[rows]))


def mended(
    denoiser: Denoiser, plans: Sequence[Plan], predictor: StepsPredictor, graph: RouteGraph, seeds: IntArray
) -> list[Plan]:
    """Resample pieces of composed plans that no path matches: the worst piece of each plan per round.

    A piece is resampled, along its own route, if it connects two positions in fewer steps than the Length Predictor
    predicts for any path; the best new one is kept if it is better. seeds (draws, len(plans)).
    """
    best, spec, piece = list(plans), denoiser.spec, denoiser.options.piece
    normal = denoiser.normalizer.select(spec.goal_dims)
    open_ones = list(range(len(best)))
    for first, stop in rounds(len(seeds)):
        parts: dict[int, tuple[Part, Route]] = {}
        faults: dict[int, float] = {}
        excesses = distance_excess([best[n] for n in open_ones], spec, predictor)
        for n, (begins, excess) in zip(open_ones, excesses, strict=True):
            part = part_around(best[n], int(begins[excess.argmax()]), piece)
            route = graph.path(*(normal.normalize(spec.goal_of(end)) for end in (part.start, part.target)))
            if excess.max() > 0 and route.known and route.total > 0:
                parts[n], faults[n] = (part, route), float(excess.max())
        open_ones = list(parts)
        if not open_ones:
            break
        draws = stop - first
        chosen, routes = zip(*(each for each in parts.values() for _ in range(draws)), strict=True)
        lengths = np.array([part.stop - part.first + 1 for part in chosen])
        drawn = draw_parts(denoiser, chosen, routes, lengths, seeds[first:stop, open_ones].T.ravel())
        new = [part.joined(states, round(MEETING * piece)) for part, states in zip(chosen, drawn, strict=True)]
        left = largest_excess(new, spec, predictor).reshape(-1, draws)
        for row, n in enumerate(open_ones):
            draw = int(left[row].argmin())
            kept = new[row * draws + draw] if left[row, draw] < faults[n] else best[n]
            best[n] = replace(kept, redrawn=best[n].redrawn + draws)
    return best


def rounds(draws: int) -> Iterator[tuple[int, int]]:
    """Ranges of draws made together: the first few singly, since each may change which piece is worst, then ever more
    for pieces that stay bad."""
    first, size = 0, 1
    while first < draws:
        size = min(2 * size, TOGETHER) if first >= ALONE else 1
        yield first, min(first + size, draws)
        first += size


@dataclass(frozen=True)
class Requests:
    """The plans to sample: arguments of `Denoiser.draw`."""

    starts: FloatArray
    """(B, d) starts."""
    targets: FloatArray
    """(B, d) targets."""
    lengths: IntArray
    """(B,) lengths."""
    seeds: IntArray
    """(B,) seeds."""
    routes: Sequence[Route | None]
    """The routes of composed plans."""
    keep: bool
    """Whether plans keep their denoising."""

    def draw(self, denoiser: Denoiser, rows: IntArray, seeds: IntArray, cost: Cost | None) -> list[Plan]:
        """Sample the plans of some rows, with other seeds."""
        routes = [self.routes[row] for row in rows]
        ends = self.starts[rows], self.targets[rows]
        return denoiser.draw(*ends, self.lengths[rows], seeds, self.keep, cost, routes)


def draw_candidates(
    denoiser: Denoiser,
    asked: Requests,
    n: int,
    predictor: StepsPredictor | None,
    graph: RouteGraph | None,
    cost: Cost | None,
) -> list[Plan]:
    """The best of n candidates for each plan; for a composed plan without a cost, pieces are resampled up to n
    times."""

    def best(rows: IntArray) -> list[Plan]:
        plans = asked.draw(denoiser, np.repeat(rows, n), candidate_seeds(asked.seeds[rows], n).ravel(), cost)
        return best_candidates(plans, n, denoiser.spec, denoiser.normalizer, predictor, cost)

    def mend(rows: IntArray) -> list[Plan]:
        assert predictor is not None  # routes need both
        assert graph is not None
        seeds = candidate_seeds(asked.seeds[rows], n).T  # (n, rows)
        return mended(denoiser, asked.draw(denoiser, rows, seeds[0], None), predictor, graph, seeds[1:])

    return in_two(np.array([route is not None and cost is None for route in asked.routes]), mend, best)


def part_around(plan: Plan, index: int, piece: int) -> Part:
    """The part of about two pieces around an index; it blends into the plan after that piece."""
    first = max(min(index - piece // 2, plan.length - 1 - 2 * piece), 0)
    return Part(plan, first, min(first + 2 * piece, plan.length - 1), plan.states[first])


def in_two(
    which: BoolArray, these: Callable[[IntArray], list[Plan]], those: Callable[[IntArray], list[Plan]]
) -> list[Plan]:
    """Plans in order, made by `these` for the rows where `which` (B,) is true and by `those` for the others."""
    plans: dict[int, Plan] = {}
    for rows, make in ((np.flatnonzero(which), these), (np.flatnonzero(~which), those)):
        if len(rows):
            plans |= dict(zip(rows.tolist(), make(rows), strict=True))
    return [plans[row] for row in range(len(which))]
