"""Executions as GIFs, without a screen: replayed in the simulator, painted from above, or as a film with denoising."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.report.drawing import boxes_on_page, on_page
from vhdiffuser.report.plan_figures import walls_of
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.types import EnvSpec, FloatArray, Plan, Rollout

if TYPE_CHECKING:
    from PIL import Image

Colour = tuple[int, int, int]
View = Literal["top", "camera"]
"""How a rollout is shown: painted from above with its plans, or by the simulator's own camera."""
_WALL, _PLAN, _TRACE, _ROBOT, _START, _GOAL, _OLD_GOAL, _TEXT = (
    (201, 204, 211),
    (138, 143, 156),
    (120, 170, 245),
    (31, 111, 235),
    (227, 160, 8),
    (214, 69, 65),
    (240, 196, 194),
    (40, 44, 52),
)
_FINER = 2
"""Films are painted this many times larger and shrunk, for smooth lines."""
_COLOURS = 64
"""Colours of a GIF: enough for flat pictures, and few enough to keep it small."""
FILM_FPS = 20.0
"""Pictures of a film in a second."""
_PICTURES = 100
"""Pictures of a rollout, about: longer ones are shown faster."""


def write_rollout(env: PlanningEnv, kept: KeptRollout, path: Path, view: View = "top") -> Path:
    """A kept rollout as a GIF."""
    every = max(1, len(kept.actions) // _PICTURES)
    if view == "camera":
        return write_gif(replay_frames(env, kept, every), path)
    walls = walls_of(env.spec)
    return write_gif(top_view_frames(env.spec.name, kept, walls, list(env.spec.goal_dims), every), path)


def replay_frames(env: PlanningEnv, kept: KeptRollout, every: int = 1, size: int = 480) -> Iterator[np.ndarray]:
    """The simulator's own pictures of a kept rollout: its actions are issued again from its start."""
    env.reset(kept.instance)
    yield env.render(size, size)
    for step, action in enumerate(kept.actions, start=1):
        env.step(action)
        if step % every == 0 or step == len(kept.actions):
            yield env.render(size, size)


def top_view_frames(
    environment: str, kept: KeptRollout, walls: FloatArray, goal_dims: list[int], every: int = 1, size: int = 480
) -> Iterator[np.ndarray]:
    """Walls, the plan being followed, the trace so far and the robot, painted from the rollout alone."""
    places = on_page(environment, kept.states[:, goal_dims])
    plans = [(made, on_page(environment, planned)) for made, planned in kept.plans]
    goal = on_page(environment, kept.instance.goal)
    seen = np.concatenate([places, goal[None], *(planned for _, planned in plans)])
    view = _TopView(seen, boxes_on_page(environment, walls), size)
    view.dot(view.background, places[0], _START, 0.016)
    view.dot(view.background, goal, _GOAL, 0.016)
    for now in _moments(len(places) - 1, every):
        picture = view.background.copy()
        view.line(picture, [planned for made, planned in plans if made <= now][-1], _PLAN, 1)
        view.line(picture, places[: now + 1], _TRACE, 2)
        view.dot(picture, places[now], _ROBOT, 0.014)
        yield np.asarray(picture)


def film_frames(
    spec: EnvSpec, rollouts: Sequence[Rollout], walls: FloatArray, every: int = 4, size: int = 560
) -> Iterator[np.ndarray]:
    """A planner at work: each plan denoised from noise (where that was kept), then followed, goal after goal.

    A rollout is one goal; the next begins where it ended. At `FILM_FPS`, `every` control steps a picture.
    """
    legs = [on_page(spec.name, spec.goal_of(spec.planning_state(item.observations))) for item in rollouts]
    goals = [on_page(spec.name, item.plans[0][1].goal) for item in rollouts]
    planned = [on_page(spec.name, spec.goal_of(plan.states)) for item in rollouts for _, plan in item.plans]
    seen = np.concatenate([*legs, np.stack(goals), *planned])
    view = _TopView(seen, boxes_on_page(spec.name, walls), size * _FINER, caption=34 * _FINER)
    view.dot(view.background, legs[0][0], _START, 0.016)
    frame = view.background
    for number, (rollout, places) in enumerate(zip(rollouts, legs, strict=True)):
        driven, before = np.concatenate([*legs[:number], places[:1]]), sum(item.steps for item in rollouts[:number])
        stage = view.background.copy()
        for old in goals[:number]:
            view.dot(stage, old, _OLD_GOAL, 0.016)
        view.dot(stage, goals[number], _GOAL, 0.016)
        ends = [made for made, _ in rollout.plans[1:]] + [rollout.steps]
        for order, ((made, plan), end) in enumerate(zip(rollout.plans, ends, strict=True)):
            new = "" if number == order == 0 else "goal moved: " if order == 0 else "off the plan: "
            trace = np.concatenate([driven, places[: made + 1]])
            for picture in _denoised(view, stage, spec, plan, trace, f"{new}horizon {plan.length} states"):
                frame = picture
                yield _shrunk(frame)
            for step in _moments(end - made, every):
                frame = stage.copy()
                view.line(frame, on_page(spec.name, spec.goal_of(plan.states)), _PLAN, 1.5 * _FINER)
                view.line(frame, np.concatenate([driven, places[: made + step + 1]]), _TRACE, 3 * _FINER)
                view.dot(frame, places[made + step], _ROBOT, 0.014)
                view.caption(frame, f"horizon {plan.length} states", f"executed {before + made + step} steps")
                yield _shrunk(frame)
        if rollout.success:
            view.caption(frame, "goal reached", f"executed {before + rollout.steps} steps")
            yield from [_shrunk(frame)] * int(FILM_FPS)


def _denoised(
    view: _TopView, stage: Image.Image, spec: EnvSpec, plan: Plan, trace: FloatArray, title: str
) -> Iterator[Image.Image]:
    """The knots after each reverse step, each shown for a sixth of a second, the last one longer."""
    if plan.denoising is None:
        return
    steps = len(plan.denoising) - 1
    for step, knots in enumerate(plan.denoising):
        picture = stage.copy()
        places = on_page(spec.name, spec.goal_of(knots))
        view.line(picture, trace, _TRACE, 3 * _FINER)
        view.line(picture, places, _PLAN, _FINER)
        for place in places:
            view.dot(picture, place, _ROBOT, 0.005)
        view.dot(picture, trace[-1], _ROBOT, 0.014)
        view.caption(picture, title, f"denoising, step {step} of {steps}")
        yield from [picture] * int(FILM_FPS / (2 if step == steps else 6))


def _moments(steps: int, every: int) -> list[int]:
    """Every so many steps, and the last."""
    return [*range(0, steps, every), steps]


def _shrunk(picture: Image.Image) -> np.ndarray:
    from PIL import Image

    size = (picture.width // _FINER, picture.height // _FINER)
    return np.asarray(picture.resize(size, Image.Resampling.BOX))


class _TopView:
    """A page seen from above, on which places are painted; `caption` pixels are kept free above it."""

    def __init__(self, points: FloatArray, boxes: FloatArray, size: int, caption: int = 0) -> None:
        from PIL import Image, ImageDraw

        self._low, high = _limits(points, boxes)
        extent = high - self._low
        self._size, self._scale, self._caption = size, size / float(extent.max()), caption
        width, height = (max(1, int(np.ceil(length * self._scale))) for length in extent)
        self._bottom = height + caption
        self.background = Image.new("RGB", (width, self._bottom), "white")
        draw = ImageDraw.Draw(self.background)
        for x0, x1, y0, y1 in boxes:
            (left, bottom), (right, top) = self._pixels(np.array([[x0, y0], [x1, y1]]))
            draw.rectangle((left, top, right, bottom), fill=_WALL)

    def line(self, picture: Image.Image, points: FloatArray, colour: Colour, width: float) -> None:
        """A path; nothing where there is one point only."""
        from PIL import ImageDraw

        if len(points) > 1:
            ImageDraw.Draw(picture).line(self._pixels(points), fill=colour, width=round(width), joint="curve")

    def dot(self, picture: Image.Image, place: FloatArray, colour: Colour, radius: float) -> None:
        """A disc; the radius is a share of the page."""
        from PIL import ImageDraw

        ((x, y),) = self._pixels(place[None])
        r = radius * self._size
        ImageDraw.Draw(picture).ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def caption(self, picture: Image.Image, left: str, right: str) -> None:
        """Two texts above the page, in place of those before."""
        from PIL import ImageDraw, ImageFont

        draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=0.5 * self._caption)
        draw.rectangle((0, 0, picture.width, self._caption - 1), fill="white")
        margin, middle = 0.2 * self._caption, 0.5 * self._caption
        draw.text((margin, middle), left, fill=_TEXT, font=font, anchor="lm")
        draw.text((picture.width - margin, middle), right, fill=_PLAN, font=font, anchor="rm")

    def _pixels(self, points: FloatArray) -> list[tuple[float, float]]:
        across, up = ((points - self._low) * self._scale).T
        return list(zip(across.tolist(), (self._bottom - up).tolist(), strict=True))


def _limits(points: FloatArray, boxes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(2,) lower and upper corner of what is to be seen: the maze, or all points where there is none."""
    if len(boxes):
        return boxes[:, [0, 2]].min(axis=0), boxes[:, [1, 3]].max(axis=0)
    margin = 0.05 * max(float(np.ptp(points, axis=0).max()), 1e-6)
    return points.min(axis=0) - margin, points.max(axis=0) + margin


def write_gif(frames: Iterable[np.ndarray], path: Path, fps: float = 25.0) -> Path:
    """Write (h, w, 3) uint8 frames as a looping GIF, whole or not at all."""
    from PIL import Image

    pictures = [Image.fromarray(frame) for frame in frames]
    if not pictures:
        raise VhdError(f"{path}: no frames to write.")
    # One palette for all pictures, taken from the first, the middle and the last: a palette for each would flicker.
    samples = np.concatenate([np.asarray(pictures[i]) for i in (0, len(pictures) // 2, -1)])
    palette = Image.fromarray(samples).quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=2)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    with atomic_path(path) as temporary:
        first.save(temporary, "GIF", save_all=True, append_images=rest, duration=1000.0 / fps, loop=0)
    return path
