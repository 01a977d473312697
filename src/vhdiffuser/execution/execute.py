"""One execution in one line; the benchmark does the same for many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhdiffuser.control.base import Controller, make_controller
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.protocols import replan_on_deviation, single_shot
from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.execution.executor import BatchPlanner, Executor
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.types import Instance, Rollout
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
    environment = find_environment(planner.spec.name) or Environment(planner.spec)
    rules = {"ss": single_shot(), "rp": replan_on_deviation(environment.step_budget)}
    if protocol not in rules:
        raise UnknownNameError("protocol", protocol, list(rules))
    if env is None:
        if environment.simulator is None:
            raise VhdError(f"{environment.name} has no registered simulator: give `env`, a PlanningEnv of your own.")
        env = environment.make()
    simulator = env
    instance = Instance(np.asarray(start, np.float32), np.asarray(goal, np.float32), seed)
    simulator.check(instance)
    controller = controller or default_controller(environment)
    with Simulators(lambda: simulator, slots=1, workers=1) as simulators:
        (outcome,) = Executor(planner, controller, simulators, rules[protocol], seed, length).run([instance])
    return outcome.rollout


def default_controller(environment: Environment) -> Controller:
    """The environment's controller, with the inverse dynamics model that you trained or that ships."""
    learned = environment.controller == "inverse_dynamics"
    model = find_model(environment.name, "dynamics") if learned else None
    return make_controller(environment.controller, environment.spec, model)
