"""Drawing of mazes, plans and paths, without pyplot: no global state, no screen."""

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
    """Context for importing matplotlib: raises `VhdError` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise VhdError("pictures need matplotlib, which is not installed: pip install matplotlib") from error


def new_figure(rows: int, columns: int, size: float = 3.4, projection: str | None = None) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row."""
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
    """(n, 4) walls of a known maze, otherwise empty."""
    known = find_environment(spec.name)
    return np.zeros((0, 4)) if known is None else known.geometry.walls


def rows_down(environment: str) -> bool:
    """Whether the first coordinate runs down the page, as the environment says."""
    known = find_environment(environment)
    return known is not None and known.geometry.rows_down


def on_page(environment: str, places: FloatArray) -> FloatArray:
    """(..., >= 2) positions -> (..., 2) right and up on the page; further coordinates are not drawn."""
    x, y = places[..., 0], places[..., 1]
    return np.stack([y, -x] if rows_down(environment) else [x, y], axis=-1)


def boxes_on_page(environment: str, walls: FloatArray) -> FloatArray:
    """(n, 4) walls x_low, x_high, y_low, y_high -> left, right, bottom, top on the page."""
    walls = np.asarray(walls, float).reshape(-1, 4)
    return np.stack([walls[:, 2], walls[:, 3], -walls[:, 1], -walls[:, 0]], axis=1) if rows_down(environment) else walls


def label_page(axes: Axes, environment: str, names: Sequence[str]) -> None:
    """Names and values of the two coordinates along the page's edges (see `on_page`)."""
    right, up = names
    if rows_down(environment):
        right, up = up, right
        axes.yaxis.set_major_formatter(lambda value, _: f"{0.0 - value:g}")
    axes.set_xlabel(right)
    axes.set_ylabel(up)


def draw_maze(axes: Axes, walls: FloatArray) -> None:
    """Walls as `draw_walls` has them, without ticks."""
    axes.set_xticks([])
    axes.set_yticks([])
    draw_walls(axes, walls)


def draw_walls(axes: Axes, walls: FloatArray) -> None:
    """Walls (n, 4) as left, right, bottom, top (see `boxes_on_page`)."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    axes.set_aspect("equal")
    boxes = [Rectangle((x0, y0), x1 - x0, y1 - y0) for x0, x1, y0, y1 in np.asarray(walls, float).reshape(-1, 4)]
    if boxes:
        axes.add_collection(PatchCollection(boxes, facecolor=WALL_COLOUR, edgecolor="none"))
        low, high = walls[:, [0, 2]].min(axis=0), walls[:, [1, 3]].max(axis=0)
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])


def draw_path(axes: Axes, places: FloatArray, **style: Any) -> None:
    """(n, 2) positions on the page as a line."""
    axes.plot(places[:, 0], places[:, 1], **{"color": PATH_COLOUR, "linewidth": 1.5, **style})


def draw_ends(
    axes: Axes, start: FloatArray, goal: FloatArray, tolerance: FloatArray | None = None, size: float = 6
) -> None:
    """Start (yellow) and goal (red) on the page, with the goal region if its half side lengths are given."""
    from matplotlib.patches import Rectangle

    axes.plot(start[0], start[1], "o", color=START_COLOUR, markersize=size, markeredgecolor="black", zorder=5)
    axes.plot(goal[0], goal[1], "*", color=GOAL_COLOUR, markersize=4 / 3 * size, markeredgecolor="black", zorder=5)
    if tolerance is not None:
        width, height = 2 * tolerance
        left, low = goal - tolerance
        axes.add_patch(Rectangle((left, low), width, height, facecolor=GOAL_COLOUR, alpha=0.35, zorder=4))
