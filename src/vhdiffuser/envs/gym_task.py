"""Environments with a simulator as Gymnasium tasks: `gymnasium.make("vhdiffuser/Maze2d-large-v1")`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from vhdiffuser.envs.checked import draw_instance, observed
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environments
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import FloatArray, ImageArray, Instance


def make_task(environment: str, **options: Any) -> GoalTask:
    """The task of a registered environment; called by `gymnasium.make`."""
    known = environments()
    if environment not in known:
        raise UnknownNameError("environment", environment, list(known))
    return GoalTask(known[environment], **options)


class GoalTask(gymnasium.Env):
    """Reach a goal. The reward is 1 on each step within a radius of the goal, as in D4RL's maze2d.

    Episodes never terminate; they are truncated by time. `reset(options=...)` takes `start` and `goal` (in the
    environment's coordinates) or, in mazes, `reset_cell` and `goal_cell` (row and column). What is omitted is
    drawn at random, except that a task with a fixed goal keeps it unless `random_goal=True`. The goal is in
    `info["goal"]`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, environment: Environment, random_goal: bool = False, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise VhdError(f"unknown render_mode '{render_mode}'. Use rgb_array or None.")
        self.environment, self.render_mode, self.random_goal = environment, render_mode, random_goal
        self.metadata = {**self.metadata, "render_fps": round(1 / environment.spec.control_dt)}
        self.simulator = environment.make()
        self.goal: FloatArray = np.full(environment.spec.goal_dim, np.nan)
        spec = environment.spec
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (spec.observation_dim,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Draw (or set) start and goal."""
        super().reset(seed=seed)
        options = options or {}
        if unknown := set(options) - {"start", "goal", "reset_cell", "goal_cell"}:
            raise VhdError(f"reset options are start, goal, reset_cell and goal_cell; got {sorted(unknown)}.")
        drawn = draw_instance(self.simulator, self.np_random)
        start = self._place(options, "start", "reset_cell")
        goal = self._place(options, "goal", "goal_cell")
        if goal is None:
            fixed = None if self.random_goal else self.environment.fixed_goal
            goal = drawn.goal if fixed is None else np.asarray(fixed)
        goal = np.asarray(goal, np.float64)
        instance = Instance(np.asarray(drawn.start if start is None else start, np.float32), goal, drawn.seed)
        self.simulator.check(instance)
        self.goal = goal  # a refused reset changes nothing
        return observed(self.simulator, "reset", instance), {"goal": self.goal.copy()}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """One control step."""
        observation = observed(self.simulator, "step", action)
        spec = self.environment.spec
        radius = spec.epsilon if self.environment.goal_radius is None else self.environment.goal_radius
        distance = float(np.linalg.norm(spec.goal_of(spec.planning_state(observation)) - self.goal))
        return observation, float(distance <= radius), False, False, {"goal": self.goal.copy()}

    def render(self) -> ImageArray | None:
        """RGB array of the current state."""
        return self.simulator.render() if self.render_mode == "rgb_array" else None

    def _place(self, options: dict[str, Any], name: str, cell: str) -> FloatArray | None:
        """Start or goal from the options, or None."""
        if name in options and cell in options:
            raise VhdError(f"pass `{name}` or `{cell}`, not both.")
        if name in options:
            try:
                return np.asarray(options[name], np.float64)
            except (TypeError, ValueError):
                raise VhdError(f"`{name}` must be a list of numbers; got {options[name]!r}.") from None
        if cell not in options:
            return None
        if self.environment.geometry.cell is None:
            raise VhdError(f"{self.environment.name} has no cells: pass `{name}`.")
        if np.shape(options[cell]) != (2,):
            raise VhdError(f"`{cell}` must be a row and a column; got {options[cell]!r}.")
        row, column = options[cell]
        return self.environment.geometry.cell(int(row), int(column))
