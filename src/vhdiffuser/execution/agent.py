"""An agent for your own control loop: you step the robot, the agent returns the next action."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, shown
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, replan_on_deviation
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import BatchPlanner, ControlLoop, Episode, Group, require_planner
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import FloatArray


class Latency(NamedTuple):
    """Seconds that one call of `Agent.act` took."""

    planning: float
    """In the planner; 0 if the plan was kept."""
    control: float
    """In everything else: evaluating the observation, and the controller."""

    @property
    def total(self) -> float:
        """Both."""
        return self.planning + self.control


class Agent:
    """Replans when necessary, and returns one action per observation.

    >>> agent = Agent(planner)                                       # doctest: +SKIP
    >>> agent.reset(goal=[7, 9])                                     # doctest: +SKIP
    >>> action = agent.act(observation)                              # doctest: +SKIP
    >>> while not agent.done:                                        # doctest: +SKIP
    ...     action = agent.act(robot.step(action))

    Call `act` once per control step (`planner.spec.control_dt` seconds): each index of a plan gets exactly one action.
    """

    def __init__(
        self,
        planner: BatchPlanner,
        controller: Controller | None = None,
        rule: ExecutionRule | None = None,
        *,
        seed: int = 0,
        length: int | None = None,
        hit: HitTest | None = None,
    ) -> None:
        """The controller defaults to the environment's. `rule` says when to replan and when to stop:
        `replan_on_deviation()` (default), `single_shot()` or `replan_every(n)`, with or without a `budget` of control
        steps. Plans have `length` states, or the predicted length; `seed` fixes them. `hit` is the success criterion
        (default: the paper's goal region)."""
        require_planner(planner)
        self._loop = ControlLoop(
            planner,
            default_controller(planner.spec) if controller is None else controller,
            replan_on_deviation() if rule is None else rule,
            seed,
            length,
            hit,
        )
        self._goal: FloatArray | None = None
        self._episode: Episode | None = None
        self._action: FloatArray | None = None
        self._episodes = 0
        self._latencies: list[Latency] = []

    def reset(self, goal: npt.ArrayLike) -> None:
        """Start a new episode with this goal (goal_dim,); the next observation is its first."""
        self._goal = self._checked_goal(goal)
        self._episode, self._action, self._latencies = None, None, []

    @property
    def goal(self) -> FloatArray | None:
        """The goal (goal_dim,), or None before `reset`. May be set at any time: the next `act` replans."""
        return self._goal

    @goal.setter
    def goal(self, goal: npt.ArrayLike) -> None:
        self._goal = self._checked_goal(goal)
        if self._episode is not None:
            self._episode.aim(self._goal)

    def observe(self, observation: npt.ArrayLike) -> None:
        """Record an observation (observation_dim,) without acting on it: the last one of an episode."""
        values = self._checked_observation(observation)
        if self._goal is None:
            raise VhdError("the agent has no goal: call reset(goal) before the first observation.")
        if self._episode is None:
            self._episode = Episode(self._episodes, self._goal, [values])
            self._episodes += 1
        elif self._action is None:
            self._episode.observations[-1] = values  # seen again before any action
        else:
            self._loop.advance(Group([self._episode]), self._action[None], values[None])
            self._action = None

    def act(self, observation: npt.ArrayLike) -> FloatArray:
        """The action (m,) for an observation (observation_dim,), which is the result of the previous action.

        Once `done`, the agent follows its plan to the end, holds the last state, and does not replan.
        """
        begun = time.perf_counter()
        self.observe(observation)
        assert self._episode is not None
        before = self._episode.planning
        if self._episode.phase == "waiting":
            self._loop.plan([self._episode])
        self._action = self._loop.act(Group([self._episode]))[0]
        planning = self._episode.planning - before
        self._latencies.append(Latency(planning, time.perf_counter() - begun - planning))
        return self._action

    def warm_up(self) -> None:
        """Plan and act twice and discard the results: a network's first call is too slow for a control loop.

        Once near and once far, because short and long plans are computed by different graphs.
        """
        spec, normalizer = self._loop.planner.spec, self._loop.planner.normalizer
        for start, end in ((normalizer.center, normalizer.center), (normalizer.low, normalizer.high)):
            observation = np.zeros(spec.observation_dim, np.float32)
            observation[list(spec.state_dims)] = start
            episode = Episode(0, spec.goal_of(np.asarray(end, np.float32)), [observation])
            self._loop.plan([episode])
            self._loop.act(Group([episode]))

    @property
    def done(self) -> bool:
        """Whether the goal is reached, the budget spent, or a single plan at its end. Setting a goal resets it."""
        return self._episode is not None and self._episode.phase == "ended"

    @property
    def reached(self) -> bool:
        """Whether the last observation lies in the goal region."""
        return self._episode is not None and self._episode.success

    @property
    def steps(self) -> int:
        """Actions since `reset` whose results were observed."""
        return 0 if self._episode is None else self._episode.steps

    @property
    def plan(self) -> Plan | None:
        """The plan being followed; None before the first `act`."""
        return self._episode.plan if self._episode is not None and self._episode.plans else None

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """(control step at which it was made, plan) for all plans since `reset`."""
        return () if self._episode is None else tuple(self._episode.plans)

    @property
    def latencies(self) -> tuple[Latency, ...]:
        """Seconds of each `act` since `reset`."""
        return tuple(self._latencies)

    def rollout(self) -> Rollout:
        """Observations, actions and plans since `reset`."""
        if self._episode is None or not self._episode.plans:
            raise VhdError("no action was taken yet: call act(observation) first.")
        return self._episode.rollout(self._loop.planner.spec.action_dim)

    def _checked_goal(self, goal: npt.ArrayLike) -> FloatArray:
        spec, values = self._loop.planner.spec, as_numbers("a goal", goal)
        if values.shape == (spec.state_dim,):
            values = spec.goal_of(values)
        if values.shape != (spec.goal_dim,) or not np.isfinite(values).all():
            names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
            raise VhdError(
                f"{spec.name}: a goal needs the {spec.goal_dim} finite numbers {names}, or a whole state of "
                f"{spec.state_dim}; got {shown(goal)}."
            )
        return values

    def _checked_observation(self, observation: npt.ArrayLike) -> FloatArray:
        spec, values = self._loop.planner.spec, as_numbers("an observation", observation)
        if values.shape != (spec.observation_dim,):
            raise VhdError(
                f"{spec.name}: an observation has {spec.observation_dim} numbers, as in the data that the planner was "
                f"trained on; got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise VhdError(f"{spec.name}: the observation {values.tolist()} holds NaN or infinity.")
        return values
