"""Many executions at once. Each instance lives by its own clock; planning is done for all that wait.

A round: free simulators take the next instances; everyone who needs a plan gets it in one
`plan_batch` call; all are tracked, one action per index, until each has ended or needs a new plan.
Who is in a round follows from the instances alone, so the number of worker processes changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vhdiffuser.control.base import Controller
from vhdiffuser.envs.protocols import ExecutionRule, HitTest
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.loop import BatchPlanner, ControlLoop, Episode
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.trajectories import Rollout
from vhdiffuser.types import FloatArray, Instance


@dataclass(frozen=True)
class Outcome:
    """One finished execution."""

    number: int
    """The instance's number."""
    instance: Instance
    """What was to be done."""
    rollout: Rollout
    """What was done; a simulator reset to the instance repeats it with its actions."""
    predicted_length: int | None
    """L_hat of the first plan, None where the horizon is fixed."""
    final_distance: float
    """||s_final - g||_inf, normalised."""
    planning_seconds: float
    """This instance's share of the time spent planning."""
    control_seconds: float
    """This instance's share of the time spent in the controller and the simulators."""


@dataclass
class _Running:
    """An episode, the instance behind it and the simulator that it runs in."""

    episode: Episode
    instance: Instance
    slot: int


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

    def __post_init__(self) -> None:
        if (self.rule.replans or self.rule.hold) and self.rule.budget is None:
            raise VhdError("replanning and holding need a step budget here, or an execution might never end.")

    def run(self, instances: Sequence[Instance], numbers: Sequence[int] | None = None) -> Iterator[Outcome]:
        """Outcomes as they come; `numbers` name the instances (and seed their plans), by default 0, 1, ..."""
        loop = ControlLoop(self.planner, self.controller, self.rule, self.seed, self.horizon, self.hit)
        waiting_list = list(zip(numbers if numbers is not None else range(len(instances)), instances, strict=True))
        waiting_list.reverse()
        free = list(range(self.simulators.slots))[::-1]
        active: list[_Running] = []
        while waiting_list or active:
            entering = [(*waiting_list.pop(), free.pop()) for _ in range(min(len(waiting_list), len(free)))]
            active += self._enter(entering)
            loop.plan([item.episode for item in active])
            active, ended = self._track(loop, active)
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

    def _track(self, loop: ControlLoop, active: list[_Running]) -> tuple[list[_Running], list[_Running]]:
        """One action per index until each waits for a plan or has ended: (waiting, ended)."""
        stopped = [item for item in active if item.episode.phase != "following"]
        running = [item for item in active if item.episode.phase == "following"]
        while running:
            begun = time.perf_counter()
            episodes = [item.episode for item in running]
            actions = self._checked(loop.act(episodes))
            loop.advance(episodes, actions, self.simulators.step([item.slot for item in running], actions))
            share = (time.perf_counter() - begun) / len(running)
            for episode in episodes:
                episode.control += share
            stopped += [item for item in running if item.episode.phase != "following"]
            running = [item for item in running if item.episode.phase == "following"]
        ended = [item for item in stopped if item.episode.phase == "ended"]
        return [item for item in stopped if item.episode.phase == "waiting"], ended

    def _checked(self, actions: FloatArray) -> FloatArray:
        """(B, m) of the environment's m, or refused."""
        spec = self.planner.spec
        if spec.action_dim and np.shape(actions)[1:] != (spec.action_dim,):
            raise VhdError(
                f"{spec.name}: an action has {spec.action_dim} numbers, and {type(self.controller).__name__}.act gives "
                f"shape {np.shape(actions)[1:]}. Mend the controller, or `action_dim` of the spec."
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
