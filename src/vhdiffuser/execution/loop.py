"""The control loop: plan for each episode that needs it, issue one action per plan index, and evaluate each step.

`Executor` runs it for many simulated episodes at once, `Agent` for one that the caller steps. Episodes are independent:
a plan's seed depends only on (seed, episode, replan), not on the rest of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    """The interface of a planner that execution needs (see `vhdiffuser.planner.planner.Planner`)."""

    @property
    def spec(self) -> EnvSpec:
        """The environment it plans in."""
        ...

    @property
    def normalizer(self) -> Normalizer:
        """Normaliser of the planning state; success is evaluated in its units."""
        ...

    def predict_lengths(self, starts: FloatArray, goals: FloatArray) -> IntArray | None:
        """L_hat of each pair, after gamma and clipping: (B, d), (B, goal_dim) -> (B,). None if the planner chooses
        lengths while planning."""
        ...

    def plan_batch(
        self, starts: FloatArray, goals: FloatArray, lengths: IntArray | None = None, *, seeds: IntArray
    ) -> list[Plan]:
        """B plans of the given lengths, in order; the same seed gives the same plan in any batch."""
        ...


_Make = Callable[[Sequence["Episode"], FloatArray, FloatArray, IntArray], list[Plan]]
"""(episodes, states (B, d), goals (B, goal_dim), seeds (B,)) -> B plans."""


def require_planner(planner: object) -> None:
    """Raise `VhdError` unless this is a planner with a spec."""
    if not callable(getattr(planner, "plan_batch", None)) or not isinstance(getattr(planner, "spec", None), EnvSpec):
        raise VhdError(
            f"expected a planner, got {shown(planner)}. Create one with vhdiffuser.load_planner(name), or wrap "
            "your own with vhdiffuser.foreign_planner(planner, environment)."
        )


def plan_seed(seed: int, number: int, replan: int) -> int:
    """Seed of one plan: 63 bits derived from the benchmark's seed, the instance number and the replan number."""
    return int(stream("plan", seed, number, replan).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass
class Episode:
    """A running execution: observations, actions and plans so far, and the current plan index."""

    number: int
    """Episode number, part of the seeds of its plans."""
    goal: FloatArray
    """The goal (goal_dim,)."""
    observations: list[FloatArray]
    """The first observation, and one after each action."""
    actions: list[FloatArray] = field(default_factory=list)
    """Actions whose results were observed."""
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    """(control step, plan) for each plan made."""
    index: int = 0
    """Plan index of the next action."""
    phase: Phase = "waiting"
    """Whether the episode needs a plan, follows one, or has ended."""
    predicted: int | None = None
    """L_hat of the first plan; None if it was not predicted."""
    success: bool = False
    """Whether the last observation lies in the goal region."""
    planning: float = 0.0
    """Share of the planning time, in seconds."""
    control: float = 0.0
    """Share of the time in controller and simulators, in seconds."""

    @property
    def plan(self) -> Plan:
        """The current plan."""
        return self.plans[-1][1]

    @property
    def steps(self) -> int:
        """Control steps so far."""
        return len(self.actions)

    def aim(self, goal: FloatArray) -> None:
        """Set a new goal; the current plan is abandoned."""
        self.goal, self.phase, self.success = goal, "waiting", False

    def copy(self, phase: Phase) -> Episode:
        """A copy of the execution so far, to be continued separately from this phase."""
        observations, actions, plans = [*self.observations], [*self.actions], [*self.plans]
        return replace(self, observations=observations, actions=actions, plans=plans, phase=phase)

    def rollout(self, action_dim: int) -> Rollout:
        """The execution so far."""
        actions = np.stack(self.actions) if self.actions else np.zeros((0, action_dim), np.float32)
        return Rollout(np.stack(self.observations), actions, self.success, tuple(self.plans))


class Group:
    """Episodes stepped together, with arrays of what a control step needs."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        """All episodes must have plans."""
        self.episodes = list(episodes)
        self.observations = np.stack([item.observations[-1] for item in episodes])
        """(B, o) current observations."""
        self.goals = np.stack([item.goal for item in episodes])
        """(B, goal_dim) goals."""
        self.plans = [item.plan for item in episodes]
        self.lengths = np.array([plan.length for plan in self.plans])
        """(B,) lengths of the plans."""
        self.indices = np.array([item.index for item in episodes])
        """(B,) current plan indices."""
        self.steps = np.array([item.steps for item in episodes])
        """(B,) control steps so far."""

    def keep(self, rows: IntArray) -> None:
        """Keep only these rows."""
        self.episodes, self.plans = [self.episodes[row] for row in rows], [self.plans[row] for row in rows]
        for name in ("observations", "goals", "lengths", "indices", "steps"):
            setattr(self, name, getattr(self, name)[rows])


@dataclass(frozen=True)
class ControlLoop:
    """Plans, acts and evaluates for any number of episodes."""

    planner: BatchPlanner
    """The planner."""
    controller: Controller
    """The controller."""
    rule: ExecutionRule
    """When to replan and when to stop."""
    seed: int = 0
    """Seed of all plans."""
    horizon: int | None = None
    """Length of every plan; None to predict it."""
    hit: HitTest | None = None
    """Success criterion; None: the paper's."""

    def __post_init__(self) -> None:
        as_seed(self.seed)
        if self.horizon is not None:
            as_whole("length", self.horizon, least=2)
        if not callable(getattr(self.controller, "act", None)):
            raise VhdError(
                f"a controller needs a method `act`; got {shown(self.controller)}. Pass a vhdiffuser "
                "Controller, or None for the environment's own."
            )
        if not isinstance(self.rule, ExecutionRule):
            raise VhdError(
                "a rule comes from single_shot(), replan_on_deviation() or replan_every(steps); got "
                f"{shown(self.rule)}."
            )
        if self.hit is not None and not callable(self.hit):
            raise VhdError(f"hit must be a function of states (B, d) and goals (B, goal_dim); got {shown(self.hit)}.")

    def plan(self, episodes: Sequence[Episode]) -> None:
        """Make a new plan for each episode, from its current state to its goal, with a new horizon."""
        warm = self.rule.warm_start and self.horizon is None
        again = [item for item in episodes if warm and item.plans]
        anew = [item for item in episodes if not (warm and item.plans)]
        for some, make in ((anew, self._planned), (again, self._replanned)):
            if some:
                self._plan(some, make)
        # An episode may start inside its goal region: t_hit = 0, no step is taken.
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
        """The remainders of the current plans, with the pieces ahead resampled."""
        replan_batch = getattr(self.planner, "replan_batch", None)
        if replan_batch is None:
            raise VhdError(
                f"a warm start needs a planner with `replan_batch`, which {type(self.planner).__name__} lacks."
            )
        return replan_batch([item.plan for item in episodes], states, goals, seeds=seeds)

    def act(self, group: Group) -> FloatArray:
        """(B, m) actions at the current plan indices."""
        check_cancelled()
        return self.controller.act(group.observations, group.plans, group.indices)

    def advance(self, group: Group, actions: FloatArray, observations: FloatArray) -> IntArray:
        """Record one control step: (B, m) actions and the resulting (B, o) observations. Returns the rows of episodes
        that no longer follow their plans."""
        for item, action, observation in zip(group.episodes, actions, observations, strict=True):
            item.actions.append(action)
            item.observations.append(observation)
            item.index += 1
        group.observations, group.indices, group.steps = observations, group.indices + 1, group.steps + 1
        return self._evaluate(group)

    def distance_to_goal(self, episode: Episode) -> float:
        """||s - g||_inf of the last state, normalised."""
        spec = self.planner.spec
        state = spec.planning_state(episode.observations[-1])
        return float(goal_distance(spec, self.planner.normalizer.scale, state, episode.goal))

    def _evaluate(self, group: Group) -> IntArray:
        """Update success and phase of each episode from its last observation; returns the rows that no longer follow a
        plan."""
        spec, rule = self.planner.spec, self.rule
        hit = self.hit or paper_hit(spec, self.planner.normalizer.scale)
        hits = np.asarray(hit(spec.planning_state(group.observations), group.goals), bool)
        for item, reached in zip(group.episodes, hits.tolist(), strict=True):
            item.success = reached
        deviates = self._deviates(group)
        # Without a hit, a deviation, or the end of plan or budget, an episode follows its plan.
        eventful = hits | deviates | (group.indices >= np.minimum(group.lengths, rule.every or group.lengths))
        if rule.budget is not None:
            eventful |= group.steps >= rule.budget
        rows = np.flatnonzero(eventful)
        for row in rows:
            item = group.episodes[row]
            if item.phase == "following":
                item.phase = rule.phase(item.success, item.steps, item.index, item.plan.length, bool(deviates[row]))
        return rows[[group.episodes[row].phase != "following" for row in rows]] if len(rows) else rows

    def _deviates(self, group: Group) -> BoolArray:
        """Whether each tracking error is due for a check and exceeds the threshold."""
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
        """(B, d) reference states at which episodes should be now."""
        if not isinstance(self.controller, Controller):
            return reference_states(plans, indices, ahead=0)
        return self.controller.due(observations, plans, indices)
