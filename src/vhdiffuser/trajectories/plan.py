"""A planned trajectory: what `Planner.plan` gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A planned trajectory at the control rate: L states, L-1 control steps, in the environment's units.

    Plans are equal when their states and goals are.
    """

    states: FloatArray
    """(L, d); states[0] is the start, the goal dimensions of states[-1] are the goal."""
    goal: FloatArray
    """(goal_dim,)."""
    denoising: FloatArray | None = None
    """(reverse steps + 1, knots, d) when the reverse process was asked to be kept."""
    spec: EnvSpec | None = field(default=None)
    """The environment that it was made for, if known: names, units and time."""
    route: FloatArray | None = None
    """(n, goal_dim) places of the route that a plan composed of pieces keeps to."""

    def __post_init__(self) -> None:
        for name in ("states", "goal"):
            if not isinstance(getattr(self, name), np.ndarray):
                object.__setattr__(self, name, as_numbers(f"the {name} of a plan", getattr(self, name)))
        if self.states.ndim != 2 or len(self.states) < 2:
            raise VhdError(f"a plan needs (L, d) states, 2 or more of them; got shape {self.states.shape}.")

    @property
    def length(self) -> int:
        """L: number of states; L-1 control steps."""
        return len(self.states)

    @property
    def seconds(self) -> float | None:
        """Duration, where the environment is known."""
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

        Two goal dimensions are drawn over the walls (the environment's own, or (n, 4) x_low, x_high, y_low, y_high),
        three in space (`ax` is then one with `projection="3d"`), any other number over time. `data`, the training
        episodes or (n, goal_dim) positions, is a faint backdrop in the plane and in space.

        >>> planner.plan([1, 1, 0, 0], [3, 1]).plot()                # doctest: +SKIP
        >>> matplotlib.pyplot.show()                                 # doctest: +SKIP
        """
        from vhdiffuser.trajectories.plots import View

        view = View(self.spec, ax, data, walls)
        view.line(self.states, "plan only")
        view.ends(self.states[0], [self.goal], self.length - 1)
        time = "" if self.seconds is None else f", {self.seconds:.4g} s"
        view.axes.set_title(f"L = {self.length}{time}", fontsize=9)
        return view.axes

    def to_json(self) -> dict[str, Any]:
        """As `save` writes it to a .json file."""
        return {
            "environment": None if self.spec is None else self.spec.name,
            "length": self.length,
            "state_names": None if self.spec is None else list(self.spec.state_names),
            "goal": [float(value) for value in self.goal],
            "states": [[float(value) for value in state] for state in self.states],
        }

    def save(self, path: str | Path) -> Path:
        """Write it, whole or not at all, as the suffix says.

        .npz keeps everything; .json the environment's name, state names, goal and states; .csv a row a state.
        """
        from vhdiffuser.trajectories.plan_files import save_plan

        return save_plan(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, spec: EnvSpec | None = None) -> Plan:
        """Read what `save` wrote, checked.

        `spec` (`planner.spec`) is the environment where the file does not tell: always in a .csv, in a .json where
        the environment is not one of ours.
        """
        from vhdiffuser.trajectories.plan_files import load_plan

        return load_plan(Path(path), spec)


def _numbers(values: FloatArray) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"
