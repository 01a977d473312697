"""The paper's success criterion: the goal region G_eps(g), infinity norm on the normalised goal dimensions."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import BoolArray, EnvSpec, FloatArray


def goal_distance(spec: EnvSpec, scale: FloatArray, states: FloatArray, goals: FloatArray) -> FloatArray:
    """||s - g||_inf over the goal dimensions, each divided by `scale` (units per normalised unit, (d,)).

    states (..., d) and goals (..., goal_dim) broadcast; `scale` is `Normalizer.scale` of the planning state.
    """
    difference = (spec.goal_of(states) - goals) / scale[list(spec.goal_dims)]
    return np.abs(difference).max(axis=-1)


def reached(spec: EnvSpec, scale: FloatArray, states: FloatArray, goals: FloatArray) -> BoolArray:
    """Whether each state lies in G_eps(g)."""
    return goal_distance(spec, scale, states, goals) <= spec.epsilon
