"""Parts of a composed plan, drawn again along the plan itself while the rest of it is kept.

Replanning uses it for the way ahead, candidates for pieces that no path explains. A part starts in a given state, ends
at a state of the plan, and turns into the plan over its last states, so that the two meet smoothly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

import numpy as np

from vhdiffuser.diffusion.guidance import Cost
from vhdiffuser.length.route import Route, RouteGraph, evenly
from vhdiffuser.planner.candidates import StepsPredictor, best_candidates, candidate_seeds, distance_excess
from vhdiffuser.planner.denoising import Denoiser
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import BoolArray, FloatArray, IntArray

AHEAD = 1.25
"""Pieces of a plan that replanning draws anew."""
MEETING = 0.5
"""Pieces over which the new part turns into the plan."""
WARM = 0.5
"""Share of a planner's reverse steps in replanning, which begins with the plan's own way."""
LONGER = 2.0
"""A part is only drawn where predicted distances make it at most so many times as long as in the plan: else the robot
has left the plan's way, and needs a plan of its own."""


@dataclass(frozen=True)
class Part:
    """The part of a plan from index `first`, where it begins in another state, to index `stop`."""

    plan: Plan
    """The plan."""
    first: int
    """Index of the state that `start` replaces."""
    stop: int
    """Index of the state at which it ends."""
    start: FloatArray
    """(d,) its first state."""

    @property
    def target(self) -> FloatArray:
        """(d,) its last state."""
        return self.plan.states[self.stop]

    @property
    def longest(self) -> float:
        """States to which it may grow."""
        return LONGER * (self.stop - self.first + 1)

    def way(self, denoiser: Denoiser) -> Route:
        """The plan's route from the start to the part's end, normalised. Along the plan itself, the errors of one
        replanning would be the next one's route."""
        assert self.plan.route is not None
        spec, normal = denoiser.spec, denoiser.normalizer.select(denoiser.spec.goal_dims)
        ends = normal.normalize(np.stack([spec.goal_of(self.start), spec.goal_of(self.target)]))
        finely = evenly(normal.normalize(self.plan.route), 2 * self.plan.length)
        first, stop = (int(np.abs(finely - end).max(axis=1).argmin()) for end in ends)
        places = np.concatenate([ends[:1], finely[first + 1 : max(stop, first + 1)], ends[1:]])
        travelled = np.cumsum(np.linalg.norm(np.diff(places, axis=0, prepend=places[:1]), axis=1))
        return Route(places, travelled, known=True)

    def joined(self, states: FloatArray, meeting: int, before: int = 0) -> Plan:
        """The plan with this part's new states (n, d), after its states from `before` to the part."""
        count = min(meeting, len(states), self.stop - self.first + 1)
        share = np.linspace(0, 1, count, dtype=np.float32)[:, None]
        share = share * share * (3 - 2 * share)  # level at both ends
        old = self.plan.states[self.stop + 1 - count : self.stop + 1]
        met = (1 - share) * states[len(states) - count :] + share * old
        kept = (self.plan.states[before : self.first], self.plan.states[self.stop + 1 :])
        whole = np.concatenate([kept[0], states[: len(states) - count], met, kept[1]])
        return replace(self.plan, states=whole, denoising=None)


def draw_parts(
    denoiser: Denoiser, parts: Sequence[Part], routes: Sequence[Route], lengths: IntArray, seeds: IntArray
) -> list[FloatArray]:
    """The states (lengths[i], d) of each part, all drawn together along their normalised routes."""
    starts, targets = (np.stack([getattr(part, end) for part in parts]) for end in ("start", "target"))
    return [plan.states for plan in denoiser.draw(starts, targets, lengths, seeds, False, None, routes)]


def part_ahead(plan: Plan, state: FloatArray, goal: FloatArray, denoiser: Denoiser) -> Part | None:
    """The part of a plan ahead of a state (d,); None where nothing would be kept, or the plan is no composed one to
    this goal (goal_dim,)."""
    ahead = round(AHEAD * denoiser.options.piece)
    if plan.route is None or not np.array_equal(plan.goal, goal) or plan.length <= ahead:
        return None
    spec, scale = denoiser.spec, denoiser.spec.goal_of(denoiser.normalizer.scale)
    away = np.abs(spec.goal_of(plan.states) - spec.goal_of(state)) / scale  # (L, goal_dim)
    first = int(away.max(axis=1).argmin())
    return None if plan.length - first <= ahead + 1 else Part(plan, first, first + ahead, state)


