"""A contact sheet of failures: plans and executed paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vhdiffuser.drawing import (
    PATH_COLOUR,
    PLAN_COLOUR,
    add_legend,
    axis_labels,
    draw_ends,
    draw_maze,
    draw_path,
    new_figure,
    save_figure,
)
from vhdiffuser.results.rollout_files import KeptRollout
from vhdiffuser.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SPACE_VIEWS = (("from above", (0, 1)), ("from the side", (0, 2)))
"""Views for positions with three coordinates: one panel per pair of dimensions."""


def draw_failures(
    failures: Sequence[tuple[str, KeptRollout]], config: Mapping[str, Any], path: Path, columns: int = 6
) -> Path:
    """One panel per failure (two in 3-D) with its title: plans in grey, the executed path in colour.

    `config` is the rows' configuration (`vhdiffuser.results.rows`): walls, goal dimensions, tolerance.
    """
    goal_dims = list(config["goal_dims"])
    tolerance = config["epsilon"] * np.asarray(config["scale"])
    views = _SPACE_VIEWS if len(goal_dims) == 3 else (("", (0, 1)),)
    columns = min(columns, len(failures) * len(views))
    columns -= columns % len(views)
    figure, panels = new_figure(-(-len(failures) * len(views) // columns), columns, size=2.6)
    for axes in panels[len(failures) * len(views) :]:
        axes.set_axis_off()
    names = axis_labels(config["environment"])
    everywhere = np.concatenate(
        [
            places
            for _, kept in failures
            for places in (kept.instance.goal[None], kept.states[:, goal_dims], *(plan for _, plan in kept.plans))
        ]
    )
    shown = [(title, kept, view) for title, kept in failures for view in views]
    for axes, (title, kept, (name, dims)) in zip(panels, shown, strict=False):

        def flat(places: FloatArray, dims: tuple[int, int] = dims) -> FloatArray:
            """(..., goal_dim) -> (..., 2) in this view."""
            return np.asarray(places)[..., list(dims)]

        draw_maze(axes, config["walls"], [names[dim] for dim in dims])
        for _, places in kept.plans:
            draw_path(axes, flat(places), color=PLAN_COLOUR, linewidth=3, alpha=0.55, label="plan")
        executed = flat(kept.states[:, goal_dims])
        draw_path(axes, executed, color=PATH_COLOUR, linewidth=1, label="executed")
        axes.plot(*executed[-1], "x", color=PATH_COLOUR, markersize=6, zorder=6, label="where it ended")
        draw_ends(axes, executed[0], flat(kept.instance.goal), flat(tolerance))
        if len(config["walls"]) == 0:
            _same_frame(axes, flat(everywhere))
        axes.set_title("\n".join(part for part in (title, name) if part), fontsize=7)
    add_legend(figure, panels)
    return save_figure(figure, path)


def _same_frame(axes: Axes, places: FloatArray) -> None:
    """Set limits that contain all (n, 2) positions, so that panels without walls share a frame."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.08 * max(float((high - low).max()), 1e-6)
    axes.set_xlim(low[0] - margin, high[0] + margin)
    axes.set_ylim(low[1] - margin, high[1] + margin)
