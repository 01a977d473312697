"""The control loop: a plan for each episode that needs one, one action per plan index, and what follows from each step.

`Executor` runs it for many simulated episodes at once, `Agent` for one that somebody else steps. Episodes never
influence each other: a plan's seed follows from (seed, episode, replan), whatever else is in the batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vhdiffuser.arguments import as_seed, as_whole, shown
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, Phase, paper_hit
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.streams import stream
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray


class BatchPlanner(Protocol):
    """What execution asks of a planner (`vhdiffuser.planner.planner.Planner` is one)."""

    @property
    def spec(self) -> EnvSpec:
        """The environment it plans in."""
        ...

    @property
    def normalizer(self) -> Normalizer:
        """Of its planning state; success is judged in its units."""
        ...

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray:
        """L_hat of each pair, after gamma and clipping: (B, d), (B, goal_dim) -> (B,)."""
        ...

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans of the given lengths, in order; the same seed gives the same plan in any batch."""
        ...


def plan_seed(seed: int, number: int, replan: int) -> int:
    """Seed of one plan: 63 bits, from the benchmark's seed, the instance's number and the replan's."""
    return int(stream("plan", seed, number, replan).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass
class Episode:
    """One execution under way: what was seen and done so far, and where in which plan it is."""

    number: int
    """Its number: part of its plans' seeds."""
    goal: FloatArray
    """(goal_dim,) where to."""
    observations: list[FloatArray]
    """The first one, and one after each action."""
    actions: list[FloatArray] = field(default_factory=list)
    """Actions whose effect was seen."""
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    """(control step at which it was made, plan)."""
    index: int = 0
    """Index of the present plan that gets the next action."""
    phase: Phase = "waiting"
    """Whether it needs a plan, follows one or has ended."""
    predicted: int | None = None
    """L_hat of the first plan, None where the horizon is given."""
    success: bool = False
    """Whether the last observation lies in the goal region."""
    planning: float = 0.0
    """Seconds: its share of the planning."""
    control: float = 0.0
    """Seconds: its share of the controller's and the simulators' time."""

    @property
    def plan(self) -> Plan:
        """The present plan."""
        return self.plans[-1][1]

    @property
    def steps(self) -> int:
        """Control steps made."""
        return len(self.actions)

    def aim(self, goal: FloatArray) -> None:
        """Another goal from here on: the present plan is given up."""
        self.goal, self.phase, self.success = goal, "waiting", False

    def rollout(self, action_dim: int) -> Rollout:
        """What was done so far."""
        actions = np.stack(self.actions) if self.actions else np.zeros((0, action_dim), np.float32)
        return Rollout(np.stack(self.observations), actions, self.success, tuple(self.plans))


@dataclass(frozen=True)
class ControlLoop:
    """Plans, acts and judges, for any number of episodes at a time."""

    planner: BatchPlanner
    """Makes the plans."""
    controller: Controller
    """Makes the actions."""
    rule: ExecutionRule
    """Says when to plan again and when to stop."""
    seed: int = 0
    """Seed of all plans."""
    horizon: int | None = None
    """Length of every plan; None: the Length Predictor's."""
    hit: HitTest | None = None
    """Success; None: the paper's."""

    def __post_init__(self) -> None:
        as_seed(self.seed)
        if self.horizon is not None:
            as_whole("length", self.horizon, least=2)
        if not callable(getattr(self.controller, "act", None)):
            raise VhdError(
                f"a controller has a method `act`, got {shown(self.controller)}. Give a vhdiffuser Controller, or none "
                "for the environment's own."
            )
        if not isinstance(self.rule, ExecutionRule):
            raise VhdError(
                "a rule is made by single_shot(), replan_on_deviation() or replan_every(steps); got "
                f"{shown(self.rule)}."
            )
        if self.hit is not None and not callable(self.hit):
            raise VhdError(f"hit is a function of states (B, d) and goals (B, goal_dim), got {shown(self.hit)}.")

    def plan(self, episodes: Sequence[Episode]) -> None:
        """A fresh plan for each, from where it is now to its goal, with a fresh horizon."""
        begun = time.perf_counter()
        states, goals = self._states(episodes)
        if self.horizon is None:
            lengths = np.asarray(self.planner.predict_lengths(states, goals))
        else:
            lengths = np.full(len(episodes), self.horizon)
        seeds = np.array([plan_seed(self.seed, item.number, len(item.plans)) for item in episodes], np.int64)
        plans = self.planner.plan_batch(states, goals, lengths, seeds=seeds)
        share = (time.perf_counter() - begun) / len(episodes)
        for item, plan, length in zip(episodes, plans, lengths, strict=True):
            if self.horizon is None and not item.plans:
                item.predicted = int(length)
            item.plans.append((item.steps, plan))
            item.index = 0
            item.phase = "following"
            item.planning += share
        # An episode may begin inside its goal region: t_hit = 0, no step is made.
        self._evaluate(episodes)

    def act(self, episodes: Sequence[Episode]) -> FloatArray:
        """(B, m) the action of each at its plan's present index."""
        observations = np.stack([item.observations[-1] for item in episodes])
        indices = np.array([item.index for item in episodes])
        return self.controller.act(observations, [item.plan for item in episodes], indices)

    def advance(self, episodes: Sequence[Episode], actions: FloatArray, observations: FloatArray) -> None:
        """One control step: (B, m) actions led to (B, o) observations."""
        for item, action, observation in zip(episodes, actions, observations, strict=True):
            item.actions.append(action)
            item.observations.append(observation)
            item.index += 1
        self._evaluate(episodes)

    def distance_to_goal(self, episode: Episode) -> float:
        """||s - g||_inf of the last state, normalised."""
        spec = self.planner.spec
        state = spec.planning_state(episode.observations[-1])
        return float(goal_distance(spec, self.planner.normalizer.scale, state, episode.goal))

    def _evaluate(self, episodes: Sequence[Episode]) -> None:
        """Success and phase of each, after its last observation."""
        hit = self.hit or paper_hit(self.planner.spec, self.planner.normalizer.scale)
        hits = hit(*self._states(episodes))
        for item, reached, deviates in zip(episodes, hits, self._deviates(episodes), strict=True):
            item.success = bool(reached)
            if item.phase == "following":
                item.phase = self.rule.phase(item.success, item.steps, item.index, item.plan.length, bool(deviates))

    def _deviates(self, episodes: Sequence[Episode]) -> BoolArray:
        """Whether the tracking error is due for a check and above the threshold, of each."""
        result, threshold = np.zeros(len(episodes), bool), self.rule.threshold
        rows = [
            row
            for row, item in enumerate(episodes)
            if item.phase == "following" and self.rule.checks(item.index, item.plan.length)
        ]
        if rows and threshold is not None:
            spec = self.planner.spec
            states, _ = self._states([episodes[row] for row in rows])
            planned = np.stack([episodes[row].plan.states[episodes[row].index] for row in rows])
            error = goal_distance(spec, self.planner.normalizer.scale, states, spec.goal_of(planned))
            result[rows] = error > threshold
        return result

    def _states(self, episodes: Sequence[Episode]) -> tuple[FloatArray, FloatArray]:
        """(B, d) present states and (B, goal_dim) goals."""
        observations = np.stack([item.observations[-1] for item in episodes])
        return self.planner.spec.planning_state(observations), np.stack([item.goal for item in episodes])
