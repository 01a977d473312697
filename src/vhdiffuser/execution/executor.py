"""Many executions at once. Each instance lives by its own clock; planning is done for all that wait.

A round: free simulators take the next instances; everyone who needs a plan gets it in one
`plan_batch` call; all are tracked, one action per index, until each has ended or needs a new plan.
Who is in a round follows from the instances alone, so the number of worker processes changes
nothing, and a plan's seed follows from (seed, instance, replan), so neither does the company.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vhdiffuser.control.base import Controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest, paper_hit
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.streams import stream
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray, Plan, Rollout


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


@dataclass(frozen=True)
class Outcome:
    """One finished execution."""

    number: int
    """The instance's number."""
    instance: Instance
    """What was to be done."""
    rollout: Rollout
    """What was done."""
    actions: FloatArray
    """(steps, m) actions issued; a simulator reset to the instance repeats the rollout with them."""
    predicted_length: int | None
    """L_hat of the first plan, None where the horizon is fixed."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    planning_seconds: float
    """This instance's share of the time spent planning."""
    control_seconds: float
    """This instance's share of the time spent in the controller and the simulators."""


@dataclass
class _Episode:
    """An execution under way."""

    number: int
    instance: Instance
    slot: int
    observations: list[FloatArray]
    actions: list[FloatArray] = field(default_factory=list)
    plans: list[tuple[int, Plan]] = field(default_factory=list)
    index: int = 0
    predicted: int | None = None
    success: bool = False
    planning: float = 0.0
    control: float = 0.0

    @property
    def plan(self) -> Plan:
        return self.plans[-1][1]

    @property
    def steps(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Executor:
    """Runs instances with one planner and one controller under one rule."""

    planner: BatchPlanner
    """Makes the plans."""
    controller: Controller
    """Makes the actions."""
    simulators: Simulators
    """Make the next observations."""
    rule: ExecutionRule
    """Says when to plan again and when to stop."""
    seed: int = 0
    """Seed of all plans."""
    horizon: int | None = None
    """Length of every plan; None: the Length Predictor's."""
    hit: HitTest | None = None
    """Success; None: the paper's."""

    def run(self, instances: Sequence[Instance], numbers: Sequence[int] | None = None) -> Iterator[Outcome]:
        """Outcomes as they come; `numbers` name the instances (and seed their plans), by default 0, 1, ..."""
        waiting_list = list(zip(numbers if numbers is not None else range(len(instances)), instances, strict=True))
        waiting_list.reverse()
        free = list(range(self.simulators.slots))[::-1]
        active: list[_Episode] = []
        while waiting_list or active:
            entering = [(*waiting_list.pop(), free.pop()) for _ in range(min(len(waiting_list), len(free)))]
            active += self._enter(entering)
            self._plan(active)
            active, ended = self._track(active)
            for episode in ended:
                free.append(episode.slot)
                yield self._outcome(episode)

    def _enter(self, entering: list[tuple[int, Instance, int]]) -> list[_Episode]:
        if not entering:
            return []
        begun = time.perf_counter()
        instances, slots = [item for _, item, _ in entering], [slot for *_, slot in entering]
        observations = self.simulators.reset(slots, instances)
        share = (time.perf_counter() - begun) / len(entering)
        return [
            _Episode(number, instance, slot, [observation], control=share)
            for (number, instance, slot), observation in zip(entering, observations, strict=True)
        ]

    def _plan(self, episodes: list[_Episode]) -> None:
        """A fresh plan for each, from where it is now to its original goal, with a fresh horizon."""
        begun = time.perf_counter()
        starts = self.planner.spec.planning_state(np.stack([item.observations[-1] for item in episodes]))
        goals = np.stack([item.instance.goal for item in episodes])
        if self.horizon is None:
            lengths = np.asarray(self.planner.predict_lengths(starts, goals))
        else:
            lengths = np.full(len(episodes), self.horizon)
        seeds = np.array([plan_seed(self.seed, item.number, len(item.plans)) for item in episodes], np.int64)
        plans = self.planner.plan_batch(starts, goals, lengths, seeds=seeds)
        share = (time.perf_counter() - begun) / len(episodes)
        for item, plan, length in zip(episodes, plans, lengths, strict=True):
            if self.horizon is None and not item.plans:
                item.predicted = int(length)
            item.plans.append((item.steps, plan))
            item.index = 0
            item.planning += share

    def _track(self, episodes: list[_Episode]) -> tuple[list[_Episode], list[_Episode]]:
        """One action per index until each waits for a plan or has ended: (waiting, ended)."""
        waiting: list[_Episode] = []
        ended: list[_Episode] = []
        running: list[_Episode] = []
        # An instance may start inside its goal region: t_hit = 0, no step is issued.
        hits = self._hits(episodes)
        for item, hit in zip(episodes, hits, strict=True):
            item.success = bool(hit)
            (ended if hit and self.rule.stop_at_hit else running).append(item)
        while running:
            begun = time.perf_counter()
            observations = np.stack([item.observations[-1] for item in running])
            indices = np.array([item.index for item in running])
            actions = self.controller.act(observations, [item.plan for item in running], indices)
            observations = self.simulators.step([item.slot for item in running], actions)
            for item, action, observation in zip(running, actions, observations, strict=True):
                item.actions.append(action)
                item.observations.append(observation)
                item.index += 1
            hits = self._hits(running)
            deviates = self._deviates(running)
            share = (time.perf_counter() - begun) / len(running)
            remaining: list[_Episode] = []
            for item, hit, deviated in zip(running, hits, deviates, strict=True):
                item.control += share
                item.success = bool(hit)
                if self._has_ended(item):
                    ended.append(item)
                elif self.rule.replans and (deviated or item.index >= item.plan.length):
                    waiting.append(item)
                else:
                    remaining.append(item)
            running = remaining
        return waiting, ended

    def _has_ended(self, item: _Episode) -> bool:
        if item.success and self.rule.stop_at_hit:
            return True
        if self.rule.budget is not None and item.steps >= self.rule.budget:
            return True
        return not self.rule.replans and not self.rule.hold and item.index >= item.plan.length

    def _states(self, episodes: list[_Episode]) -> tuple[FloatArray, FloatArray]:
        """(B, d) present states and (B, goal_dim) goals."""
        observations = np.stack([item.observations[-1] for item in episodes])
        return self.planner.spec.planning_state(observations), np.stack([item.instance.goal for item in episodes])

    def _hits(self, episodes: list[_Episode]) -> np.ndarray:
        states, goals = self._states(episodes)
        hit = self.hit or paper_hit(self.planner.spec, self.planner.normalizer.scale)
        return hit(states, goals)

    def _deviates(self, episodes: list[_Episode]) -> np.ndarray:
        """Whether the tracking error is due for a check and above the threshold, of each."""
        result = np.zeros(len(episodes), bool)
        if self.rule.threshold is None:
            return result
        rows = [
            row
            for row, item in enumerate(episodes)
            if item.index % self.rule.check_every == 0 and item.index < item.plan.length
        ]
        if rows:
            spec = self.planner.spec
            states, _ = self._states([episodes[row] for row in rows])
            planned = np.stack([episodes[row].plan.states[episodes[row].index] for row in rows])
            error = goal_distance(spec, self.planner.normalizer.scale, states, spec.goal_of(planned))
            result[rows] = error > self.rule.threshold
        return result

    def _outcome(self, item: _Episode) -> Outcome:
        spec, observations = self.planner.spec, np.stack(item.observations)
        state = spec.planning_state(observations[-1])
        return Outcome(
            number=item.number,
            instance=item.instance,
            rollout=Rollout(observations, item.success, tuple(item.plans)),
            actions=np.stack(item.actions) if item.actions else np.zeros((0, spec.action_dim), np.float32),
            predicted_length=item.predicted,
            final_distance=float(goal_distance(spec, self.planner.normalizer.scale, state, item.instance.goal)),
            planning_seconds=item.planning,
            control_seconds=item.control,
        )
