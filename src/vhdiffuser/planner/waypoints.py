"""A plan through waypoints: one leg after another, each starting at the last state of the previous one.

Clamping the waypoints' knots at every reverse step does not work: the network has seen clean knots only at the ends and
ignores others (docs/notes/planner.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers
from vhdiffuser.planner.requests import RequestError
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray

PlanLeg = Callable[[FloatArray, FloatArray, int | None, int], Plan]
"""(start (d,), goal, length, seed) -> plan."""


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
    plan_leg: PlanLeg,
    spec: EnvSpec,
    start: FloatArray,
    goal: FloatArray,
    via: npt.ArrayLike,
    length: int | None,
    predict_lengths: Callable[[FloatArray, FloatArray], IntArray],
    seed: int,
) -> Plan:
    """A plan through waypoints, with predicted lengths per leg or `length` states in total."""
    places = checked_waypoints(spec, via)
    lengths: list[int | None] = [None] * (len(places) + 1)
    if length is not None:  # dimensions that a waypoint leaves open are set to 0
        starts = np.stack([start, *(spec.start_state(place) for place in places)])
        ends = np.stack([*places, spec.place_of(goal)])
        lengths = [*shared_out(length, predict_lengths(starts, ends).tolist())]
    return plan_legs(plan_leg, start, [*places, goal], lengths, seed)


def plan_legs(
    plan_leg: PlanLeg, start: FloatArray, ends: Sequence[FloatArray], lengths: Sequence[int | None], seed: int
) -> Plan:
    """One plan through all ends, in order; the common state of two legs appears once."""
    legs: list[Plan] = []
    for number, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        # The first leg has the seed of a plan without waypoints.
        legs.append(plan_leg(legs[-1].states[-1] if legs else start, end, length, (seed + number * 2_000_003) % 2**63))
    states = np.concatenate([legs[0].states, *(leg.states[1:] for leg in legs[1:])])
    kept = [leg.denoising for leg in legs if leg.denoising is not None]  # (steps + 1, K, d) each
    denoising = np.concatenate([kept[0], *(leg[:, 1:] for leg in kept[1:])], axis=1) if kept else None
    return Plan(states=states, goal=legs[-1].goal, denoising=denoising, spec=legs[0].spec)


def shared_out(length: int, predicted: Sequence[int]) -> list[int]:
    """Lengths of the legs of a plan of `length` states, proportional to their predicted lengths."""
    steps = np.asarray(predicted, np.float64) - 1
    until = np.round(np.cumsum(steps) / steps.sum() * (length - 1)).astype(int)
    return (np.diff(until, prepend=0) + 1).tolist()
