"""The control loop: plan for each episode that needs it, issue one action per plan index, and evaluate each step.

`Executor` runs it for many simulated episodes at once, `Agent` for one that the caller steps. Episodes are
independent: a plan's seed depends only on (seed, episode, replan), whatever else is in the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vhdiffuser.arguments import as_seed, as_whole, shown
from vhdiffuser.cancel import check_cancelled
from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, Phase, paper_hit
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.streams import stream
from vhdiffuser.trajectories import Plan, Rollout
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray


class BatchPlanner(Protocol):
    """The part of a planner that execution uses (see `vhdiffuser.planner.planner.Planner`)."""

    @property
    def spec(self) -> EnvSpec:
        """The environment it plans in."""
        ...

    @property
    def normalizer(self) -> Normalizer:
        """Normaliser of the planning state; success is decided in its units."""
        ...

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray | None:
        """L_hat of each pair, after gamma and clipping: (B, d), (B, goal_dim) -> (B,); None: it predicts none, and
        chooses the length of each plan as it makes it."""
        ...

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans of the given lengths, in order; the same seed gives the same plan in any batch."""
        ...


_Make = Callable[[Sequence["Episode"], FloatArray, FloatArray, IntArray], list[Plan]]
"""(episodes, states (B, d), goals (B, goal_dim), seeds (B,)) -> B plans."""


def require_planner(planner: object) -> None:
    """Raise `VhdError` for what is not a planner that knows its environment."""
    if not callable(getattr(planner, "plan_batch", None)) or not isinstance(getattr(planner, "spec", None), EnvSpec):
        raise VhdError(
            f"a planner is needed, got {shown(planner)}. Make one with vhdiffuser.load_planner(name), or from one of "
            "your own with vhdiffuser.foreign_planner(planner, environment)."
        )


