"""Rollouts as GIFs, without a screen: by replaying them in the simulator, or as a painted top view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.report.drawing import boxes_on_page, on_page
from vhdiffuser.results.sidefiles import KeptRollout
from vhdiffuser.types import FloatArray

_WALL, _PLAN, _TRACE, _ROBOT, _START, _GOAL = (
    (201, 204, 211),
    (138, 143, 156),
    (120, 170, 245),
    (31, 111, 235),
    (227, 160, 8),
    (214, 69, 65),
)


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
    from PIL import Image, ImageDraw

    places = on_page(environment, kept.states[:, goal_dims])
    plans = [(made, on_page(environment, planned)) for made, planned in kept.plans]
    goal, boxes = on_page(environment, kept.instance.goal), boxes_on_page(environment, walls)
    low, high = _limits(np.concatenate([places, goal[None], *(planned for _, planned in plans)]), boxes)
    scale = size / float((high - low).max())
    height = max(1, int(np.ceil((high - low)[1] * scale)))
    width = max(1, int(np.ceil((high - low)[0] * scale)))

    def pixels(points: FloatArray) -> list[tuple[float, float]]:
        return [(float((x - low[0]) * scale), float(height - (y - low[1]) * scale)) for x, y in points]

    def dot(draw: ImageDraw.ImageDraw, place: FloatArray, colour: tuple[int, int, int], radius: float) -> None:
        ((x, y),) = pixels(place[None])
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)

    background = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(background)
    for x0, x1, y0, y1 in boxes:
        (left, bottom), (right, top) = pixels(np.array([[x0, y0], [x1, y1]]))
        draw.rectangle((left, top, right, bottom), fill=_WALL)
    dot(draw, places[0], _START, 0.016 * size)
    dot(draw, goal, _GOAL, 0.016 * size)
    steps = len(places) - 1
    for step in range(0, steps + every, every):
        now = min(step, steps)
        frame = background.copy()
        draw = ImageDraw.Draw(frame)
        plan = [planned for made, planned in plans if made <= now][-1]
        draw.line(pixels(plan), fill=_PLAN, width=1)
        if now > 0:
            draw.line(pixels(places[: now + 1]), fill=_TRACE, width=2)
        dot(draw, places[now], _ROBOT, 0.014 * size)
        yield np.asarray(frame)
        if now == steps:
            return


def _limits(points: FloatArray, boxes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(2,) lower and upper corner of what is to be seen: the maze, or all points where there is none."""
    if len(boxes):
        return boxes[:, [0, 2]].min(axis=0), boxes[:, [1, 3]].max(axis=0)
    margin = 0.05 * max(float(np.ptp(points, axis=0).max()), 1e-6)
    return points.min(axis=0) - margin, points.max(axis=0) + margin


def write_gif(frames: Iterable[np.ndarray], path: Path, fps: float = 25.0) -> Path:
    """Write (h, w, 3) uint8 frames as a looping GIF, whole or not at all."""
    import imageio.v3 as imageio

    pictures = list(frames)
    if not pictures:
        raise VhdError(f"{path}: no frames to write.")
    with atomic_path(path) as temporary:
        imageio.imwrite(temporary, np.stack(pictures), extension=".gif", duration=1000.0 / fps, loop=0)
    return path
