"""Figures of plans in their maze, and of their denoising."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from vhdiffuser.drawing import (
    GOAL_COLOUR,
    PATH_COLOUR,
    START_COLOUR,
    add_legend,
    axis_labels,
    draw_maze,
    new_figure,
    save_figure,
    walls_of,
)
from vhdiffuser.trajectories import Plan
from vhdiffuser.trajectories.plots import projection_of
from vhdiffuser.types import EnvSpec, Episodes, ImageArray


def draw_plans(plans: Sequence[Plan], path: Path, columns: int = 4, data: Episodes | None = None) -> Path:
    """One panel per plan, over the positions of `data` if given."""
    columns = min(columns, len(plans))
    rows = -(-len(plans) // columns)
    size = 4.5 if len(plans) == 1 else 3.0
    figure, panels = new_figure(rows, columns, size, projection_of(plans[0].spec))
    for axes, plan in zip(panels, plans, strict=False):
        plan.plot(axes, data=data)
    for axes in panels[len(plans) :]:
        axes.set_axis_off()
    add_legend(figure, panels)
    return save_figure(figure, path)


def denoising_frames(spec: EnvSpec, plan: Plan, size: float = 4.0) -> Iterator[ImageArray]:
    """The knots of a plan after each reverse step, as images."""
    if plan.denoising is None:
        raise ValueError("the plan has no denoising: plan with keep_denoising=True.")
    names = axis_labels(spec.name, [spec.state_names[dim] for dim in spec.goal_dims])
    for step, knots in enumerate(plan.denoising):
        figure, (axis,) = new_figure(1, 1, size=size)
        draw_maze(axis, walls_of(spec), names)
        places = spec.goal_of(knots)
        axis.plot(places[:, 0], places[:, 1], ".-", color=PATH_COLOUR, lw=0.8, ms=3)
        axis.plot(*places[0], "o", color=START_COLOUR, ms=6)
        axis.plot(*plan.goal[:2], "o", color=GOAL_COLOUR, ms=6)
        axis.set_title(f"reverse step {step} of {len(plan.denoising) - 1}", fontsize=9)
        figure.canvas.draw()
        yield np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]
