"""One's own control loop: somebody else steps the robot, the agent says what to do next."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, shown
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, replan_on_deviation
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import BatchPlanner, ControlLoop, Episode
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import FloatArray


class Latency(NamedTuple):
    """Seconds that one call of `Agent.act` took."""

    planning: float
    """In the planner; 0 where the plan was kept."""
    control: float
    """In all the rest: judging the observation, and the controller."""

    @property
    def total(self) -> float:
        """Both."""
        return self.planning + self.control


class Agent:
    """Plans when it must, and answers each observation with one action.

    >>> agent = Agent(planner)                                       # doctest: +SKIP
    >>> agent.reset(goal=[7, 9])                                     # doctest: +SKIP
    >>> action = agent.act(observation)                              # doctest: +SKIP
    >>> while not agent.done:                                        # doctest: +SKIP
    ...     action = agent.act(robot.step(action))

    Call `act` once a control step (`planner.spec.control_dt` seconds): each index of a plan gets exactly one action.
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
        """The controller is the environment's own unless given. `rule` says when to plan again and when to give up:
        `replan_on_deviation()` unless told, `single_shot()` or `replan_every(n)`; with a `budget` of control steps,
        or without an end. Plans have `length` states, or as many as the Length Predictor says; `seed` fixes them.
        `hit` judges success; the paper's goal region unless told."""
        if not hasattr(planner, "plan_batch"):
            raise VhdError(
                f"an agent needs a planner, got {shown(planner)}. Make one with vhdiffuser.load_planner(name)."
            )
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
        """Begin anew: the next observation is the first of an episode with this goal (goal_dim,)."""
        self._goal = self._checked_goal(goal)
        self._episode, self._action, self._latencies = None, None, []

    @property
    def goal(self) -> FloatArray | None:
        """(goal_dim,) where to; None before `reset`. Set it at any time: the next `act` plans for the new one."""
        return self._goal

    @goal.setter
    def goal(self, goal: npt.ArrayLike) -> None:
        self._goal = self._checked_goal(goal)
        if self._episode is not None:
            self._episode.aim(self._goal)

    def observe(self, observation: npt.ArrayLike) -> None:
        """Take in an observation (observation_dim,) without acting on it: the last one of an episode."""
        values = self._checked_observation(observation)
        if self._goal is None:
            raise VhdError("the agent has no goal: call reset(goal) before the first observation.")
        if self._episode is None:
            self._episode = Episode(self._episodes, self._goal, [values])
            self._episodes += 1
        elif self._action is None:
            self._episode.observations[-1] = values  # seen again before any action
        else:
            self._loop.advance([self._episode], self._action[None], values[None])
            self._action = None

    def act(self, observation: npt.ArrayLike) -> FloatArray:
        """The action (m,) that answers an observation (observation_dim,): the result of the action before.

        When the agent is `done` it follows its plan to the end and holds the last state, and does not plan again.
        """
        begun = time.perf_counter()
        self.observe(observation)
        assert self._episode is not None
        before = self._episode.planning
        if self._episode.phase == "waiting":
            self._loop.plan([self._episode])
        self._action = self._loop.act([self._episode])[0]
        planning = self._episode.planning - before
        self._latencies.append(Latency(planning, time.perf_counter() - begun - planning))
        return self._action

    def warm_up(self) -> None:
        """Plan and act once for nothing: the first call of a network is slow, and a control loop cannot wait."""
        spec = self._loop.planner.spec
        center = np.asarray(self._loop.planner.normalizer.center, np.float32)
        observation = np.zeros(spec.observation_dim, np.float32)
        observation[list(spec.state_dims)] = center
        episode = Episode(0, spec.goal_of(center), [observation])
        self._loop.plan([episode])
        self._loop.act([episode])

    @property
    def done(self) -> bool:
        """Whether the goal is reached, the budget spent, or a single plan at its end; until a goal is set."""
        return self._episode is not None and self._episode.phase == "ended"

    @property
    def reached(self) -> bool:
        """Whether the last observation lies in the goal region."""
        return self._episode is not None and self._episode.success

    @property
    def steps(self) -> int:
        """Actions since `reset` whose result was observed."""
        return 0 if self._episode is None else self._episode.steps

    @property
    def plan(self) -> Plan | None:
        """The plan being followed; None before the first `act`."""
        return self._episode.plan if self._episode is not None and self._episode.plans else None

    @property
    def plans(self) -> tuple[tuple[int, Plan], ...]:
        """(control step at which it was made, plan) of all plans since `reset`."""
        return () if self._episode is None else tuple(self._episode.plans)

    @property
    def latencies(self) -> tuple[Latency, ...]:
        """Seconds of each `act` since `reset`."""
        return tuple(self._latencies)

    def rollout(self) -> Rollout:
        """What was seen and done since `reset`."""
        if self._episode is None or not self._episode.plans:
            raise VhdError("nothing was done yet: call act(observation) first.")
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
