"""What there is to draw, and whether a start and a goal can be planned between."""

from __future__ import annotations

import numpy as np

from vhdiffuser.diffusion.options import SAMPLERS
from vhdiffuser.envs.make import body_radius
from vhdiffuser.errors import VhdError
from vhdiffuser.planner.requests import EDGE
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance
from vhdiffuser.web.library import Loaded
from vhdiffuser.web.messages import InstanceReply, SceneReply, View

_DRAWS = 32
"""Random pairs among which the page's first one is the longest."""

_RIM = 0.35
"""Share of the outer walls that is drawn: they are a cell thick, and there is nothing to see in them."""


def numbers(values: FloatArray, decimals: int = 4) -> list:
    """An array as nested lists of short numbers."""
    return np.round(np.asarray(values, np.float64), decimals).tolist()


def describe(loaded: Loaded, commands: tuple[str, ...]) -> SceneReply:
    """The scene of an environment, with a long random pair to begin with."""
    spec, planner = loaded.spec, loaded.planner
    first = first_instance(loaded)
    return SceneReply(
        environment=spec.name,
        state_names=list(spec.state_names),
        goal_names=[spec.state_names[dim] for dim in spec.goal_dims],
        views=views_of(loaded),
        walls=numbers(walls_of(loaded)),
        radius=body_radius(spec),
        tolerance=numbers(tolerance(loaded), 5),
        control_dt=spec.control_dt,
        horizons=list(spec.horizons),
        trained_horizons=sorted(loaded.fixed),
        T_max=spec.T_max,
        L_min=spec.L_min,
        step_budget=spec.step_budget,
        gamma=planner.options.gamma,
        sampler=planner.options.sampler,
        samplers=list(SAMPLERS),
        steps=planner.options.steps,
        max_steps=planner.config.diffusion_steps,
        executes=loaded.controller is not None,
        commands=list(commands),
        start=first.start,
        goal=first.goal,
    )


def walls_of(loaded: Loaded) -> FloatArray:
    """(n, 4) walls, none in the cube's workspace."""
    return np.asarray(getattr(loaded.env, "walls", np.zeros((0, 4))))


def tolerance(loaded: Loaded) -> FloatArray:
    """(goal_dim,) half sides of the goal region G_eps(g) in units."""
    return loaded.spec.epsilon * loaded.spec.goal_of(loaded.planner.normalizer.scale)


def views_of(loaded: Loaded) -> list[View]:
    """One view from above; of a workspace in three dimensions, two that share the axis to the right."""
    spec = loaded.spec
    if spec.goal_dim == 3:
        low, high = loaded.env.workspace.tolist()  # type: ignore[attr-defined]
        ranges = [[a, b] for a, b in zip(low, high, strict=True)]
        return [
            View(title="from above", right=1, up=0, down=True, right_range=ranges[1], up_range=ranges[0]),
            View(title="from the front", right=1, up=2, down=False, right_range=ranges[1], up_range=ranges[2]),
        ]
    walls = walls_of(loaded)
    unseen = (1 - _RIM) * (walls[0, 1] - walls[0, 0])
    x = [float(walls[:, 0].min() + unseen), float(walls[:, 1].max() - unseen)]
    y = [float(walls[:, 2].min() + unseen), float(walls[:, 3].max() - unseen)]
    if spec.family == "maze2d":  # D4RL writes mazes row by row, and x counts rows
        return [View(title="from above", right=1, up=0, down=True, right_range=y, up_range=x)]
    return [View(title="from above", right=0, up=1, down=False, right_range=x, up_range=y)]


def first_instance(loaded: Loaded) -> InstanceReply:
    """Of some random pairs, the one with the longest predicted plan: something to look at."""
    rng = np.random.default_rng(0)
    drawn = [loaded.env.sample_instance(rng) for _ in range(_DRAWS)]
    starts, goals = np.stack([item.start for item in drawn]), np.stack([item.goal for item in drawn])
    longest = drawn[int(loaded.planner.predict_lengths(starts, goals).argmax())]
    return _reply(loaded.spec, longest)


def random_instance(loaded: Loaded, seed: int) -> InstanceReply:
    """A pair as the benchmark draws them, at rest."""
    return _reply(loaded.spec, loaded.env.sample_instance(np.random.default_rng(stream("scene", seed))))


def _reply(spec: EnvSpec, instance: Instance) -> InstanceReply:
    return InstanceReply(start=numbers(spec.goal_of(instance.start), 3), goal=numbers(instance.goal, 3))


def checked_instance(loaded: Loaded, start: list[float], goal: list[float], seed: int = 0) -> Instance:
    """The instance, or an error that says why its start or goal is not one."""
    spec = loaded.spec
    if len(start) not in (spec.goal_dim, spec.state_dim) or len(goal) != spec.goal_dim:
        names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
        raise VhdError(
            f"{spec.name}: start and goal need the {spec.goal_dim} numbers {names} (a start may be a whole state: "
            f"{', '.join(spec.state_names)}); got {len(start)} and {len(goal)}."
        )
    instance = Instance(spec.start_state(start), np.asarray(goal, np.float32), seed)
    loaded.env.check(instance)
    return instance


def notes_on(loaded: Loaded, instance: Instance) -> list[str]:
    """What is doubtful about a pair: parts that lie beyond the training data."""
    spec, normalizer = loaded.spec, loaded.planner.normalizer
    notes = []
    goal_state = normalizer.center.copy()
    goal_state[list(spec.goal_dims)] = instance.goal
    for name, state in (("start", instance.start), ("goal", goal_state)):
        for dim in np.flatnonzero(np.abs(normalizer.normalize(state)) > 1 + EDGE):
            notes.append(
                f"{name}: {spec.state_names[dim]} = {state[dim]:.3g} lies outside the training data's "
                f"{normalizer.low[dim]:.3g} to {normalizer.high[dim]:.3g}; the plan may be poor there."
            )
    return notes
