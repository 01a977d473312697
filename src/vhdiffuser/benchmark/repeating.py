"""Repeat the failed instances of a benchmark with the models behind its rows."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vhdiffuser.benchmark.choices import Choices
from vhdiffuser.benchmark.failures import Facts, Failure, count_kinds, failed_rows, run_again
from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.benchmark.methods import AnyChoice
from vhdiffuser.control.base import Controller
from vhdiffuser.data.motion import FastestMotion, fastest_motion
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import ClippedLengthWarning, VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.planner.foreign import ForeignPlanner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.cells import Cell, read_cell
from vhdiffuser.results.configs import FOREIGN
from vhdiffuser.weights.places import SOURCES


@dataclass(frozen=True)
class Repeated:
    """The failures of one benchmark cell, executed again."""

    environment: str
    """Name of the environment."""
    method: str
    """Name of the method or planner."""
    protocol: str
    """Protocol."""
    distribution: str
    """How the instances were drawn."""
    cell: Cell
    """Rows of the cell."""
    failures: list[Failure]
    """Failed instances, by seed and instance."""
    same_models: bool
    """Whether planner and controller are those behind the rows."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return {
            "environment": self.environment,
            "method": self.method,
            "protocol": self.protocol,
            "distribution": self.distribution,
            "seeds": list(self.cell.seeds),
            "instances": len(self.cell.rows),
            "failures": len(self.failures),
            "same_weights": self.same_models,
            "kinds": count_kinds(self.failures),
            "did_not_fail_again": [failure.name for failure in self.failures if failure.kind is None],
            "runs": [failure.to_json() for failure in self.failures],
        }


def repeat_failures(
    rows: Path,
    choices: Choices,
    protocol: str = "ss",
    distribution: str = "reset",
    *,
    speed: float | None = None,
    workers: int = 1,
    on_done: Callable[[int, int], None] | None = None,
) -> Repeated:
    """Execute the failed instances of a cell of `rows` again and classify them.

    `choices` names one method or planner, and where to look for its models first. `speed` is the robot's maximum speed
    in units per control step, without a limit on acceleration (default: the data's). `on_done` is called with the
    number of executions done and the total.
    """
    environment = get_environment(choices.environment)
    simulator = environment.require_simulator()
    (method,) = choices.names()
    cell = read_cell(rows, environment.name, method, protocol, distribution)
    total = sum(len(failed_rows(results)) for results in cell.files)
    choice, controller, same = models_behind(cell.config, choices, method)
    failures: list[Failure] = []
    if total:
        slots = min(environment.simulators, total)
        with (
            Simulators(simulator, slots, workers, environment.make()) as simulators,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", ClippedLengthWarning)  # clipped lengths count as `horizon`
            facts, env = _facts(environment, choice, speed), environment.make()
            for results in cell.files:
                for failure in run_again(results, choice.planner, controller, simulators, env, facts):
                    failures.append(failure)
                    if on_done is not None:
                        on_done(len(failures), total)
    failures.sort(key=lambda failure: (failure.seed, failure.kept.number))
    return Repeated(environment.name, method, protocol, distribution, cell, failures, same)


def models_behind(config: dict[str, Any], choices: Choices, method: str) -> tuple[AnyChoice, Controller, bool]:
    """The planner and controller behind rows, or otherwise the available ones; and whether they are the same."""
    if not choices.planners and FOREIGN in config:
        raise VhdError(f"'{method}' is not one of our methods: pass --planner {config[FOREIGN].get('reference')}.")
    # Older rows do not list all options; the planner's are used then.
    options = {key: config.get("sampler_steps" if key == "steps" else key) for key in PlanningOptions().to_json()}
    gains = {key: config["controller"].get(key) for key in ("position_gain", "velocity_gain")}
    recorded = replace(choices, options=options, controller=config["controller"]["name"], gains=gains)
    found, missing = [], None
    for source in (choices.source, *SOURCES):
        candidate = replace(recorded, source=source)
        try:
            found.append((candidate.choose(method, choices.environment), candidate.make_controller()))
        except VhdError as error:
            missing = missing or error
    for choice, controller in found:
        described, made = (json.loads(json.dumps(item.describe())) for item in (controller, choice))
        same = choice.models == config["models"] and made.get(FOREIGN) == config.get(FOREIGN)
        if same and described == config["controller"]:
            return choice, controller, True
    if not found:
        assert missing is not None
        raise missing
    return *found[0], False


def _facts(environment: Environment, choice: AnyChoice, speed: float | None) -> Facts:
    motion = _motion(environment, choice, speed)
    return Facts(
        environment=environment,
        scale=choice.planner.normalizer.scale,
        fastest=motion.speed,
        acceleration=motion.acceleration,
        geodesic=make_geodesic(environment),
    )


def _motion(environment: Environment, choice: AnyChoice, speed: float | None) -> FastestMotion:
    """Motion limits from the given speed, the planner's file, or the dataset if the file is too old to contain them."""
    if speed is not None:
        if not speed > 0:
            raise VhdError(f"the maximum speed must be > 0 units per step; got {speed}.")
        return FastestMotion(speed, float("inf"))
    assert isinstance(choice.planner, Planner | ForeignPlanner)
    spec = environment.spec
    return choice.planner.motion or fastest_motion(load_dataset(spec.name).episodes, spec)
