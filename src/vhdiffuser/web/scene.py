"""The scene to draw, and validation of starts and goals."""

from __future__ import annotations

import numpy as np

from vhdiffuser.diffusion.samplers import SAMPLERS
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.checked import draw_instance
from vhdiffuser.envs.walls import extent, narrowest
from vhdiffuser.errors import VhdError
from vhdiffuser.planner.requests import EDGE
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.maps import map_of
from vhdiffuser.web.replies import InstanceReply, SceneReply, View

_DRAWS = 32
"""Number of random pairs drawn; the page opens with the one of median predicted length."""

_SLACK = 0.01
"""Distance, in units, by which some simulators let a body come closer to a wall than its radius."""

_RIM = 0.35
"""Fraction of the outer walls' thickness (one cell) that is drawn."""


def numbers(values: FloatArray, decimals: int = 4) -> list:
    """An array as nested lists of rounded numbers."""
    return np.round(np.asarray(values, np.float64), decimals).tolist()


def describe(loaded: Loaded, commands: tuple[str, ...]) -> SceneReply:
    """The scene of an environment, with a typical random pair as its initial start and goal."""
    spec, planner, geometry = loaded.spec, loaded.planner, loaded.environment.geometry
    first = first_instance(loaded)
    return SceneReply(
        environment=spec.name,
        state_names=list(spec.state_names),
        goal_names=[spec.state_names[dim] for dim in spec.goal_dims],
        unit=geometry.unit,
        views=views_of(loaded),
        walls=numbers(geometry.walls),
        radius=geometry.radius,
        clearance=max(geometry.radius - _SLACK, 0.0),
        map=map_of(loaded),
        spatial=type(loaded.env).skeleton is not PlanningEnv.skeleton if isinstance(loaded.env, PlanningEnv) else False,
        tolerance=numbers(tolerance(loaded), 5),
        control_dt=spec.control_dt,
        horizons=list(loaded.environment.horizons),
        trained_horizons=sorted(loaded.fixed),
        T_max=spec.T_max,
        L_min=spec.L_min,
        step_budget=loaded.environment.step_budget,
        gamma=planner.options.gamma,
        risk=planner.options.risk,
        calibrated=planner.calibration is not None,
        sampler=planner.options.sampler,
        samplers=SAMPLERS.names(),
        steps=planner.options.steps,
        max_steps=planner.config.diffusion_steps,
        executes=loaded.controller is not None,
        commands=list(commands),
        start=first.start,
        goal=first.goal,
        opening=f"the pair of median predicted length among {_DRAWS} random pairs",
    )


def tolerance(loaded: Loaded) -> FloatArray:
    """(goal_dim,) half side lengths of the goal region G_eps(g), in units."""
    return loaded.spec.epsilon * loaded.spec.goal_of(loaded.planner.normalizer.scale)


def views_of(loaded: Loaded) -> list[View]:
    """One view from above; in three dimensions, also one from the side with the same axis to the right."""
    low, high = _seen(loaded)
    ranges = [[float(a), float(b)] for a, b in zip(low, high, strict=True)]
    views = [View(title="from above", right=0, up=1, right_range=ranges[0], up_range=ranges[1])]
    if loaded.spec.goal_dim > 2:
        views.append(View(title="from the side", right=0, up=2, right_range=ranges[0], up_range=ranges[2]))
    return views


def _seen(loaded: Loaded) -> tuple[FloatArray, FloatArray]:
    """(goal_dim,) lower and upper corner of the drawn area: the maze, the workspace, or the extent of the data."""
    geometry = loaded.environment.geometry
    if geometry.is_maze:
        low, high = extent(geometry.walls)
        unseen = (1 - _RIM) * narrowest(geometry.walls)
        return low + unseen, high - unseen
    if geometry.bounds is not None:
        return geometry.bounds[0], geometry.bounds[1]
    normalizer = loaded.planner.normalizer
    return loaded.spec.goal_of(normalizer.low), loaded.spec.goal_of(normalizer.high)


def first_instance(loaded: Loaded) -> InstanceReply:
    """The pair of median predicted length among `_DRAWS` random pairs, chosen before anything is planned."""
    rng = np.random.default_rng(0)
    drawn = [draw_instance(loaded.env, rng) for _ in range(_DRAWS)]
    starts, goals = np.stack([item.start for item in drawn]), np.stack([item.goal for item in drawn])
    order = loaded.planner.predict_lengths(starts, goals).argsort(kind="stable")
    return _reply(loaded.spec, drawn[int(order[_DRAWS // 2])])


def random_instance(loaded: Loaded, seed: int) -> InstanceReply:
    """A random pair from the benchmark's distribution, at rest."""
    return _reply(loaded.spec, loaded.env.sample_instance(np.random.default_rng(stream("scene", seed))))


def _reply(spec: EnvSpec, instance: Instance) -> InstanceReply:
    return InstanceReply(start=numbers(spec.goal_of(instance.start), 3), goal=numbers(instance.goal, 3))


def checked_instance(loaded: Loaded, start: list[float], goal: list[float], seed: int = 0) -> Instance:
    """The instance; raises `VhdError` with the reason if its start or goal is invalid."""
    spec = loaded.spec
    if len(start) not in (spec.goal_dim, spec.state_dim) or len(goal) != spec.goal_dim:
        names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
        raise VhdError(
            f"{spec.name}: start and goal need {spec.goal_dim} numbers, {names} (or, for a start, a full state: "
            f"{', '.join(spec.state_names)}); got {len(start)} and {len(goal)}."
        )
    instance = Instance(spec.start_state(start), np.asarray(goal, np.float32), seed)
    loaded.env.check(instance)
    return instance


def check_outside(loaded: Loaded, boxes: FloatArray | None, instance: Instance) -> None:
    """Raise `VhdError` if start or goal lies in a box to avoid."""
    if boxes is None:
        return
    for name, place in (("start", loaded.spec.goal_of(instance.start)), ("goal", instance.goal)):
        if ((boxes[:, 0] < place) & (place < boxes[:, 1])).all(axis=-1).any():
            at = ", ".join(f"{value:.2f}" for value in place)
            raise VhdError(f"{loaded.spec.name}: the {name} ({at}) lies in a box to avoid. Move the {name} or the box.")


def notes_on(loaded: Loaded, instance: Instance) -> list[str]:
    """Warnings about a pair: dimensions outside the training data."""
    spec, normalizer = loaded.spec, loaded.planner.normalizer
    notes = []
    goal_state = normalizer.center.copy()
    goal_state[list(spec.goal_dims)] = instance.goal
    for name, state in (("start", instance.start), ("goal", goal_state)):
        for dim in np.flatnonzero(np.abs(normalizer.normalize(state)) > 1 + EDGE):
            notes.append(
                f"{name}: {spec.state_names[dim]} = {state[dim]:.3g} is outside the range of the training data, "
                f"{normalizer.low[dim]:.3g} to {normalizer.high[dim]:.3g}; the plan may be poor."
            )
    return notes
