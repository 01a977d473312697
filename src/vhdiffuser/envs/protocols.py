"""The execution protocols, as rules for when an execution replans or ends.

Strict synchronisation: the planning step is the control step, and each of a plan's L indices gets exactly one action,
so a plan that never reaches the goal is executed for L steps: the paper's l = min{L_hat, t_hit}. The action at index t
aims at state t+1; at the last index, at the goal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from vhdiffuser.arguments import as_whole, shown
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.success import reached
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, Instance, IntArray

THRESHOLD = 0.1
"""Tracking error (normalised, infinity norm) above which replan-on-deviation replans."""
CHECK_EVERY = 10
"""Control steps between checks of the tracking error."""

HitTest = Callable[[FloatArray, FloatArray], BoolArray]
"""(B, d) states, (B, goal_dim) goals -> (B,) bool."""

Phase = Literal["waiting", "following", "ended"]
"""Phase of an execution: it needs a plan, follows one, or has ended."""


def paper_hit(spec: EnvSpec, scale: FloatArray) -> HitTest:
    """Membership in the paper's goal region G_eps(g)."""
    return lambda states, goals: reached(spec, scale, states, goals)


@dataclass(frozen=True)
class ExecutionRule:
    """When an execution replans, and when it ends."""

    threshold: float | None = None
    """Replan when the tracking error (normalised, infinity norm over the goal dimensions) exceeds this; None for
    never."""
    check_every: int = 1
    """Control steps of a plan between checks of the tracking error."""
    budget: int | None = None
    """Maximum number of control steps; None for no limit (without replanning, the plan's length)."""
    stop_at_hit: bool = True
    """Whether the first hit ends the execution (always so in the paper)."""
    hold: bool = False
    """Whether a plan's last state is held after its end, until the budget (D4RL's fixed-length episodes)."""
    every: int | None = None
    """Replan after this many control steps of a plan, regardless of deviation; None for never."""
    warm_start: bool = False
    """Whether replanning resamples only the pieces ahead and keeps the rest of a composed plan."""

    def __post_init__(self) -> None:
        if self.threshold is not None and not (isinstance(self.threshold, int | float) and self.threshold > 0):
            raise VhdError(f"the replanning threshold must be a number > 0; got {shown(self.threshold)}.")
        as_whole("check_every (steps between checks of the tracking error)", self.check_every, least=1)
        if self.budget is not None:
            as_whole("budget (control steps in all)", self.budget, least=1)
        if self.every is not None:
            as_whole("every (control steps until the next plan)", self.every, least=1)

    @property
    def replans(self) -> bool:
        """Whether the rule ever replans."""
        return self.threshold is not None or self.every is not None

    def checks(self, indices: IntArray, lengths: IntArray) -> BoolArray:
        """(B,) whether the tracking error is checked at these indices (B,) of plans with these lengths (B,)."""
        return (indices > 0) & (indices < lengths) & (indices % self.check_every == 0)

    def phase(self, hit: bool, steps: int, index: int, length: int, deviates: bool) -> Phase:
        """The next phase after `steps` actions in total, `index` of them from a plan of `length` states."""
        if (hit and self.stop_at_hit) or (self.budget is not None and steps >= self.budget):
            return "ended"
        if not self.replans:
            return "ended" if index >= length and not self.hold else "following"
        due = self.every is not None and index >= self.every
        return "waiting" if deviates or due or index >= length else "following"

    def to_json(self) -> dict[str, Any]:
        """As recorded in results. `every` and `warm_start` are omitted if unused: older results do not have them."""
        values, unused = asdict(self), {"every": None, "warm_start": False}
        return {key: value for key, value in values.items() if key not in unused or value != unused[key]}


@dataclass(frozen=True)
class Protocol:
    """How another benchmark draws, runs and scores episodes."""

    instances: Callable[[PlanningEnv, int, int], list[Instance]]
    """(simulator, n, seed) -> n test cases."""
    rule: Callable[[float, int], ExecutionRule]
    """(threshold, steps between checks) -> rule; a protocol may ignore both."""
    hit: HitTest
    """Success."""
    score: Callable[[FloatArray, FloatArray], float] | None = None
    """(observations (steps + 1, o), goal) -> score of an episode."""
    gamma: float | None = None
    """Margin on the predicted length for published rows (default: the planner's)."""
    tasks: int | None = None
    """Number of tasks; instance i belongs to task (i modulo this) + 1."""


def euclidean_hit(spec: EnvSpec, radius: float) -> HitTest:
    """Euclidean distance over the goal dimensions, in the environment's units."""
    return partial(_within, spec, radius)  # not a local function: environments are sent to worker processes


def _within(spec: EnvSpec, radius: float, states: FloatArray, goals: FloatArray) -> BoolArray:
    return np.linalg.norm(spec.goal_of(states) - goals, axis=-1) <= radius


def single_shot() -> ExecutionRule:
    """One plan, tracked to its end or until the goal is reached."""
    return ExecutionRule()


def replan_on_deviation(
    budget: int | None = None,
    threshold: float = THRESHOLD,
    check_every: int = CHECK_EVERY,
    *,
    warm_start: bool = False,
) -> ExecutionRule:
    """Replan on deviation, or when a plan ends short of the goal; until the goal is reached or the budget is spent."""
    return ExecutionRule(threshold=threshold, check_every=check_every, budget=budget, warm_start=warm_start)


def replan_every(steps: int, budget: int | None = None, *, warm_start: bool = False) -> ExecutionRule:
    """Replan every `steps` control steps, or when a plan ends; until the goal is reached or the budget is spent."""
    return ExecutionRule(every=steps, budget=budget, warm_start=warm_start)


def paper_rule(
    protocol: str, budget: int, threshold: float = THRESHOLD, check_every: int = CHECK_EVERY
) -> ExecutionRule:
    """The paper's protocols: `ss`, single-shot, or `rp`, replan-on-deviation."""
    rules = {"ss": single_shot(), "rp": replan_on_deviation(budget, threshold, check_every)}
    if not isinstance(protocol, str) or protocol not in rules:
        raise UnknownNameError("protocol", str(protocol), list(rules))
    return rules[protocol]


def fixed_episode(steps: int) -> ExecutionRule:
    """One plan, its last state held; every episode lasts `steps` steps, hit or not."""
    return ExecutionRule(budget=steps, stop_at_hit=False, hold=True)
