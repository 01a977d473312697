"""How well a controller follows paths that are known to be possible: held-out data as plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhdiffuser.control.base import Controller
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import DataError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.types import EnvSpec, Episodes, FloatArray, Instance, Plan


@dataclass(frozen=True)
class TrackingReport:
    """Tracked distance over many held-out paths. Distances are normalised, infinity norm, like epsilon."""

    paths: int
    """Paths followed."""
    steps: int
    """Control steps of each."""
    mean_error: float
    """Mean distance between robot and plan, over all indices."""
    final_error: float
    """Mean distance at the last index."""
    reached: float
    """Share of paths whose end came within epsilon by the last index."""
    reached_later: float
    """The same with `extra` more steps of holding the last state."""
    extra: int
    """Those steps."""


def evaluate_tracking(
    controller: Controller,
    simulators: Simulators,
    spec: EnvSpec,
    scale: FloatArray,
    episodes: Episodes,
    rng: np.random.Generator,
    paths: int = 50,
    steps: int = 150,
    extra: int = 100,
) -> TrackingReport:
    """Follow random crops of `episodes` (give held-out ones) from their own starts; `scale` as in `goal_distance`."""
    lengths = np.diff(episodes.ends, prepend=0)
    long_enough = np.flatnonzero(lengths > steps)
    if len(long_enough) == 0:
        raise DataError(
            f"no episode has {steps + 1} states; the longest has {int(lengths.max())}. Ask for fewer steps."
        )
    errors, hits = [], []
    for begin in range(0, paths, simulators.slots):
        plans = []
        for _ in range(min(simulators.slots, paths - begin)):
            number = int(rng.choice(long_enough))
            first = int(episodes.starts[number] + rng.integers(lengths[number] - steps))
            states = spec.planning_state(episodes.observations[first : first + steps + 1])
            plans.append(Plan(states, spec.goal_of(states[-1])))
        instances = [Instance(plan.states[0], plan.goal, int(rng.integers(2**31))) for plan in plans]
        slots = list(range(len(plans)))
        goals = np.stack([plan.goal for plan in plans])
        observations = simulators.reset(slots, instances)
        reached = np.zeros((steps + extra, len(plans)), bool)
        error = np.zeros((steps, len(plans)))
        for index in range(steps + extra):
            actions = controller.act(observations, plans, np.full(len(plans), index))
            observations = simulators.step(slots, actions)
            states = spec.planning_state(observations)
            reached[index] = goal_distance(spec, scale, states, goals) <= spec.epsilon
            if index < steps:
                planned = spec.goal_of(np.stack([plan.states[index + 1] for plan in plans]))
                error[index] = goal_distance(spec, scale, states, planned)
        errors.append(error)
        hits.append(reached)
    error, reached = np.concatenate(errors, axis=1), np.concatenate(hits, axis=1)
    return TrackingReport(
        paths=paths,
        steps=steps,
        mean_error=float(error.mean()),
        final_error=float(error[-1].mean()),
        reached=float(reached[:steps].any(axis=0).mean()),
        reached_later=float(reached.any(axis=0).mean()),
        extra=extra,
    )
