"""Many executions at once. Each instance has its own clock; planning is batched over all that wait.

In each round, free simulators take the next instances; all that need a plan get one in a single
`plan_batch` call; all that have one are tracked, one action per index, until more of them wait than run.
Rounds depend only on the instances, so the number of threads or worker processes does not affect results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from vhdiffuser.control.base import Controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import BatchPlanner, ControlLoop, Episode, Group
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.trajectories import Rollout
from vhdiffuser.types import FloatArray, Instance


@dataclass(frozen=True)
class Outcome:
    """One finished execution."""

    number: int
    """The instance's number."""
    instance: Instance
    """The instance."""
    rollout: Rollout
    """The execution; replaying its actions from the instance repeats it."""
    predicted_length: int | None
    """L_hat of the first plan; None if it was not predicted."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    planning_seconds: float
    """This instance's share of the planning time, in seconds."""
    control_seconds: float
    """This instance's share of the time in controller and simulators, in seconds."""


@dataclass
class _Running:
    """An episode, its instance and its simulator."""

    episode: Episode
    instance: Instance
    slot: int


_WORTH_HALVING = 256
"""Running episodes from which on two halves are faster than one whole: the controller's cost has a fixed part."""


class _Batch:
    """Running episodes that are stepped together."""

    actions: FloatArray
    observations: Future[FloatArray]
    """Their observations after the actions, still being simulated."""

    def __init__(self, items: list[_Running]) -> None:
        self.items = items
        self.group = Group([item.episode for item in items])
        self.slots = np.array([item.slot for item in items])

    def part(self) -> list[_Running]:
        """Remove and return those that no longer follow their plans."""
        following = np.array([item.episode.phase == "following" for item in self.items])
        if following.all():
            return []
        stopped = [self.items[row] for row in np.flatnonzero(~following)]
        rows = np.flatnonzero(following)
        self.items, self.slots = [self.items[row] for row in rows], self.slots[rows]
        self.group.keep(rows)
        return stopped


@dataclass(frozen=True)
class Executor:
    """Runs instances with one planner and one controller under one rule."""

    planner: BatchPlanner
    """The planner."""
    controller: Controller
    """The controller."""
    simulators: Simulators
    """The simulators."""
    rule: ExecutionRule
    """When to replan and when to stop."""
    seed: int = 0
    """Seed of all plans."""
    horizon: int | None = None
    """Length of every plan; None: predicted."""
    hit: HitTest | None = None
    """Success criterion; None: the paper's."""

    def __post_init__(self) -> None:
        if (self.rule.replans or self.rule.hold) and self.rule.budget is None:
            raise VhdError("replanning and holding need a step budget here, or an execution might never end.")

    def run(self, instances: Sequence[Instance], numbers: Sequence[int] | None = None) -> Iterator[Outcome]:
        """Outcomes as executions end; `numbers` identify the instances and seed their plans (default 0, 1, ...)"""
        loop = ControlLoop(self.planner, self.controller, self.rule, self.seed, self.horizon, self.hit)
        waiting_list = list(zip(numbers if numbers is not None else range(len(instances)), instances, strict=True))
        waiting_list.reverse()
        free = list(range(self.simulators.slots))[::-1]
        active: list[_Running] = []
        with ThreadPoolExecutor(1, "simulation") as background:
            while waiting_list or active:
                entering = [(*waiting_list.pop(), free.pop()) for _ in range(min(len(waiting_list), len(free)))]
                active += self._enter(entering)
                if planless := [item.episode for item in active if item.episode.phase == "waiting"]:
                    loop.plan(planless)
                active, ended = self._track(loop, background, active, more=bool(waiting_list))
                for item in ended:
                    free.append(item.slot)
                    yield self._outcome(loop, item)

    def _enter(self, entering: list[tuple[int, Instance, int]]) -> list[_Running]:
        if not entering:
            return []
        begun = time.perf_counter()
        instances, slots = [item for _, item, _ in entering], [slot for *_, slot in entering]
        observations = self.simulators.reset(slots, instances)
        share = (time.perf_counter() - begun) / len(entering)
        return [
            _Running(Episode(number, instance.goal, [observation], control=share), instance, slot)
            for (number, instance, slot), observation in zip(entering, observations, strict=True)
        ]

    def _track(
        self, loop: ControlLoop, background: ThreadPoolExecutor, active: list[_Running], more: bool
    ) -> tuple[list[_Running], list[_Running]]:
        """One action per index until more of them wait than run, for a plan or (if there are `more`) for an instance.

        Many are stepped in two halves: one acts while the other is simulated. Returns (active, ended).
        """
        stopped = [item for item in active if item.episode.phase != "following"]
        running = [item for item in active if item.episode.phase == "following"]
        halves = (running[::2], running[1::2]) if len(running) >= _WORTH_HALVING else (running,)
        batches = [_Batch(half) for half in halves if half]
        since = time.perf_counter()
        for batch in batches:
            self._act(loop, background, batch)
        while batches:
            batch = batches.pop(0)
            loop.advance(batch.group, batch.actions, batch.observations.result())
            now = time.perf_counter()
            for item in batch.items:
                item.episode.control += (now - since) / len(batch.items)
            since = now
            stopped += batch.part()
            idle = sum(more or item.episode.phase == "waiting" for item in stopped)
            left = len(batch.items) + sum(len(other.items) for other in batches)
            if batch.items and left >= idle and (len(halves) == 1 or left >= _WORTH_HALVING // 2):
                self._act(loop, background, batch)
                batches.append(batch)
            else:
                stopped += batch.items
        ended = [item for item in stopped if item.episode.phase == "ended"]
        return [item for item in stopped if item.episode.phase != "ended"], ended

    def _act(self, loop: ControlLoop, background: ThreadPoolExecutor, batch: _Batch) -> None:
        """Choose the actions and start to simulate them."""
        batch.actions = self._checked(loop.act(batch.group))
        if len(batch.items) < _WORTH_HALVING // 2:  # nothing else is done meanwhile, and a busy machine switches slowly
            batch.observations = Future()
            batch.observations.set_result(self.simulators.step(batch.slots, batch.actions))
        else:
            batch.observations = background.submit(self.simulators.step, batch.slots, batch.actions)

    def _checked(self, actions: FloatArray) -> FloatArray:
        """(B, m) actions, checked against the environment's m."""
        spec = self.planner.spec
        if spec.action_dim and np.shape(actions)[1:] != (spec.action_dim,):
            raise VhdError(
                f"{spec.name}: an action has {spec.action_dim} numbers, and {type(self.controller).__name__}.act gives "
                f"shape {np.shape(actions)[1:]}. Fix the controller, or `action_dim` of the spec."
            )
        return actions

    def _outcome(self, loop: ControlLoop, item: _Running) -> Outcome:
        episode = item.episode
        return Outcome(
            number=episode.number,
            instance=item.instance,
            rollout=episode.rollout(self.planner.spec.action_dim),
            predicted_length=episode.predicted,
            final_distance=loop.distance_to_goal(episode),
            planning_seconds=episode.planning,
            control_seconds=episode.control,
        )
