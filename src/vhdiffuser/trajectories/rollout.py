"""An executed trajectory, as returned by `execute`, `drive` and `Agent`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, as_whole, shown
from vhdiffuser.errors import VhdError
from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.types import EnvSpec, Episodes, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Rollout:
    """An execution, until the goal is first reached, the plan ends or the step budget is spent."""

    observations: FloatArray
    """(steps + 1, observation_dim) observations."""
    actions: FloatArray
    """(steps, m) actions issued."""
    success: bool
    """Whether the last state is within epsilon of the goal."""
    plans: tuple[tuple[int, Plan], ...]
    """(control step, plan) for each plan made; the first at step 0."""

    def __post_init__(self) -> None:
        for name in ("observations", "actions"):
            given = getattr(self, name)
            if not isinstance(given, np.ndarray) or given.dtype.kind != "f":
                object.__setattr__(self, name, as_numbers(f"the {name} of a rollout", given))
            if getattr(self, name).ndim != 2:
                raise VhdError(f"the {name} of a rollout must be a 2-D array; got {shown(given)}.")
        if len(self.actions) != len(self.observations) - 1:
            raise VhdError(
                f"{len(self.observations)} observations need {len(self.observations) - 1} actions; got "
                f"{len(self.actions)}."
            )
        if not isinstance(self.success, bool | np.bool_):
            raise VhdError(f"the success of a rollout must be True or False; got {shown(self.success)}.")
        if not isinstance(self.plans, tuple) or not self.plans or not all(map(_is_made, self.plans)):
            raise VhdError(
                f"the plans of a rollout must be a tuple of at least one (control step, Plan); got {shown(self.plans)}."
            )

    @property
    def steps(self) -> int:
        """Number of control steps executed."""
        return len(self.actions)

    @property
    def seconds(self) -> float | None:
        """Executed time in seconds; None if the environment is unknown."""
        return None if self.spec is None else self.steps * self.spec.control_dt

    @property
    def replans(self) -> int:
        """Number of plans made after the first."""
        return len(self.plans) - 1

    @property
    def goal(self) -> FloatArray:
        """(goal_dim,) goal of the last plan."""
        return self.plans[-1][1].goal

    @property
    def spec(self) -> EnvSpec | None:
        """Environment of the plans; None if unknown."""
        return self.plans[0][1].spec

    def __repr__(self) -> str:
        name = "" if self.spec is None else f"{self.spec.name}: "
        goal = ", ".join(f"{value:.4g}" for value in self.goal)
        return (
            f"Rollout({name}goal ({goal}) {'reached' if self.success else 'not reached'}, {self.steps} steps, "
            f"plans of {self._lengths()} states)"
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        data: Episodes | npt.ArrayLike | None = None,
        walls: npt.ArrayLike | None = None,
    ) -> Axes:
        """Draw the plans (grey), the executed path, start and goals. Arguments as in `Plan.plot`."""
        from vhdiffuser.trajectories.plots import View

        view = View(self.spec, ax, data, walls)
        for made, plan in self.plans:
            view.line(plan.states, "plan", made)
        states = self.observations if self.spec is None else self.spec.planning_state(self.observations)
        view.line(states, "path")
        view.ends(states[0], [plan.goal for _, plan in self.plans], self.steps)
        outcome = "hit" if self.success else "missed"
        view.axes.set_title(f"L = {self._lengths()}; {self.steps} steps, {outcome}", fontsize=9)
        return view.axes

    def video(self, path: str | Path, *, walls: npt.ArrayLike | None = None) -> Path:
        """Write a GIF seen from above: each plan, with its denoising if kept, and its execution.

        With three goal dimensions, the first two are drawn. Raises `VhdError` for any other number.
        """
        from vhdiffuser.trajectories.film import write_film
        from vhdiffuser.trajectories.plots import known_walls

        path, spec = Path(path), self.spec
        if spec is None or spec.goal_dim not in (2, 3):
            raise VhdError(
                "a video shows the scene from above: it needs plans with a spec of two or three goal dimensions."
            )
        if path.suffix != ".gif":
            raise VhdError(f"{path}: videos are written as .gif.")
        return write_film(spec, [self], known_walls(spec, walls), path)

    def until(self, steps: int) -> Rollout:
        """The first `steps` steps with the plans made by then; never a success."""
        if not 0 < as_whole("steps", steps) < self.steps:
            raise VhdError(
                f"a rollout of {self.steps} steps can be cut after 1 to {self.steps - 1} steps; got {steps}."
            )
        plans = tuple((made, plan) for made, plan in self.plans if made < steps)
        return Rollout(self.observations[: steps + 1], self.actions[:steps], False, plans)

    def _lengths(self) -> str:
        lengths = [str(plan.length) for _, plan in self.plans]
        return ", ".join(lengths if len(lengths) <= 6 else [*lengths[:5], f"... {lengths[-1]}"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rollout):
            return NotImplemented
        return (
            np.array_equal(self.observations, other.observations)
            and np.array_equal(self.actions, other.actions)
            and (self.success, self.plans) == (other.success, other.plans)
        )


def _is_made(item: object) -> bool:
    """Whether the item is (control step, plan)."""
    if not isinstance(item, tuple) or len(item) != 2:
        return False
    return isinstance(item[0], int | np.integer) and isinstance(item[1], Plan)
