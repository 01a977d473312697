"""Saved rollouts as GIFs, without a display: replayed in the simulator, or drawn from above."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from vhdiffuser.drawing import walls_of
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.painting import GOAL, PLAN, ROBOT, START, TRACE, TopView, moments, write_gif
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.types import FloatArray, ImageArray

View = Literal["top", "camera"]
"""How to show a rollout: from above with its plans, or through the simulator's camera."""
_PICTURES = 100
"""Approximate number of frames; longer rollouts play faster."""


def write_rollout(env: PlanningEnv, kept: KeptRollout, path: Path, view: View = "top") -> Path:
    """Write a saved rollout as a GIF."""
    every = max(1, len(kept.actions) // _PICTURES)
    if view == "camera":
        return write_gif(replay_frames(env, kept, every), path)
    walls = walls_of(env.spec)
    return write_gif(top_view_frames(kept, walls, list(env.spec.goal_dims), every), path)


def replay_frames(env: PlanningEnv, kept: KeptRollout, every: int = 1, size: int = 480) -> Iterator[ImageArray]:
    """Images from the simulator of a saved rollout, replaying its actions from its start."""
    env.reset(kept.instance)
    yield env.render(size, size)
    for step, action in enumerate(kept.actions, start=1):
        env.step(action)
        if step % every == 0 or step == len(kept.actions):
            yield env.render(size, size)


def top_view_frames(
    kept: KeptRollout, walls: FloatArray, goal_dims: list[int], every: int = 1, size: int = 480
) -> Iterator[ImageArray]:
    """Walls, the current plan, the path so far and the robot, drawn from the rollout alone."""
    places, goal = kept.states[:, goal_dims[:2]], kept.instance.goal[:2]
    plans = [(made, planned[:, :2]) for made, planned in kept.plans]
    seen = np.concatenate([places, goal[None], *(planned for _, planned in plans)])
    view = TopView(seen, walls, size)
    view.dot(view.background, places[0], START, 0.016)
    view.dot(view.background, goal, GOAL, 0.016)
    for now in moments(len(places) - 1, every):
        picture = view.background.copy()
        view.line(picture, [planned for made, planned in plans if made <= now][-1], PLAN, 1)
        view.line(picture, places[: now + 1], TRACE, 2)
        view.dot(picture, places[now], ROBOT, 0.014)
        yield np.asarray(picture)
