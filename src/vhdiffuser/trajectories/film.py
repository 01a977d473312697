"""Films of a planner: each plan is denoised, then executed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.painting import GOAL, OLD_GOAL, PLAN, ROBOT, START, TRACE, TopView, moments, write_gif
from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray

if TYPE_CHECKING:
    from PIL import Image

    from vhdiffuser.trajectories.rollout import Rollout

FILM_FPS = 20.0
"""Frames per second."""
FILM_PICTURES = 110
"""Approximate number of frames showing motion: five seconds."""
_FINER = 2
"""Supersampling factor, for smooth lines."""


def write_film(spec: EnvSpec, rollouts: Sequence[Rollout], walls: FloatArray, path: Path) -> Path:
    """Write consecutive rollouts, each starting where the previous one ended, to one GIF."""
    every = max(1, sum(rollout.steps for rollout in rollouts) // FILM_PICTURES)
    return write_gif(film_frames(spec, rollouts, walls, every), path, FILM_FPS)


def film_frames(
    spec: EnvSpec, rollouts: Sequence[Rollout], walls: FloatArray, every: int = 4, size: int = 560
) -> Iterator[ImageArray]:
    """Yield the frames of a film: each plan is denoised (if its denoising was kept), then executed, one goal after
    another.

    Each rollout starts where the previous one ended. One frame per `every` control steps, at `FILM_FPS`.
    """

    def flat(places: FloatArray) -> FloatArray:
        """(..., d) -> (..., 2): x and y."""
        return spec.goal_of(places)[..., :2]

    legs = [flat(spec.planning_state(item.observations)) for item in rollouts]
    plans = [plan for item in rollouts for _, plan in item.plans]
    goals = [plan.goal[:2] for plan in plans]
    seen = np.concatenate([*legs, np.stack(goals), *(flat(plan.states) for plan in plans)])
    view = TopView(seen, walls, size * _FINER, caption=34 * _FINER)
    view.dot(view.background, legs[0][0], START, 0.016)
    frame, shown = view.background, 0
    for number, (rollout, places) in enumerate(zip(rollouts, legs, strict=True)):
        driven, before = np.concatenate([*legs[:number], places[:1]]), sum(item.steps for item in rollouts[:number])
        ends = [made for made, _ in rollout.plans[1:]] + [rollout.steps]
        for (made, plan), end in zip(rollout.plans, ends, strict=True):
            stage = view.background.copy()
            for old in goals[:shown]:
                view.dot(stage, old, OLD_GOAL, 0.016)
            view.dot(stage, goals[shown], GOAL, 0.016)
            moved = shown > 0 and not np.array_equal(plan.goal, plans[shown - 1].goal)
            new = "goal moved: " if moved else "new plan: " if shown else ""
            trace = np.concatenate([driven, places[: made + 1]])
            for picture in _denoised(view, stage, spec, plan, trace, f"{new}horizon {plan.length} states"):
                frame = picture
                yield _shrunk(frame)
            for step in moments(end - made, every):
                frame = stage.copy()
                view.line(frame, flat(plan.states), PLAN, 1.5 * _FINER)
                view.line(frame, np.concatenate([driven, places[: made + step + 1]]), TRACE, 3 * _FINER)
                view.dot(frame, places[made + step], ROBOT, 0.014)
                view.caption(frame, f"horizon {plan.length} states", f"executed {before + made + step} steps")
                yield _shrunk(frame)
            shown += 1
        if rollout.success:
            view.caption(frame, "goal reached", f"executed {before + rollout.steps} steps")
            yield from [_shrunk(frame)] * int(FILM_FPS)


def _denoised(
    view: TopView, stage: Image.Image, spec: EnvSpec, plan: Plan, trace: FloatArray, title: str
) -> Iterator[Image.Image]:
    """The knots after each reverse step, each shown for a sixth of a second and the last one longer."""
    if plan.denoising is None:
        return
    steps = len(plan.denoising) - 1
    for step, knots in enumerate(plan.denoising):
        picture = stage.copy()
        places = spec.goal_of(knots)[..., :2]
        view.line(picture, trace, TRACE, 3 * _FINER)
        view.line(picture, places, PLAN, _FINER)
        for place in places:
            view.dot(picture, place, ROBOT, 0.005)
        view.dot(picture, trace[-1], ROBOT, 0.014)
        view.caption(picture, title, f"denoising, step {step} of {steps}")
        yield from [picture] * int(FILM_FPS / (2 if step == steps else 6))


def _shrunk(picture: Image.Image) -> ImageArray:
    from PIL import Image

    size = (picture.width // _FINER, picture.height // _FINER)
    return np.asarray(picture.resize(size, Image.Resampling.BOX))
