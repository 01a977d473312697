"""The weights that ship do what they are for, on a few fixed instances."""

from __future__ import annotations

from functools import partial

import pytest

from vhdiffuser import load_planner
from vhdiffuser.benchmark.instances import draw_instances
from vhdiffuser.control.base import make_controller
from vhdiffuser.envs.make import make_env
from vhdiffuser.envs.registry import SPECS
from vhdiffuser.execution.executor import Executor
from vhdiffuser.execution.rules import replan_on_deviation
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.models import shipped_environments, shipped_path

INSTANCES = {"maze2d": 20, "antmaze": 4, "cube": 6}
LEAST = {"maze2d": 0.9, "antmaze": 0.75, "cube": 0.8}
"""Replan success below which something is broken, by family."""


def test_every_environment_ships() -> None:
    assert set(shipped_environments()) == set(SPECS)


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(name, marks=() if SPECS[name].family == "maze2d" else pytest.mark.ogbench)
        for name in shipped_environments()
    ],
)
def test_shipped_weights_reach_their_goals(environment: str) -> None:
    planner = load_planner(environment, outside="ignore")
    spec = planner.spec
    instances = draw_instances(make_env(environment), INSTANCES[spec.family], seed=77, distribution="reset")
    controller = make_controller(spec, shipped_path(environment, "dynamics"))
    with Simulators(partial(make_env, environment), len(instances), workers=1) as simulators:
        executor = Executor(planner, controller, simulators, replan_on_deviation(spec.step_budget), seed=77)
        outcomes = list(executor.run(instances))
    reached = sum(outcome.rollout.success for outcome in outcomes) / len(outcomes)
    assert reached >= LEAST[spec.family], [(item.number, item.final_distance) for item in outcomes]
