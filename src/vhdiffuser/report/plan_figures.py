"""Pictures of plans over their maze, and of their denoising."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from vhdiffuser.envs.registry import find_environment
from vhdiffuser.report.drawing import (
    GOAL_COLOUR,
    PATH_COLOUR,
    START_COLOUR,
    boxes_on_page,
    draw_maze,
    new_figure,
    on_page,
    save_figure,
)
from vhdiffuser.types import EnvSpec, FloatArray, Plan


def walls_of(spec: EnvSpec) -> FloatArray:
    """(n, 4) walls of a registered maze; none elsewhere."""
    known = find_environment(spec.name)
    return np.zeros((0, 4)) if known is None else known.geometry.walls


def draw_plans(spec: EnvSpec, plans: Sequence[Plan], path: Path, columns: int = 4) -> Path:
    """One panel a plan: walls, the planned positions as dots (close together where it is slow), start and goal."""
    columns = min(columns, len(plans))
    rows = -(-len(plans) // columns)
    figure, axes = new_figure(rows, columns, size=4.5 if len(plans) == 1 else 3.0)
    walls = boxes_on_page(spec.name, walls_of(spec))
    for axis, plan in zip(axes, plans, strict=False):
        draw_maze(axis, walls)
        places = on_page(spec.name, spec.goal_of(plan.states))
        axis.plot(places[:, 0], places[:, 1], "-", color=PATH_COLOUR, lw=0.8, alpha=0.6)
        axis.plot(places[:, 0], places[:, 1], ".", color=PATH_COLOUR, ms=2.2)
        goal = on_page(spec.name, plan.goal)
        axis.plot(*places[0], "o", color=START_COLOUR, ms=6)
        axis.plot(*goal, "o", color=GOAL_COLOUR, ms=6)
        axis.set_title(f"L = {plan.length}", fontsize=9)
    for axis in axes[len(plans) :]:
        axis.set_axis_off()
    return save_figure(figure, path)


def denoising_frames(spec: EnvSpec, plan: Plan, size: float = 4.0) -> Iterator[np.ndarray]:
    """The knots of one plan after each reverse step, as pictures."""
    if plan.denoising is None:
        raise ValueError("the plan was made without keep_denoising=True.")
    walls = boxes_on_page(spec.name, walls_of(spec))
    for step, knots in enumerate(plan.denoising):
        figure, (axis,) = new_figure(1, 1, size=size)
        draw_maze(axis, walls)
        places = on_page(spec.name, spec.goal_of(knots))
        axis.plot(places[:, 0], places[:, 1], ".-", color=PATH_COLOUR, lw=0.8, ms=3)
        axis.plot(*places[0], "o", color=START_COLOUR, ms=6)
        axis.plot(*on_page(spec.name, plan.goal), "o", color=GOAL_COLOUR, ms=6)
        axis.set_title(f"reverse step {step} of {len(plan.denoising) - 1}", fontsize=9)
        figure.canvas.draw()
        yield np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]
