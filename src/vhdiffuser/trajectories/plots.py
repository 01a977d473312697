"""Plots of trajectories: from above with walls, in 3-D, or over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, shown
from vhdiffuser.drawing import (
    GOAL_COLOUR,
    PATH_COLOUR,
    PLAN_COLOUR,
    START_COLOUR,
    axis_labels,
    draw_ends,
    draw_walls,
    needs_matplotlib,
    walls_of,
)
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Role = Literal["plan only", "plan", "path"]
"""Role of a line: a plan on its own (states as dots, dense where it is slow), an executed plan, or the executed
path."""

_STYLES: dict[Role, dict[str, Any]] = {
    "plan only": {"color": PATH_COLOUR, "linewidth": 0.8, "marker": ".", "markersize": 2.2, "label": "plan"},
    "plan": {"color": PLAN_COLOUR, "linewidth": 4, "alpha": 0.5, "label": "plan"},
    "path": {"color": PATH_COLOUR, "linewidth": 1.5, "label": "executed"},
}
_ROUTE: dict[str, Any] = {"linestyle": "", "marker": ".", "markersize": 3, "color": "tab:green", "label": "route"}
_BACKDROP: dict[str, Any] = {"color": "0.6", "linestyle": "", "marker": ",", "alpha": 0.35, "zorder": 0}
_MARKER = 9
"""Marker size of the start; the goal's is a third larger."""
_BACKDROP_POINTS = 20_000
"""Maximum number of data points in the background."""


def projection_of(spec: EnvSpec | None) -> str | None:
    """Projection of the axes: "3d" if goals have three dimensions."""
    return "3d" if spec is not None and spec.goal_dim == 3 else None


def known_walls(spec: EnvSpec, walls: npt.ArrayLike | None) -> FloatArray:
    """(n, 4) given walls, or the environment's."""
    if walls is None:
        return walls_of(spec)
    boxes = as_numbers("walls", walls)
    if boxes.size and (boxes.ndim != 2 or boxes.shape[1] != 4):
        raise VhdError(f"walls must be (n, 4) numbers x_low, x_high, y_low, y_high; got shape {boxes.shape}.")
    return boxes.reshape(-1, 4)


