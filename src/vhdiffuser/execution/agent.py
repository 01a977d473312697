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
    """Duration of one call of `Agent.act`, in seconds."""

    planning: float
    """Time in the planner; 0 if no plan was made."""
    control: float
    """Time in everything else: evaluating the observation, and the controller."""

    @property
    def total(self) -> float:
        """Sum of both."""
        return self.planning + self.control


class Agent:
    """Returns one action per observation, and replans when necessary.

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
        """`controller` defaults to the environment's. `rule` defines when to replan and when to stop:
        `replan_on_deviation()` (default), `single_shot()` or `replan_every(n)`, optionally with a `budget` of control
        steps. Plans have `length` states (default: predicted) and depend on `seed`. `hit` is the success criterion
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
        """The goal (goal_dim,); None before `reset`. It can be set at any time: the next `act` replans."""
        return self._goal

    @goal.setter
    def goal(self, goal: npt.ArrayLike) -> None:
        self._goal = self._checked_goal(goal)
        if self._episode is not None:
            self._episode.aim(self._goal)

    def observe(self, observation: npt.ArrayLike) -> None:
        """Record an observation (observation_dim,) without acting, as at the end of an episode."""
        values = self._checked_observation(observation)
        if self._goal is None:
            raise VhdError("the agent has no goal: call reset(goal) before the first observation.")
        if self._episode is None:
            self._episode = Episode(self._episodes, self._goal, [values])
            self._episodes += 1
        elif self._action is None:
            self._episode.observations[-1] = values  # repeated before any action
        else:
            self._loop.advance(Group([self._episode]), self._action[None], values[None])
            self._action = None

    def act(self, observation: npt.ArrayLike) -> FloatArray:
        """Return the action (m,) for an observation (observation_dim,), which must be the result of the previous
        action.

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
        """Prepare for plans of any length, then plan and act twice (near and far) and discard the results: the first
        calls of a process are too slow for a control loop."""
        planner = self._loop.planner
        if callable(prepare := getattr(planner, "warm_up", None)):
            prepare()
        spec, normalizer = planner.spec, planner.normalizer
        for start, end in ((normalizer.center, normalizer.center), (normalizer.low, normalizer.high)):
            observation = np.zeros(spec.observation_dim, np.float32)
            observation[list(spec.state_dims)] = start
            episode = Episode(0, spec.goal_of(np.asarray(end, np.float32)), [observation])
            self._loop.plan([episode])
            self._loop.act(Group([episode]))

    @property
    def done(self) -> bool:
        """Whether the goal is reached, the budget spent, or a single-shot plan at its end. Setting a goal clears it."""
        return self._episode is not None and self._episode.phase == "ended"

    @property
    def reached(self) -> bool:
        """Whether the last observation lies in the goal region."""
        return self._episode is not None and self._episode.success

    @property
    def steps(self) -> int:
        """Number of actions since `reset` whose results were observed."""
        return 0 if self._episode is None else self._episode.steps

    @property
    def plan(self) -> Plan | None:
        """The current plan; None before the first `act`."""
        return self._episode.plan if self._episode is not None and self._episode.plans else None

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """(control step, plan) for all plans since `reset`."""
        return () if self._episode is None else tuple(self._episode.plans)

    @property
    def latencies(self) -> tuple[Latency, ...]:
        """Duration of each `act` since `reset`."""
        return tuple(self._latencies)

    def rollout(self) -> Rollout:
        """The execution since `reset`; raises `VhdError` before the first action."""
        if self._episode is None or not self._episode.plans:
            raise VhdError("no action has been taken yet: call act(observation) first.")
        return self._episode.rollout(self._loop.planner.spec.action_dim)

    def _checked_goal(self, goal: npt.ArrayLike) -> FloatArray:
        spec, values = self._loop.planner.spec, as_numbers("a goal", goal)
        if values.shape == (spec.state_dim,):
            values = spec.goal_of(values)
        if values.shape != (spec.goal_dim,) or not np.isfinite(values).all():
            names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
            raise VhdError(
                f"{spec.name}: a goal needs {spec.goal_dim} finite numbers ({names}), or a full state of "
                f"{spec.state_dim}; got {shown(goal)}."
            )
        return values

    def _checked_observation(self, observation: npt.ArrayLike) -> FloatArray:
        spec, values = self._loop.planner.spec, as_numbers("an observation", observation)
        if values.shape != (spec.observation_dim,):
            raise VhdError(
                f"{spec.name}: an observation needs {spec.observation_dim} numbers, as in the planner's "
                f"training data; got shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise VhdError(f"{spec.name}: the observation {values.tolist()} contains NaN or infinity.")
        return values
