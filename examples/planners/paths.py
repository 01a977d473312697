"""A path of places made into a plan: when to be where, and how fast. Shared by the planners beside this file."""

from __future__ import annotations

import numpy as np

SPEED = 2.0
"""Cruising speed, in units per second: about that of the data."""
ACCELERATION = 8.0
"""Of speeding up and slowing down, in units per second per second: a third of what the motors can do."""


def timed(spec, start, places):
    """(L, d) states along a polyline of (n, 2) places, one control step apart, from standstill to standstill."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
    cruise = min(SPEED, np.sqrt(ACCELERATION * along[-1]))  # short ways end before full speed is reached
    ramp = cruise / ACCELERATION
    end = along[-1] / max(cruise, 1e-9) + ramp
    t = np.arange(0.0, end + spec.control_dt, spec.control_dt)
    speeding, braking = np.minimum(t, ramp), np.maximum(t - (end - ramp), 0)
    travelled = ACCELERATION / 2 * (speeding**2 - np.minimum(braking, ramp) ** 2) + cruise * np.maximum(t - ramp, 0)
    where = np.stack([np.interp(travelled, along, column) for column in places.T], axis=1)
    where = np.concatenate([where, places[-1:]])  # also a way of no length has two states
    states = np.zeros((len(where), spec.state_dim))
    states[:, list(spec.goal_dims)] = where
    states[:, list(spec.velocity_dims)] = np.gradient(where, spec.control_dt, axis=0)
    states[0] = start
    return states