def plan_seed(seed: int, number: int, replan: int) -> int:
    """Seed of one plan: 63 bits, from the benchmark's seed, the instance's number and the replan's."""
    return int(stream("plan", seed, number, replan).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass
class Episode:
    """A running execution: its observations, actions and plans so far, and its current plan index."""

    number: int
    """Its number, which is part of its plans' seeds."""
    goal: FloatArray
    """The goal (goal_dim,)."""
    observations: list[FloatArray]
    """The first observation, and one after each action."""
    actions: list[FloatArray] = field(default_factory=list)
    """Actions whose results were observed."""
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    """(control step at which it was made, plan)."""
    index: int = 0
    """Index of the current plan for the next action."""
    phase: Phase = "waiting"
    """Whether it needs a plan, follows one or has ended."""
    predicted: int | None = None
    """L_hat of the first plan; None if it was not predicted."""
    success: bool = False
    """Whether the last observation lies in the goal region."""
    planning: float = 0.0
    """Its share of the planning time, in seconds."""
    control: float = 0.0
    """Its share of the time in controller and simulators, in seconds."""

    @property
    def plan(self) -> Plan:
        """The current plan."""
        return self.plans[-1][1]

    @property
    def steps(self) -> int:
        """Control steps so far."""
        return len(self.actions)

    def aim(self, goal: FloatArray) -> None:
        """Set another goal; the current plan is abandoned."""
        self.goal, self.phase, self.success = goal, "waiting", False

    def rollout(self, action_dim: int) -> Rollout:
        """The execution so far."""
        actions = np.stack(self.actions) if self.actions else np.zeros((0, action_dim), np.float32)
        return Rollout(np.stack(self.observations), actions, self.success, tuple(self.plans))


class Group:
    """Episodes that are stepped together, with what a control step needs of them as arrays."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        """They must have plans."""
        self.episodes = list(episodes)
        self.observations = np.stack([item.observations[-1] for item in episodes])
        """(B, o) current."""
        self.goals = np.stack([item.goal for item in episodes])
        """(B, goal_dim)."""
        self.plans = [item.plan for item in episodes]
        self.lengths = np.array([plan.length for plan in self.plans])
        """(B,) of the plans."""
        self.indices = np.array([item.index for item in episodes])
        """(B,) current plan indices."""
        self.steps = np.array([item.steps for item in episodes])
        """(B,) control steps so far."""

    def keep(self, rows: IntArray) -> None:
        """Drop all but these rows."""
        self.episodes, self.plans = [self.episodes[row] for row in rows], [self.plans[row] for row in rows]
        for name in ("observations", "goals", "lengths", "indices", "steps"):
            setattr(self, name, getattr(self, name)[rows])


@dataclass(frozen=True)
class ControlLoop:
    """Plans, acts and evaluates, for any number of episodes at a time."""

    planner: BatchPlanner
    """The planner."""
    controller: Controller
    """The controller."""
    rule: ExecutionRule
    """When to replan and when to stop."""
    seed: int = 0
    """Seed of all plans."""
    horizon: int | None = None
    """Length of every plan; None: predicted."""
    hit: HitTest | None = None
    """Success criterion; None: the paper's."""

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
        """Make a new plan for each, from its current state to its goal, with a new horizon."""
        warm = self.rule.warm_start and self.horizon is None
        again = [item for item in episodes if warm and item.plans]
        anew = [item for item in episodes if not (warm and item.plans)]
        for some, make in ((anew, self._planned), (again, self._replanned)):
            if some:
                self._plan(some, make)
        # An episode may start inside its goal region: t_hit = 0, no step is made.
        self._evaluate(Group(episodes))

    def _plan(self, episodes: Sequence[Episode], make: _Make) -> None:
        begun = time.perf_counter()
        states = self.planner.spec.planning_state(np.stack([item.observations[-1] for item in episodes]))
        goals = np.stack([item.goal for item in episodes])
        seeds = np.array([plan_seed(self.seed, item.number, len(item.plans)) for item in episodes], np.int64)
        plans = make(episodes, states, goals, seeds)
        share = (time.perf_counter() - begun) / len(episodes)
        for item, plan in zip(episodes, plans, strict=True):
            item.plans.append((item.steps, plan))
            item.index = 0
            item.phase = "following"
            item.planning += share

    def _planned(
        self, episodes: Sequence[Episode], states: FloatArray, goals: FloatArray, seeds: IntArray
    ) -> list[Plan]:
        lengths: IntArray | None = None
        if self.horizon is not None:
            lengths = np.full(len(episodes), self.horizon)
        elif (lengths := self.planner.predict_lengths(states, goals)) is not None:
            for item, length in zip(episodes, lengths.tolist(), strict=True):
                if not item.plans:
                    item.predicted = length
        return self.planner.plan_batch(states, goals, lengths, seeds=seeds)

    def _replanned(
        self, episodes: Sequence[Episode], states: FloatArray, goals: FloatArray, seeds: IntArray
    ) -> list[Plan]:
        """What is left of their plans, the pieces ahead drawn anew."""
        replan_batch = getattr(self.planner, "replan_batch", None)
        if replan_batch is None:
            raise VhdError(f"a warm start needs a planner with `replan_batch`; {type(self.planner).__name__} has none.")
        return replan_batch([item.plan for item in episodes], states, goals, seeds=seeds)

    def act(self, group: Group) -> FloatArray:
        """(B, m) the action of each at its current plan index."""
        check_cancelled()
        return self.controller.act(group.observations, group.plans, group.indices)

    def advance(self, group: Group, actions: FloatArray, observations: FloatArray) -> None:
        """Record one control step: (B, m) actions and the resulting (B, o) observations."""
        for item, action, observation in zip(group.episodes, actions, observations, strict=True):
            item.actions.append(action)
            item.observations.append(observation)
            item.index += 1
        group.observations, group.indices, group.steps = observations, group.indices + 1, group.steps + 1
        self._evaluate(group)

    def distance_to_goal(self, episode: Episode) -> float:
        """||s - g||_inf of the last state, normalised."""
        spec = self.planner.spec
        state = spec.planning_state(episode.observations[-1])
        return float(goal_distance(spec, self.planner.normalizer.scale, state, episode.goal))

    def _evaluate(self, group: Group) -> None:
        """Update success and phase of each from its last observation."""
        spec, rule = self.planner.spec, self.rule
        hit = self.hit or paper_hit(spec, self.planner.normalizer.scale)
        hits = np.asarray(hit(spec.planning_state(group.observations), group.goals), bool)
        for item, reached in zip(group.episodes, hits.tolist(), strict=True):
            item.success = reached
        deviates = self._deviates(group)
        # Without a hit, a deviation, or the end of a plan or budget, an episode follows its plan.
        eventful = hits | deviates | (group.indices >= np.minimum(group.lengths, rule.every or group.lengths))
        if rule.budget is not None:
            eventful |= group.steps >= rule.budget
        for row in np.flatnonzero(eventful):
            item = group.episodes[row]
            if item.phase == "following":
                item.phase = rule.phase(item.success, item.steps, item.index, item.plan.length, bool(deviates[row]))

    def _deviates(self, group: Group) -> BoolArray:
        """Whether the tracking error of each is due for a check and above the threshold."""
        result, threshold = np.zeros(len(group.episodes), bool), self.rule.threshold
        if threshold is None:
            return result
        rows = np.flatnonzero(self.rule.checks(group.indices, group.lengths))
        rows = rows[[group.episodes[row].phase == "following" for row in rows]] if len(rows) else rows
        if len(rows):
            spec, observations = self.planner.spec, group.observations[rows]
            planned = self._due(observations, [group.plans[row] for row in rows], group.indices[rows])
            states = spec.planning_state(observations)
            error = goal_distance(spec, self.planner.normalizer.scale, states, spec.goal_of(planned))
            result[rows] = error > threshold
        return result

    def _due(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, d) the states of their plans at which episodes should be now."""
        if not isinstance(self.controller, Controller):
            return reference_states(plans, indices, ahead=0)
        return self.controller.due(observations, plans, indices)
