"""Drawing of mazes, plans and paths without pyplot: no global state and no display."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.types import EnvSpec, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START_COLOUR, GOAL_COLOUR, PATH_COLOUR, PLAN_COLOUR = "#e3a008", "#d64541", "#1f6feb", "#8a8f9c"
WALL_COLOUR = "#c9ccd3"
FIXED_COLOUR = "#d9730d"
METHOD_COLOURS = {
    "vhd": "#1f6feb",
    "fh-lp": "#2da44e",
    "fh-h1": "#e3a008",
    "fh-h2": "#d9730d",
    "fh-h3": "#d64541",
    "vhd-paper": "#8250df",
}


@contextmanager
def needs_matplotlib() -> Iterator[None]:
    """Context for importing matplotlib; raises `VhdError` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise VhdError("plotting needs matplotlib: pip install matplotlib") from error


def new_figure(rows: int, columns: int, size: float = 3.4, projection: str | None = None) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of axes, returned row by row."""
    with needs_matplotlib():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

    figure = Figure(figsize=(size * columns, size * rows), layout="constrained")
    FigureCanvasAgg(figure)
    places = range(1, rows * columns + 1)
    return figure, [figure.add_subplot(rows, columns, number, projection=projection) for number in places]


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG atomically."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
    return path


def walls_of(spec: EnvSpec) -> FloatArray:
    """(n, 4) walls of a registered maze; empty for other environments."""
    known = find_environment(spec.name)
    return np.zeros((0, 4)) if known is None else known.geometry.walls


def axis_labels(environment: str, names: Sequence[str] = ("x", "y", "z")) -> list[str]:
    """Axis labels with the environment's unit, e.g. "x [m]"."""
    known = find_environment(environment)
    unit = "" if known is None else known.geometry.unit
    return [f"{name} [{unit}]" if unit else name for name in names]


def draw_maze(axes: Axes, walls: FloatArray, labels: Sequence[str]) -> None:
    """Draw a small panel seen from above: walls (n, 4), labelled axes, x to the right and y up."""
    axes.set_xlabel(labels[0], fontsize=7)
    axes.set_ylabel(labels[1], fontsize=7)
    axes.tick_params(labelsize=6)
    draw_walls(axes, walls)


def draw_walls(axes: Axes, walls: FloatArray) -> None:
    """Draw (n, 4) walls: x_low, x_high, y_low, y_high."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    axes.set_aspect("equal")
    walls = np.asarray(walls, float).reshape(-1, 4)
    boxes = [Rectangle((x0, y0), x1 - x0, y1 - y0) for x0, x1, y0, y1 in walls]
    if boxes:
        axes.add_collection(PatchCollection(boxes, facecolor=WALL_COLOUR, edgecolor="none"))
        low, high = walls[:, [0, 2]].min(axis=0), walls[:, [1, 3]].max(axis=0)
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])


def draw_path(axes: Axes, places: FloatArray, **style: Any) -> None:
    """Draw (n, 2) positions as a line."""
    axes.plot(places[:, 0], places[:, 1], **{"color": PATH_COLOUR, "linewidth": 1.5, **style})


def draw_ends(
    axes: Axes, start: FloatArray, goal: FloatArray, tolerance: FloatArray | None = None, size: float = 6
) -> None:
    """Draw start (yellow) and goal (red), with the goal region if its half side lengths are given."""
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"linestyle": "", "markeredgecolor": "black", "zorder": 5}
    axes.plot(start[0], start[1], marker="o", color=START_COLOUR, markersize=size, label="start", **style)
    axes.plot(goal[0], goal[1], marker="*", color=GOAL_COLOUR, markersize=4 / 3 * size, label="goal", **style)
    if tolerance is not None:
        width, height = 2 * tolerance
        left, low = goal - tolerance
        axes.add_patch(Rectangle((left, low), width, height, facecolor=GOAL_COLOUR, alpha=0.35, zorder=4))


def add_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Add one legend below all panels, with each label once."""
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if named:
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(named), fontsize=7)
