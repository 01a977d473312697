"""A planned trajectory, as returned by `Planner.plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_path, shown
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A planned trajectory at the control rate: L states, L-1 control steps, in the environment's units.

    Two plans are equal if their states and goals are.
    """

    states: FloatArray
    """(L, d) states; states[0] is the start, and the goal dimensions of states[-1] are the goal."""
    goal: FloatArray
    """(goal_dim,) goal."""
    denoising: FloatArray | None = None
    """(reverse steps + 1, knots, d) intermediate knots, if the reverse process was kept."""
    spec: EnvSpec | None = field(default=None)
    """Environment of the plan, if known: names, units and time step."""
    route: FloatArray | None = None
    """(n, goal_dim) route of a composed plan; None for a plan in one piece."""
    redrawn: int = 0
    """Number of pieces resampled because no observed path matched them (`PlanningOptions.candidates`)."""

    def __post_init__(self) -> None:
        for name in ("states", "goal"):
            given = getattr(self, name)
            if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
                object.__setattr__(self, name, as_numbers(f"the {name} of a plan", getattr(self, name)))
        if not isinstance(self.spec, EnvSpec | None):
            raise VhdError(f"the spec of a plan must be an EnvSpec (planner.spec) or None; got {shown(self.spec)}.")
        if self.states.ndim != 2 or len(self.states) < 2:
            raise VhdError(f"a plan needs (L, d) states with L >= 2; got shape {self.states.shape}.")

    @property
    def length(self) -> int:
        """L, the number of states; the plan takes L-1 control steps."""
        return len(self.states)

    @property
    def seconds(self) -> float | None:
        """Duration in seconds; None if the environment is unknown."""
        return None if self.spec is None else (self.length - 1) * self.spec.control_dt

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return np.array_equal(self.states, other.states) and np.array_equal(self.goal, other.goal)

    def __repr__(self) -> str:
        name = "" if self.spec is None else f"{self.spec.name}: "
        time = "" if self.seconds is None else f", {self.seconds:.4g} s"
        start = self.states[0] if self.spec is None else self.spec.goal_of(self.states[0])
        return f"Plan({name}{self.length} states{time}, {_numbers(start)} -> {_numbers(self.goal)})"

    def plot(
        self,
        ax: Axes | None = None,
        *,
        data: Episodes | npt.ArrayLike | None = None,
        walls: npt.ArrayLike | None = None,
    ) -> Axes:
        """Draw the planned positions, start and goal; needs matplotlib.

        Two goal dimensions are drawn from above with walls (the environment's, or (n, 4) x_low, x_high, y_low, y_high),
        three in 3-D (`ax` then needs `projection="3d"`), any other number over time. `data` (training episodes or (n,
        goal_dim) positions) adds a faint background in 2-D and 3-D. Returns the axes.

        >>> planner.plan([1, 1, 0, 0], [3, 1]).plot()                # doctest: +SKIP
        >>> matplotlib.pyplot.show()                                 # doctest: +SKIP
        """
        from vhdiffuser.trajectories.plots import View

        view = View(self.spec, ax, data, walls)
        if self.route is not None:
            view.route(self.route)
        view.line(self.states, "plan only")
        view.ends(self.states[0], [self.goal], self.length - 1)
        time = "" if self.seconds is None else f", {self.seconds:.4g} s"
        view.axes.set_title(f"L = {self.length}{time}", fontsize=9)
        return view.axes

    def to_json(self) -> dict[str, Any]:
        """Contents of a .json file written by `save`."""
        return {
            "environment": None if self.spec is None else self.spec.name,
            "length": self.length,
            "state_names": None if self.spec is None else list(self.spec.state_names),
            "goal": [float(value) for value in self.goal],
            "states": [[float(value) for value in state] for state in self.states],
        }

    def save(self, path: str | Path) -> Path:
        """Write the plan atomically; the suffix selects the format.

        .npz keeps everything; .json keeps the environment's name, state names, goal and states; .csv keeps one row per
        state.
        """
        from vhdiffuser.trajectories.plan_files import save_plan

        return save_plan(self, as_path("the file of a plan", path))

    @classmethod
    def load(cls, path: str | Path, spec: EnvSpec | None = None) -> Plan:
        """Read and validate a file written by `save`.

        Pass `spec` (`planner.spec`) if the file does not determine the environment: always for .csv, and for .json if
        the environment is not registered. Raises `DataError` for a damaged file.
        """
        from vhdiffuser.trajectories.plan_files import load_plan

        return load_plan(as_path("the file of a plan", path), spec)


def _numbers(values: FloatArray) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"
