"""The benchmark: every method under every protocol on the same instances, a row for each, as it goes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.methods import Method, PlannerChoice, PlannerSource, get_method
from vhdiffuser.benchmark.mismatch import plan_sheet
from vhdiffuser.benchmark.settings import BenchConfig, Setting, describe_instances, make_setting
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.errors import ClippedLengthWarning
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.simulators import EnvFactory, Simulators
from vhdiffuser.results.rows import Row, open_results
from vhdiffuser.results.sidefiles import KeptRollout, save_plans, save_rollout
from vhdiffuser.results.summary import Summary, summarize_cell
from vhdiffuser.types import EnvSpec, Instance

GeodesicDistance = Callable[[Instance], float]
"""True shortest distance of an instance, in the environment's units; used for evaluation only."""


def result_path(folder: Path, environment: str, method: str, protocol: str) -> Path:
    """Where a cell's rows are."""
    return folder / environment / f"{method}-{protocol}.jsonl"


def rollout_path(folder: Path, environment: str, method: str, protocol: str, number: int) -> Path:
    """Where a kept rollout is."""
    return folder / environment / "rollouts" / f"{method}-{protocol}-{number}.npz"


def plans_path(folder: Path, environment: str) -> Path:
    """Where the plans of Fig. 1 are."""
    return folder / environment / "plans.npz"


def run_benchmark(
    config: BenchConfig,
    folder: Path,
    make_env: EnvFactory,
    planner_for: PlannerSource,
    controller: Controller,
    geodesic: GeodesicDistance | None = None,
    on_row: Callable[[Row], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[Summary]:
    """Run what is missing from `folder` and summarise all of it.

    Every name, weight file and results file is checked before anything is simulated. Rows already
    on disk are kept and not computed again; `on_start` is told how many are missing, `on_row` of each new one.
    """
    methods = [get_method(name) for name in dict.fromkeys(config.methods)]
    env = make_env()
    settings = {name: make_setting(name, config, env) for name in dict.fromkeys(config.protocols)}
    choices = {method.name: planner_for(method.name, config.environment) for method in methods}
    cells = [
        _Cell(
            config, folder, method, protocol, setting, choices[method.name],
            _header(config, env, method, protocol, setting, choices[method.name], controller),
        )
        for method in methods
        for protocol, setting in settings.items()
    ]  # fmt: skip
    missing = 0
    for cell in cells:
        with open_results(cell.path, cell.header) as writer:
            missing += sum(number not in writer.present for number in range(len(cell.setting.instances)))
    if on_start is not None:
        on_start(missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedLengthWarning)  # of a thousand plans some are; rows tell which
        with Simulators(make_env, config.slots(env.spec.family), config.workers) as simulators:
            summaries = [_run_cell(cell, controller, simulators, geodesic, on_row) for cell in cells]
        paper = [settings[name].instances for name in ("ss", "rp") if name in settings]
        if "vhd" in choices and paper and not plans_path(folder, config.environment).exists():
            sheet = plan_sheet(choices["vhd"].planner, env, paper[0][: max(1, config.keep)], config.seed)
            save_plans(plans_path(folder, config.environment), sheet)
    return summaries


@dataclass(frozen=True)
class _Cell:
    """One method under one protocol."""

    config: BenchConfig
    folder: Path
    method: Method
    protocol: str
    setting: Setting
    choice: PlannerChoice
    header: dict[str, Any]

    @property
    def path(self) -> Path:
        return result_path(self.folder, self.config.environment, self.method.name, self.protocol)


def _run_cell(
    cell: _Cell,
    controller: Controller,
    simulators: Simulators,
    geodesic: GeodesicDistance | None,
    on_row: Callable[[Row], None] | None,
) -> Summary:
    """Run the cell's missing instances, and summarise all of it."""
    planner, setting, config = cell.choice.planner, cell.setting, cell.config
    executor = Executor(
        planner,
        controller,
        simulators,
        setting.rule,
        seed=config.seed,
        horizon=cell.method.horizon(planner.spec),
        hit=setting.hit,
    )
    with open_results(cell.path, cell.header) as writer:
        missing = [number for number in range(len(setting.instances)) if number not in writer.present]
        for outcome in executor.run([setting.instances[number] for number in missing], missing):
            # The rollout first: a row says that all that belongs to it is on disk.
            if outcome.number < config.keep:
                path = rollout_path(cell.folder, config.environment, cell.method.name, cell.protocol, outcome.number)
                save_rollout(path, kept_rollout(planner.spec, outcome))
            row = _row(cell, outcome, geodesic)
            writer.write(row)
            if on_row is not None:
                on_row(row)
        return summarize_cell([writer.present[number] for number in range(len(setting.instances))])


def _header(
    config: BenchConfig,
    env: PlanningEnv,
    method: Method,
    protocol: str,
    setting: Setting,
    choice: PlannerChoice,
    controller: Controller,
) -> dict[str, Any]:
    """Everything that could change a row, and what figures need to draw it."""
    spec = env.spec
    walls = getattr(env, "walls", None)
    return {
        "environment": config.environment,
        "method": method.name,
        "protocol": protocol,
        "seed": config.seed,
        "instances": describe_instances(config),
        "rule": asdict(setting.rule),
        "epsilon": spec.epsilon,
        "scale": [float(value) for value in spec.goal_of(choice.planner.normalizer.scale)],
        "horizon": method.horizon(spec),
        **choice.describe(),
        "controller": controller.describe(),
        "state_names": list(spec.state_names),
        "goal_dims": list(spec.goal_dims),
        "walls": [] if walls is None else np.asarray(walls, float).round(6).tolist(),
    }


def _row(cell: _Cell, outcome: Outcome, geodesic: GeodesicDistance | None) -> Row:
    setting = cell.setting
    rollout, instance = outcome.rollout, outcome.instance
    lengths = [plan.length for _, plan in rollout.plans]
    return Row(
        environment=cell.config.environment,
        method=cell.method.name,
        protocol=cell.protocol,
        seed=cell.config.seed,
        instance=outcome.number,
        start=[float(value) for value in instance.start],
        goal=[float(value) for value in instance.goal],
        predicted_length=outcome.predicted_length,
        planned_length=lengths[0],
        plan_lengths=lengths,
        replans=rollout.replans,
        success=rollout.success,
        steps=rollout.steps,
        final_distance=outcome.final_distance,
        planning_seconds=outcome.planning_seconds,
        control_seconds=outcome.control_seconds,
        geodesic=None if geodesic is None else float(geodesic(instance)),
        score=None if setting.score is None else setting.score(outcome),
        task=None if setting.tasks is None else outcome.number % setting.tasks + 1,
    )


def kept_rollout(spec: EnvSpec, outcome: Outcome) -> KeptRollout:
    """What figures and videos need of an execution."""
    rollout = outcome.rollout
    return KeptRollout(
        number=outcome.number,
        instance=outcome.instance,
        success=rollout.success,
        states=spec.planning_state(rollout.observations),
        actions=outcome.actions,
        plans=tuple((step, spec.goal_of(plan.states)) for step, plan in rollout.plans),
    )
