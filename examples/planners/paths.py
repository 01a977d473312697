"""Turn a path into a plan with a speed profile. Used by the planners in this folder."""

from __future__ import annotations

import numpy as np

SPEED = 2.0
"""Cruising speed in units per second, about that of the data."""
ACCELERATION = 8.0
"""In units per second squared: a third of what the motors can do."""


def timed(spec, start, places):
    """(L, d) states along a polyline of (n, 2) places, one control step apart, starting and ending at rest."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))])
    cruise = min(SPEED, np.sqrt(ACCELERATION * along[-1]))  # short paths never reach full speed
    ramp = cruise / ACCELERATION
    end = along[-1] / max(cruise, 1e-9) + ramp
    t = np.arange(0.0, end + spec.control_dt, spec.control_dt)
    speeding, braking = np.minimum(t, ramp), np.maximum(t - (end - ramp), 0)
    travelled = ACCELERATION / 2 * (speeding**2 - np.minimum(braking, ramp) ** 2) + cruise * np.maximum(t - ramp, 0)
    where = np.stack([np.interp(travelled, along, column) for column in places.T], axis=1)
    where = np.concatenate([where, places[-1:]])  # a path of zero length has two states, too
    states = np.zeros((len(where), spec.state_dim))
    states[:, list(spec.goal_dims)] = where
    states[:, list(spec.velocity_dims)] = np.gradient(where, spec.control_dt, axis=0)
    states[0] = start
    return states
