"""Retiming: a plan's path executed faster than it was sampled, within the data's speed and acceleration.

Asked for fewer states than its data needed, the network cuts corners; and the same curve run uniformly faster exceeds
the robot's limits at the start and in turns. So a fast plan is sampled at the data's speed and then gets the
time-optimal speed profile of its path: as fast as the limits allow everywhere (forward and backward passes, Bobrow et
al. 1985), then slowed uniformly to the requested length.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, sqrt

import numpy as np

from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.errors import VhdError
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


def quickened(plans: list[Plan], lengths: IntArray, motion: FastestMotion | None, clamp: str) -> list[Plan]:
    """Retime plans that are longer than lengths (B,) to these lengths."""
    if all(plan.length == length for plan, length in zip(plans, lengths, strict=True)):
        return plans
    if motion is None:
        raise VhdError(
            "retiming needs the data's maximum speed and acceleration, which this planner's file lacks. Train "
            "it again, or plan with retime=None."
        )
    return [_quickened(plan, int(length), motion, clamp) for plan, length in zip(plans, lengths, strict=True)]


def _quickened(plan: Plan, length: int, motion: FastestMotion, clamp: str) -> Plan:
    if plan.length == length:
        return plan
    assert plan.spec is not None  # planners know theirs
    return replace(plan, states=retimed(plan.states, length, plan.spec, motion, clamp))


def speed_profile(
    curvature: FloatArray, spacing: float, motion: FastestMotion, first: float, last: float = inf
) -> FloatArray:
    """(n,) maximum speeds, in units per control step, at points `spacing` apart on a path with curvature (n,).

    Speed and total acceleration (along the path, and speed^2 times curvature across it) stay within `motion`; the first
    and last speed do not exceed the given ones.
    """
    limit, top = motion.acceleration**2, motion.speed**2
    bends = curvature.tolist()
    squares = [min(top, motion.acceleration / bend) if bend > 0 else top for bend in bends]
    squares[0], squares[-1] = min(squares[0], first**2), min(squares[-1], last**2)
    places = range(len(bends))
    for order in (places, places[::-1]):  # limits from the points before, then from those behind
        before = order[0]
        for here in order[1:]:
            across = bends[before] * squares[before]
            along = sqrt(max(limit - across * across, 0.0))
            squares[here] = min(squares[here], squares[before] + 2 * spacing * along)
            before = here
    return np.sqrt(squares)


def retimed(states: FloatArray, length: int, spec: EnvSpec, motion: FastestMotion, clamp: str = "goal") -> FloatArray:
    """(L, d) states -> (length, d): the same path with its speed profile, scaled to that length.

    The first state and the clamped dimensions of the last one are kept.
    """
    places = spec.goal_of(states).astype(np.float64)  # (L, goal_dim)
    travelled = np.concatenate([[0.0], np.linalg.norm(np.diff(places, axis=0), axis=1).cumsum()])
    total, n = float(travelled[-1]), len(states)
    if total < 1e-6:  # nothing moves
        return states[np.linspace(0, n - 1, length).round().astype(int)]
    spacing = total / (n - 1)
    ways = np.linspace(0.0, total, n)
    index = np.interp(ways, travelled, np.arange(n))  # index of the state, as a real number
    along = np.stack([np.interp(ways, travelled, column) for column in places.T], axis=1)
    tangents = np.gradient(along, spacing, axis=0)
    tangents /= np.linalg.norm(tangents, axis=1, keepdims=True).clip(min=1e-9)
    curvature = np.linalg.norm(np.gradient(tangents, spacing, axis=0), axis=1)
    velocities = list(spec.velocity_dims or [])
    begin, end = 0.0, inf
    if velocities:
        begin = max(float(states[0, velocities] @ tangents[0]), 0.0) * spec.control_dt
        if clamp == "state":
            end = max(float(states[-1, velocities] @ tangents[-1]), 0.0) * spec.control_dt
    speeds = speed_profile(curvature, spacing, motion, begin, end)
    arrival = np.concatenate([[0.0], (2 * spacing / (speeds[:-1] + speeds[1:])).cumsum()])  # (n,) control steps
    pace = float(arrival[-1]) / (length - 1)  # profile steps per plan step

    at = np.minimum(np.arange(length) * pace, arrival[-1])
    left = np.minimum(np.searchsorted(arrival, at, side="right") - 1, n - 2)
    later = at - arrival[left]
    gain = (speeds[left + 1] ** 2 - speeds[left] ** 2) / (2 * spacing)  # constant between two points
    way = np.clip(ways[left] + speeds[left] * later + gain * later**2 / 2, 0.0, total)
    rows = np.interp(way, ways, index)
    fresh = np.stack([np.interp(rows, np.arange(n), column) for column in states.T.astype(np.float64)], axis=1)
    if velocities:
        tangent = np.stack([np.interp(way, ways, column) for column in tangents.T], axis=1)
        speed = (speeds[left] + gain * later) * pace / spec.control_dt
        fresh[:, velocities] = tangent * speed[:, None]
    fresh[0] = states[0]
    kept = list(range(states.shape[1])) if clamp == "state" else list(spec.goal_dims)
    fresh[-1, kept] = states[-1, kept]
    return fresh.astype(np.float32)
