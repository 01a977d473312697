"""One execution in one line; the benchmark does the same for many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhdiffuser.control.base import Controller, make_controller
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.make import make_env
from vhdiffuser.envs.registry import SPECS
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.execution.executor import BatchPlanner, Executor
from vhdiffuser.execution.rules import replan_on_deviation, single_shot
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.types import EnvSpec, Instance, Rollout
from vhdiffuser.weights.places import find_model


def execute(
    planner: BatchPlanner,
    start: npt.ArrayLike,
    goal: npt.ArrayLike,
    protocol: str = "rp",
    *,
    seed: int = 0,
    length: int | None = None,
    env: PlanningEnv | None = None,
    controller: Controller | None = None,
) -> Rollout:
    """Plan from `start` (d,) to `goal` (goal_dim,) and follow the plan, one action per index.

    `protocol` is `ss` (single-shot: one plan, to its end) or `rp` (replan-on-deviation, until the goal is
    reached or the step budget is spent); `seed` fixes the plans and what the start leaves open. Every plan has
    `length` states, or as many as the Length Predictor says. `env` and `controller` are the environment's own unless
    given; a simulator of yours needs both.

    >>> rollout = execute(planner, [1, 1, 0, 0], [7, 9])             # doctest: +SKIP
    >>> rollout.success, rollout.steps, rollout.replans              # doctest: +SKIP
    """
    rules = {"ss": single_shot(), "rp": replan_on_deviation(planner.spec.step_budget)}
    if protocol not in rules:
        raise UnknownNameError("protocol", protocol, list(rules))
    if env is None:
        if planner.spec.name not in SPECS:
            raise VhdError(f"{planner.spec.name} has no simulator of ours: give `env`, a PlanningEnv of your own.")
        env = make_env(planner.spec.name)
    simulator = env
    instance = Instance(np.asarray(start, np.float32), np.asarray(goal, np.float32), seed)
    simulator.check(instance)
    controller = controller or default_controller(planner.spec)
    with Simulators(lambda: simulator, slots=1, workers=1) as simulators:
        (outcome,) = Executor(planner, controller, simulators, rules[protocol], seed, length).run([instance])
    return outcome.rollout


def default_controller(spec: EnvSpec) -> Controller:
    """The environment's controller, with the inverse dynamics model that you trained or that ships."""
    return make_controller(spec, find_model(spec.name, "dynamics") if spec.controller == "inverse_dynamics" else None)
