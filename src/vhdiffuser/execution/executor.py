"""Many executions at once. Each instance has its own clock; planning is batched over all waiting episodes of a shard.

In each round of a shard, free simulators take its next instances; all episodes that need a plan get one in a single
`plan_batch` call; all that have one are tracked, one action per plan index, until more of them wait than run. Rounds
depend only on the shard's instances, so neither the number of threads or processes nor other shards, which are stepped
together with it, affect results.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

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
    """Instance number."""
    instance: Instance
    """The instance."""
    rollout: Rollout
    """The execution; replaying its actions from the instance reproduces it."""
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
    """An episode, its instance, its shard and its simulator."""

    episode: Episode
    instance: Instance
    shard: _Shard
    slot: int


@dataclass(frozen=True)
class _Parted:
    """An execution at the step where two rules diverge, to be continued under the rule that never replans."""

    episode: Episode
    instance: Instance
    state: FloatArray
    """State of its simulator."""


@dataclass(eq=False)
class _Shard:
    """Executions planned together."""

    waiting: list[tuple[int, Instance] | _Parted]
    """Executions that have not started, the next one last."""
    free: list[int] = field(default_factory=list)
    """Idle simulators of this shard."""
    running: list[_Running] = field(default_factory=list)
    """Executions that follow a plan."""
    stopped: list[_Running] = field(default_factory=list)
    """Executions that do not, in the order in which they stopped."""
    more: bool = True
    """Whether any executions were waiting to start at the beginning of the round."""

    @classmethod
    def of(cls, numbers: Sequence[int], instances: Sequence[Instance]) -> _Shard:
        """A shard of instances that have not started."""
        waiting: list[tuple[int, Instance] | _Parted] = [*zip(numbers, instances, strict=True)]
        return cls(waiting[::-1])

    @property
    def due(self) -> bool:
        """Whether more executions wait (for a plan or, if there are more, to start) than run: time for a round."""
        idle = sum(self.more or item.episode.phase == "waiting" for item in self.stopped)
        return not self.running or len(self.running) < idle


class _Team:
    """Running executions of some shards, stepped together."""

    def __init__(self) -> None:
        self.shards: list[_Shard] = []
        self.items: list[_Running] = []
        self.observations: Future[FloatArray] | None = None
        """Observations after the actions, possibly still being simulated; None if no step is in progress."""

    def gather(self) -> None:
        """Start over with all running executions."""
        self.items = [item for shard in self.shards for item in shard.running]
        if self.items:
            self.group = Group([item.episode for item in self.items])
            self.slots = np.array([item.slot for item in self.items])

    def act(self, loop: ControlLoop, simulators: Simulators, background: ThreadPoolExecutor | None) -> None:
        """Choose actions and simulate them."""
        self.actions = _checked(loop, loop.act(self.group))
        if background is not None:
            self.observations = background.submit(simulators.step, self.slots, self.actions)
        else:
            self.observations = Future()
            self.observations.set_result(simulators.step(self.slots, self.actions))

    def advance(self, loop: ControlLoop) -> list[_Running]:
        """Record the observations; removes and returns the executions that stopped."""
        assert self.observations is not None
        rows = loop.advance(self.group, self.actions, self.observations.result())
        self.observations = None
        stopped = [self.items[row] for row in rows]
        if stopped:
            kept = np.setdiff1d(np.arange(len(self.items)), rows, assume_unique=True)
            self.items, self.slots = [self.items[row] for row in kept], self.slots[kept]
            self.group.keep(kept)
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
    """Length of every plan; None to predict it."""
    hit: HitTest | None = None
    """Success criterion; None: the paper's."""
    also: ExecutionRule | None = None
    """A second rule for the same instances, which never replans. What both rules have in common is executed once. Needs
    simulators that can be saved and restored (`Simulators.savable`)."""

    def __post_init__(self) -> None:
        if (self.rule.replans or self.rule.hold) and self.rule.budget is None:
            raise VhdError("replanning and holding need a step budget here; otherwise an execution might never end.")
        if self.also is not None and not (self.simulators.savable and may_share(self.rule, self.also)):
            raise VhdError(
                "these two rules, or these simulators, cannot share executions: run the rules one after the other."
            )

    def run(self, instances: Sequence[Instance], numbers: Sequence[int] | None = None) -> Iterator[Outcome]:
        """Yield outcomes as executions end. `numbers` identify the instances and seed their plans (default: 0, 1,
        ...)."""
        for _, outcome in self.run_shards([(range(len(instances)) if numbers is None else numbers, instances)]):
            yield outcome

    def run_shards(
        self, shards: Sequence[tuple[Sequence[int], Sequence[Instance]]]
    ) -> Iterator[tuple[ExecutionRule, Outcome]]:
        """Yield (rule, outcome) as executions end. A shard is a list of numbers and of instances. Each is planned
        separately, so its outcomes do not depend on the others; as many as there are simulators for are stepped
        together."""
        loop = ControlLoop(self.planner, self.controller, self.rule, self.seed, self.horizon, self.hit)
        parted: list[_Parted] = []
        yield from self._run(loop, [_Shard.of(*shard) for shard in shards], parted)
        if self.also is not None and parted:
            yield from self._run(replace(loop, rule=self.also), [_Shard([*parted])], None)

    def _run(
        self, loop: ControlLoop, shards: Sequence[_Shard], parted: list[_Parted] | None
    ) -> Iterator[tuple[ExecutionRule, Outcome]]:
        """Outcomes of shards; executions to be continued under the second rule are added to `parted`."""
        queue = deque(shard for shard in shards if shard.waiting)
        free = list(range(self.simulators.slots))[::-1]
        teams = (_Team(), _Team())
        since = time.perf_counter()
        with ThreadPoolExecutor(1, "simulation") as background:
            while queue or any(team.shards for team in teams):
                while queue and len(free) >= (needed := min(self.simulators.slots, len(queue[0].waiting))):
                    shard = queue.popleft()
                    shard.free = [free.pop() for _ in range(needed)][::-1]
                    min(teams, key=lambda team: len(team.shards)).shards.append(shard)
                for team in teams:  # one acts while the other is simulated
                    if team.observations is not None:
                        items, stopped = team.items, team.advance(loop)
                        now = time.perf_counter()
                        for item in items:
                            item.episode.control += (now - since) / len(items)
                        since = now
                        yield from self._stop(loop, stopped, parted)
                    if due := [shard for shard in team.shards if shard.due]:
                        for shard in due:
                            yield from self._round(loop, background, shard, parted)
                            if not (shard.running or shard.stopped or shard.waiting):
                                team.shards.remove(shard)
                                free += shard.free
                        team.gather()
                        since = time.perf_counter()
                    if team.items:
                        team.act(loop, self.simulators, background if all(team.shards for team in teams) else None)

    def _round(
        self, loop: ControlLoop, background: ThreadPoolExecutor, shard: _Shard, parted: list[_Parted] | None
    ) -> Iterator[tuple[ExecutionRule, Outcome]]:
        """Outcomes of a shard's stopped executions; then start its next ones, and plan for all that need it."""
        active: list[_Running] = []
        for item in [*shard.stopped, *shard.running]:
            if item.episode.phase == "ended":
                shard.free.append(item.slot)
                yield loop.rule, self._outcome(loop, item)
            else:
                active.append(item)
        if shard.waiting and shard.free:
            active += background.submit(self._enter, shard).result()  # after the step being simulated
        if planless := [item for item in active if item.episode.phase == "waiting"]:
            loop.plan([item.episode for item in planless])
        shard.running, shard.stopped, shard.more = active, [], bool(shard.waiting)
        yield from self._stop(loop, [item for item in active if item.episode.phase != "following"], parted)

    def _stop(
        self, loop: ControlLoop, stopped: Sequence[_Running], parted: list[_Parted] | None
    ) -> Iterator[tuple[ExecutionRule, Outcome]]:
        """Handle executions that no longer follow their plans, and yield their outcomes under the second rule: up to
        here, both rules execute the first plan alike."""
        for shard in {id(item.shard): item.shard for item in stopped}.values():
            shard.stopped += [item for item in shard.running if item.episode.phase != "following"]
            shard.running = [item for item in shard.running if item.episode.phase == "following"]
        for item in stopped:
            episode = item.episode
            if self.also is None or parted is None or len(episode.plans) > 1:
                continue
            phase = self.also.phase(episode.success, episode.steps, episode.index, episode.plan.length, deviates=False)
            if phase == "ended":
                yield self.also, self._outcome(loop, item)
            else:
                state = self.simulators.save(item.slot)
                parted.append(_Parted(episode.copy(phase), item.instance, state))

    def _enter(self, shard: _Shard) -> list[_Running]:
        """Start the next executions, one per idle simulator."""
        entering = [(shard.waiting.pop(), shard.free.pop()) for _ in range(min(len(shard.waiting), len(shard.free)))]
        begun = time.perf_counter()
        new: list[_Running] = []
        anew: list[tuple[int, Instance, int]] = []
        for item, slot in entering:
            if isinstance(item, _Parted):
                self.simulators.load(slot, item.state)
                new.append(_Running(item.episode, item.instance, shard, slot))
            else:
                anew.append((*item, slot))
        if anew:
            instances, slots = [item for _, item, _ in anew], [slot for *_, slot in anew]
            observations = self.simulators.reset(slots, instances)
            share = (time.perf_counter() - begun) / len(anew)
            new += [
                _Running(Episode(number, instance.goal, [observation], control=share), instance, shard, slot)
                for (number, instance, slot), observation in zip(anew, observations, strict=True)
            ]
        return new

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


def may_share(rule: ExecutionRule, other: ExecutionRule) -> bool:
    """Whether executions are equal under both rules until the first plan is abandoned; `other` never replans."""
    ends_alike = rule.stop_at_hit == other.stop_at_hit and not rule.hold and not other.hold and other.budget is None
    return rule.replans and not other.replans and ends_alike


def _checked(loop: ControlLoop, actions: FloatArray) -> FloatArray:
    """(B, m) actions, validated."""
    spec = loop.planner.spec
    if spec.action_dim and np.shape(actions)[1:] != (spec.action_dim,):
        raise VhdError(
            f"{spec.name}: an action needs {spec.action_dim} numbers, but {type(loop.controller).__name__}.act "
            f"returned shape {np.shape(actions)[1:]}. Fix the controller, or `action_dim` of the spec."
        )
    return actions
