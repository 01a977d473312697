"""Figures of the Length Predictor: arrays in, PNG out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from vhdiffuser.drawing import GOAL_COLOUR, PATH_COLOUR, axis_labels, draw_maze, new_figure, save_figure
from vhdiffuser.types import FloatArray

_CONTOUR_STEPS = 25
"""Steps between contour lines of a distance field."""


def scatter(truth: FloatArray, predicted: Mapping[str, FloatArray], path: Path, title: str, axis: str) -> Path:
    """Predicted against true steps: one panel per recipe, (n,) each, with the diagonal. `axis` labels the truth."""
    figure, panels = new_figure(1, len(predicted))
    limit = 1.05 * max(float(np.max(truth)), *(float(np.max(values)) for values in predicted.values()))
    for axes, (name, values) in zip(panels, predicted.items(), strict=True):
        axes.plot([0, limit], [0, limit], color="black", linewidth=0.8)
        axes.plot(truth, values, ".", color=PATH_COLOUR, markersize=2, alpha=0.5)
        axes.set(xlim=(0, limit), ylim=(0, limit), aspect="equal", title=_panel_title(name, predicted))
        axes.set_xlabel(axis)
        axes.set_ylabel("predicted steps")
    figure.suptitle(f"{title}: {len(truth):,} random pairs")
    return save_figure(figure, path)


def calibration_curve(curves: Mapping[str, FloatArray], path: Path, title: str) -> Path:
    """Mean prediction and its 10 to 90 % band over true steps; one (bins, 4) curve per recipe.

    Columns: mean truth, mean prediction, 10 % and 90 % quantile of the prediction.
    """
    figure, panels = new_figure(1, len(curves))
    limit = 1.05 * max(float(curve.max()) for curve in curves.values())
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        truth, mean, low, high = curve.T
        axes.plot([0, limit], [0, limit], color="black", linewidth=0.8)
        axes.fill_between(truth, low, high, color=PATH_COLOUR, alpha=0.2, linewidth=0, label="10 to 90 %")
        axes.plot(truth, mean, "o-", color=PATH_COLOUR, markersize=3, label="mean")
        axes.set(xlim=(0, limit), ylim=(0, limit), aspect="equal", title=_panel_title(name, curves))
        axes.set_xlabel("true steps")
        axes.set_ylabel("predicted steps")
        axes.legend(frameon=False, loc="upper left")
    figure.suptitle(f"{title}: calibration")
    return save_figure(figure, path)


def distance_fields(
    x: FloatArray,
    y: FloatArray,
    fields: Sequence[tuple[str, FloatArray, FloatArray]],
    walls: FloatArray,
    path: Path,
    environment: str,
) -> Path:
    """Steps to a goal over the maze: one panel per (name, goal (2,), steps (n, m) with NaN in walls).

    x (n,) and y (m,) are grid coordinates, walls (k, 4) x_low, x_high, y_low, y_high.
    """
    columns = min(len(fields), 3)
    rows = -(-len(fields) // columns)
    figure, panels = new_figure(rows, columns)
    for axes in panels[len(fields) :]:
        axes.set_axis_off()
    top = max(float(np.nanmax(steps)) for _, _, steps in fields)
    for axes, (name, goal, steps) in zip(panels, fields, strict=False):
        draw_maze(axes, walls, axis_labels(environment))
        shown = np.ma.masked_invalid(steps.T)
        image = axes.pcolormesh(x, y, shown, vmin=0, vmax=top, cmap="viridis", shading="nearest", rasterized=True)
        levels = np.arange(_CONTOUR_STEPS, top, _CONTOUR_STEPS)
        if len(levels):
            axes.contour(x, y, shown, levels=levels, colors="white", linewidths=0.5)
        axes.plot(*goal[:2], "*", color=GOAL_COLOUR, markeredgecolor="black", markersize=11)
        axes.set_title(_panel_title(name, {name for name, _, _ in fields}), fontsize=9)
    figure.colorbar(image, ax=panels[: len(fields)], label=f"steps to the goal (a line every {_CONTOUR_STEPS})")
    figure.suptitle(environment)
    return save_figure(figure, path)


def _panel_title(name: str, names: Collection[str]) -> str:
    """The run's name, where a figure compares several."""
    return f"run {name}" if len(names) > 1 else ""
