"""Tracking of recorded paths, which are known to be feasible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vhdiffuser.control.base import Controller
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, Instance


@dataclass(frozen=True)
class Tracking:
    """n plans of L states tracked to their ends, one action per index: T = L - 1 steps each."""

    distance: FloatArray
    """(T, n) Euclidean distance between robot and plan at indices 1 to T, in the environment's units."""
    error: FloatArray
    """(T, n) the same, normalised and in the infinity norm, as for epsilon."""
    to_end: FloatArray
    """(T, n) normalised distance to the plan's end."""
    last: FloatArray
    """(n, o) observations at the end."""


def follow(
    controller: Controller,
    simulators: Simulators,
    spec: EnvSpec,
    scale: FloatArray,
    instances: Sequence[Instance],
    plans: Sequence[Plan],
    on_done: Callable[[int], None] | None = None,
) -> Tracking:
    """Reset each simulator to its instance and track its plan; `scale` as in `goal_distance`.

    All plans must have the same length; `on_done` is called with the number of plans tracked so far.
    """
    if len({plan.length for plan in plans}) != 1 or len(plans) != len(instances):
        raise VhdError("tracking needs one or more plans of equal length, and as many instances.")
    parts = []
    for begin in range(0, len(plans), simulators.slots):
        end = begin + simulators.slots
        parts.append(_follow(controller, simulators, spec, scale, instances[begin:end], plans[begin:end]))
        if on_done is not None:
            on_done(min(end, len(plans)))
    return Tracking(
        distance=np.concatenate([part.distance for part in parts], axis=1),
        error=np.concatenate([part.error for part in parts], axis=1),
        to_end=np.concatenate([part.to_end for part in parts], axis=1),
        last=np.concatenate([part.last for part in parts]),
    )


def _follow(
    controller: Controller,
    simulators: Simulators,
    spec: EnvSpec,
    scale: FloatArray,
    instances: Sequence[Instance],
    plans: Sequence[Plan],
) -> Tracking:
    """Track one batch, with one simulator per plan."""
    slots = list(range(len(plans)))
    planned = spec.goal_of(np.stack([plan.states for plan in plans], axis=1))  # (L, n, goal_dim)
    observations = simulators.reset(slots, instances)
    visited = []
    for index in range(len(planned) - 1):
        actions = controller.act(observations, plans, np.full(len(plans), index))
        observations = simulators.step(slots, actions)
        visited.append(spec.planning_state(observations))
    states = np.stack(visited)  # (T, n, d)
    return Tracking(
        distance=np.linalg.norm(spec.goal_of(states) - planned[1:], axis=-1),
        error=goal_distance(spec, scale, states, planned[1:]),
        to_end=goal_distance(spec, scale, states, planned[-1]),
        last=observations,
    )