class View:
    """Axes showing the goal dimensions of states, or all dimensions if the environment is unknown."""

    def __init__(
        self,
        spec: EnvSpec | None,
        axes: Axes | None,
        data: Episodes | npt.ArrayLike | None,
        walls: npt.ArrayLike | None,
    ) -> None:
        self._spec, self._own = spec, axes is None
        if axes is not None and not hasattr(axes, "set_xlabel"):
            raise VhdError(f"ax must be matplotlib axes, as returned by pyplot.subplots(); got {shown(axes)}.")
        self.axes = _new_axes(spec) if axes is None else axes
        if spec is None or spec.goal_dim not in (2, 3):
            self.axes.set_xlabel("control step" if spec is None else "time [s]")
            return
        names = axis_labels(spec.name, [spec.state_names[dim] for dim in spec.goal_dims])
        if spec.goal_dim == 2:
            boxes = known_walls(spec, walls)
            draw_walls(self.axes, boxes)
            if len(boxes) == 0:  # a straight path along an axis would collapse the frame to a line
                self.axes.set_aspect("equal", adjustable="datalim")
            self.axes.set(xlabel=names[0], ylabel=names[1])
        elif self.axes.name != "3d":
            raise VhdError(f"{spec.name}: goals have three dimensions; pass axes created with projection='3d'.")
        else:
            self.axes.set(xlabel=names[0], ylabel=names[1], zlabel=names[2])
        if data is not None:
            self.axes.plot(*self._coordinates(_positions(spec, data)), **_BACKDROP)

    def line(self, states: FloatArray, role: Role, first: int = 0) -> None:
        """Draw (n, d) states; over time, `first` is the control step of the first one."""
        places, style = self._places(states), _STYLES[role]
        if self._over_time:
            times = self._seconds(first + np.arange(len(places)))
            for dim, values in enumerate(places.T):
                own = {"color": f"C{dim}", "label": self._name(dim) if role != "plan" else None}
                self.axes.plot(times, values, **{**style, **own})
            if role != "plan":
                self.axes.legend(fontsize=8)
            return
        coordinates = self._coordinates(places)
        self.axes.plot(*coordinates, **style)
        if not self.axes.get_autoscalex_on():  # the frame follows the walls, but a line may leave them
            (left, right), (bottom, top) = self.axes.get_xlim(), self.axes.get_ylim()
            self.axes.set_xlim(min(left, coordinates[0].min()), max(right, coordinates[0].max()))
            self.axes.set_ylim(min(bottom, coordinates[1].min()), max(top, coordinates[1].max()))

    def route(self, places: FloatArray) -> None:
        """Draw (n, goal_dim) route points as dots; nothing over time."""
        if not self._over_time:
            self.axes.plot(*self._coordinates(places), **_ROUTE)

    def ends(self, start: FloatArray, goals: Sequence[FloatArray], steps: int) -> None:
        """Draw start (yellow) and goals (red; abandoned ones faint) of a trajectory of `steps` control steps."""
        distinct = list({tuple(goal.tolist()): goal for goal in goals}.values())
        if self._over_time:
            if len(goals[-1]) == self._places(start).shape[-1]:
                for dim, value in enumerate(goals[-1]):
                    self.axes.plot(self._seconds(steps), value, "*", color=f"C{dim}", markeredgecolor="black")
            return
        for goal in distinct[:-1]:
            self.axes.plot(*self._coordinates(goal), "*", color=GOAL_COLOUR, markersize=4 / 3 * _MARKER, alpha=0.35)
        first, goal = self._places(start), distinct[-1]
        if self.axes.name != "3d":
            draw_ends(self.axes, first, goal, size=_MARKER)
        else:
            style: dict[str, Any] = {"linestyle": "", "markeredgecolor": "black"}
            own: dict[str, Any] = {"marker": "o", "color": START_COLOUR, "markersize": _MARKER, "label": "start"}
            self.axes.plot(*self._coordinates(first), **style, **own)
            own = {"marker": "*", "color": GOAL_COLOUR, "markersize": 4 / 3 * _MARKER, "label": "goal"}
            self.axes.plot(*self._coordinates(goal), **style, **own)
        if self._own:  # the caller's axes keep the caller's legend
            named = dict(zip(*reversed(self.axes.get_legend_handles_labels()), strict=True))
            figure: Any = self.axes.figure
            figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=len(named), fontsize=8)

    @property
    def _over_time(self) -> bool:
        return self._spec is None or self._spec.goal_dim not in (2, 3)

    def _places(self, states: FloatArray) -> FloatArray:
        return states if self._spec is None else self._spec.goal_of(states)

    def _seconds(self, steps: npt.ArrayLike) -> FloatArray:
        return np.asarray(steps) * (1.0 if self._spec is None else self._spec.control_dt)

    def _name(self, dim: int) -> str:
        return f"state {dim}" if self._spec is None else self._spec.state_names[self._spec.goal_dims[dim]]

    def _coordinates(self, places: FloatArray) -> list[FloatArray]:
        """(n, goal_dim) or (goal_dim,) positions as arguments of `plot`: one array per axis."""
        return list(np.atleast_2d(places).T)


def _new_axes(spec: EnvSpec | None) -> Axes:
    with needs_matplotlib():
        from matplotlib import pyplot
    axes: Axes = pyplot.figure(layout="constrained").add_subplot(projection=projection_of(spec))
    return axes


def _positions(spec: EnvSpec, data: Episodes | npt.ArrayLike) -> FloatArray:
    """(n, goal_dim) positions, evenly subsampled from the data."""
    if isinstance(data, Episodes):
        places = spec.goal_of(spec.planning_state(data.observations))
    else:
        places = as_numbers("data", data)
        if places.ndim != 2 or places.shape[1] != spec.goal_dim:
            raise VhdError(f"data must be episodes or (n, {spec.goal_dim}) positions; got shape {places.shape}.")
    return places[:: -(-len(places) // _BACKDROP_POINTS) or 1]
