"""Drive any Gymnasium environment with an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, replan_on_deviation
from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.agent import Agent
from vhdiffuser.execution.loop import BatchPlanner
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import FloatArray, IntArray


def drive(
    planner: BatchPlanner,
    env: gymnasium.Env[Any, Any],
    goal: npt.ArrayLike | None = None,
    controller: Controller | None = None,
    rule: ExecutionRule | None = None,
    *,
    max_steps: int | None = None,
    observation_of: Callable[[Any], npt.ArrayLike] | None = None,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    length: int | None = None,
    hit: HitTest | None = None,
) -> Rollout:
    """Reset a Gymnasium environment and drive it to `goal` (goal_dim,); actions are clipped to its action space.

    The episode ends when the goal is first reached, after `max_steps` (default: the planner's step budget), at the end
    of a single-shot plan, or when the environment terminates or truncates. Without `goal`, the observation's
    `desired_goal` or `info["goal"]` is used, and tracked if it moves. `observation_of` converts the environment's
    observation to the planner's; a dict with an `observation` needs no conversion. `seed` seeds environment and plans,
    `options` are passed to `env.reset`, and the other arguments are those of `Agent`. Raises `VhdError` if actions or
    observations do not fit.

    >>> env = gymnasium.make("vhdiffuser/Maze2d-umaze-v1")                                     # doctest: +SKIP
    >>> drive(vhdiffuser.load_planner("maze2d-umaze"), env, goal=[3, 1])                        # doctest: +SKIP
    """
    space = env.action_space
    if not isinstance(space, gymnasium.spaces.Box):
        raise VhdError(f"the environment's action space is {space}; executing plans needs a continuous one (a Box).")
    controller = default_controller(planner.spec) if controller is None else controller
    rule = replan_on_deviation() if rule is None else rule
    budget = rule.budget if max_steps is None else max_steps
    budget = environment_of(planner.spec).step_budget if budget is None else budget
    agent = Agent(
        planner,
        _Clipped(controller, space.low, space.high),
        replace(rule, budget=budget),
        seed=seed,
        length=length,
        hit=hit,
    )
    seen, info = env.reset(seed=seed, options=options)
    wanted = _goal_in(seen, info) if goal is None else goal
    if wanted is None:
        raise VhdError(
            'the environment gives no goal (`desired_goal` in observations, or `info["goal"]`): pass `goal`.'
        )
    agent.reset(wanted)
    action = agent.act(_observation(seen, observation_of))
    while not agent.done:
        seen, _, terminated, truncated, info = env.step(action)
        moved = _goal_in(seen, info) if goal is None else None
        if moved is not None and not np.array_equal(moved, agent.goal):  # type: ignore[arg-type]
            agent.goal = moved
        if terminated or truncated:
            agent.observe(_observation(seen, observation_of))
            break
        action = agent.act(_observation(seen, observation_of))
    return agent.rollout()


@dataclass(frozen=True)
class _Clipped(Controller):
    """A controller with actions clipped to the action space, in its shape and dtype."""

    controller: Controller
    low: npt.NDArray[Any]
    high: npt.NDArray[Any]

    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """The controller's action, clipped."""
        actions = self.controller.act(observations, plans, indices)
        if actions.shape[1:] != self.low.shape:
            raise VhdError(
                f"the controller's actions have shape {actions.shape[1:]}, but the environment expects "
                f"{self.low.shape}. Pass a `controller` made for this environment."
            )
        return np.clip(actions, self.low, self.high).astype(self.low.dtype)

    def describe(self) -> dict[str, Any]:
        """The controller's description."""
        return self.controller.describe()


def _goal_in(seen: Any, info: Mapping[str, Any]) -> FloatArray | None:
    """The environment's own goal: `desired_goal` in Gymnasium-Robotics, `info["goal"]` in our tasks."""
    told = seen.get("desired_goal") if isinstance(seen, Mapping) else None
    told = info.get("goal") if told is None else told
    return None if told is None else np.asarray(told, np.float32)


def _observation(seen: Any, observation_of: Callable[[Any], npt.ArrayLike] | None) -> npt.ArrayLike:
    if observation_of is not None:
        return observation_of(seen)
    if not isinstance(seen, Mapping):
        return np.asarray(seen)
    if "observation" not in seen:
        raise VhdError(
            f"the environment's observations have {', '.join(map(str, seen))}: pass `observation_of`, a "
            "function that converts them to the planner's observation."
        )
    return np.asarray(seen["observation"])
