"""A plan through waypoints: one leg after another, each starting at the last state of the previous one.

Clamping the waypoints' knots at every reverse step does not work: the network has seen clean knots only at the ends and
ignores others (docs/notes/planner.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers
from vhdiffuser.planner.requests import RequestError, check_inside, checked_starts
from vhdiffuser.planner.waiting import waiting
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray

if TYPE_CHECKING:
    from vhdiffuser.diffusion.guidance import CostFunction
    from vhdiffuser.planner.planner import Planner


def checked_waypoints(spec: EnvSpec, via: npt.ArrayLike) -> FloatArray:
    """(n, goal_dim) float32, finite."""
    places = as_numbers("via", via)
    if places.ndim != 2 or places.shape[1] != spec.goal_dim or not np.isfinite(places).all():
        names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
        raise RequestError(
            f"via needs a list of waypoints of {spec.goal_dim} finite numbers ({names}); got shape {places.shape}."
        )
    return places


def plan_via(
    planner: Planner,
    start: FloatArray,
    goal: FloatArray,
    via: npt.ArrayLike,
    length: int | None,
    avoid: npt.ArrayLike | CostFunction | None,
    seed: int,
    keep_denoising: bool,
) -> Plan:
    """A plan through waypoints, with predicted lengths per leg or `length` states in total. It waits only at its goal;
    the common state of two legs appears once."""
    spec, wait = planner.spec, planner.wait
    places = checked_waypoints(spec, via)
    ends = [*places, goal]
    check_inside(
        spec,
        planner.normalizer,
        checked_starts(spec, start[None]),
        np.stack([spec.start_state(spec.place_of(end)) for end in ends]),
        planner.config.clamp,
        planner.outside,
    )
    planner = planner.with_options(wait=0)
    planner.outside = "ignore"  # later legs start at states of this plan, not at the caller's
    lengths: list[int | None] = [None] * len(ends)
    if length is not None:  # dimensions that a waypoint leaves open are set to 0
        starts = np.stack([start, *(spec.start_state(place) for place in places)])
        predicted = planner.predict_lengths(starts, np.stack([spec.place_of(end) for end in ends]))
        lengths = [*shared_out(length - wait, predicted.tolist())]
    legs: list[Plan] = []
    for number, (end, states) in enumerate(zip(ends, lengths, strict=True)):
        legs += planner.plan_batch(
            (legs[-1].states[-1] if legs else start)[None],
            end[None],
            states,
            avoid=avoid,
            seeds=[(seed + number * 2_000_003) % 2**63],  # the first leg has the seed of a plan without waypoints
            keep_denoising=keep_denoising,
        )
    joined = np.concatenate([legs[0].states, *(leg.states[1:] for leg in legs[1:])])
    kept = [leg.denoising for leg in legs if leg.denoising is not None]  # (steps + 1, K, d) each
    denoising = np.concatenate([kept[0], *(leg[:, 1:] for leg in kept[1:])], axis=1) if kept else None
    plan = Plan(states=joined, goal=legs[-1].goal, denoising=denoising, spec=spec)
    return waiting([plan], np.array([plan.length + wait]))[0]


def shared_out(length: int, predicted: Sequence[int]) -> list[int]:
    """Lengths of the legs of a plan of `length` states, proportional to their predicted lengths."""
    steps = np.asarray(predicted, np.float64) - 1
    until = np.round(np.cumsum(steps) / steps.sum() * (length - 1)).astype(int)
    return (np.diff(until, prepend=0) + 1).tolist()