class LengthsAndPlans(Protocol):
    """What replanning needs of a planner."""

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """(B,) L_hat."""
        ...

    def plan_batch(self, starts: FloatArray, goals: FloatArray, *, seeds: IntArray) -> list[Plan]:
        """B plans of their own."""
        ...


def replanned(
    planner: LengthsAndPlans,
    denoiser: Denoiser,
    plans: Sequence[Plan],
    states: FloatArray,
    goals: FloatArray,
    seeds: IntArray,
) -> list[Plan]:
    """Plans from states (B, d) to goals (B, goal_dim): the parts ahead drawn anew, the rest kept; where that cannot be,
    plans of their own."""
    parts = [part_ahead(plan, state, goal, denoiser) for plan, state, goal in zip(plans, states, goals, strict=True)]
    lengths = np.zeros(len(plans), np.int64)
    if rows := [row for row, part in enumerate(parts) if part is not None]:
        ends = np.stack([denoiser.spec.goal_of(part.target) for part in parts if part is not None])
        lengths[rows] = planner.predict_lengths(states[rows], ends)  # each part has a horizon of its own
    keeps = np.array([part is not None and part.longest >= L for part, L in zip(parts, lengths, strict=True)])

    def ahead(rows: IntArray) -> list[Plan]:
        own = [part for part in (parts[row] for row in rows) if part is not None]
        steps = ceil(WARM * denoiser.options.steps)
        quick = replace(denoiser, options=denoiser.options.changed(steps=steps))
        meeting = round(MEETING * denoiser.options.piece)
        routes = [part.way(denoiser) for part in own]
        drawn = draw_parts(quick, own, routes, lengths[rows], seeds[rows])
        return [part.joined(new, meeting, before=part.first) for part, new in zip(own, drawn, strict=True)]

    return in_two(keeps, ahead, lambda rows: planner.plan_batch(states[rows], goals[rows], seeds=seeds[rows]))


def mended(
    denoiser: Denoiser, plans: Sequence[Plan], predictor: StepsPredictor, graph: RouteGraph, seeds: IntArray
) -> list[Plan]:
    """Composed plans with pieces that no path explains drawn again: one piece of each plan, the worst, per round.

    A piece is drawn again, along a route of its own, if it joins two places in fewer steps than the Length Predictor
    says that any path between them takes; the new one is kept if it is better. seeds (rounds, len(plans)).
    """
    best, spec, piece = list(plans), denoiser.spec, denoiser.options.piece
    normal = denoiser.normalizer.select(spec.goal_dims)
    open_ones = list(range(len(best)))
    for own_seeds in seeds:
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
        chosen, routes = zip(*parts.values(), strict=True)
        lengths = np.array([part.stop - part.first + 1 for part in chosen])
        drawn = draw_parts(denoiser, chosen, routes, lengths, own_seeds[open_ones])
        new = [part.joined(states, round(MEETING * piece)) for part, states in zip(chosen, drawn, strict=True)]
        for n, plan, (_, excess) in zip(open_ones, new, distance_excess(new, spec, predictor), strict=True):
            kept = plan if excess.max() < faults[n] else best[n]
            best[n] = replace(kept, redrawn=best[n].redrawn + 1)
    return best


@dataclass(frozen=True)
class Requests:
    """The plans to draw: what `Denoiser.draw` takes."""

    starts: FloatArray
    """(B, d)."""
    targets: FloatArray
    """(B, d)."""
    lengths: IntArray
    """(B,)."""
    seeds: IntArray
    """(B,)."""
    routes: Sequence[Route | None]
    """The routes of composed plans."""
    keep: bool
    """Whether plans keep their denoising."""

    def draw(self, denoiser: Denoiser, rows: IntArray, seeds: IntArray, cost: Cost | None) -> list[Plan]:
        """The plans of some rows, with other seeds."""
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
    """The best of n candidates for each plan; of a composed plan without a cost, pieces are drawn up to n times."""

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
    """The part of a plan of about two pieces around an index; it turns into the plan after that piece."""
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
