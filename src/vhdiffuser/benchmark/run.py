"""The benchmark: every method under every protocol on the same instances of every seed, a row for each, as it goes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.geodesic import Geodesic, make_geodesic
from vhdiffuser.benchmark.methods import Method, PlannerChoice, PlannerSource, get_method
from vhdiffuser.benchmark.mismatch import plan_sheet
from vhdiffuser.benchmark.settings import BenchConfig, Setting, describe_instances, distribution, make_setting
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.checked import check_trained_for
from vhdiffuser.errors import ClippedLengthWarning
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.results.paths import plans_path, result_path, rollout_path
from vhdiffuser.results.rollout_files import KeptRollout, save_plans, save_rollout
from vhdiffuser.results.rows import Row, open_results
from vhdiffuser.results.summary import Summary, summarize_cell
from vhdiffuser.streams import STREAMS
from vhdiffuser.types import EnvSpec


def run_benchmark(
    config: BenchConfig,
    folder: Path,
    planner_for: PlannerSource,
    controller: Controller,
    on_row: Callable[[Row], None] | None = None,
    on_start: Callable[[int], None] | None = None,
) -> list[Summary]:
    """Run what is missing from `folder`; a summary per method and protocol, over the seeds asked for.

    Every name, weight file and results file is checked before anything is simulated. Rows already
    on disk are kept and not computed again; `on_start` is told how many are missing, `on_row` of each new one.
    """
    methods = [get_method(name) for name in dict.fromkeys(config.methods)]
    environment = config.environment
    simulator, geodesic = environment.require_simulator(), make_geodesic(environment)
    env = environment.make()
    protocols = tuple(dict.fromkeys(config.protocols))
    settings = {(name, seed): make_setting(name, config, env, seed) for name in protocols for seed in config.seeds}
    choices = {method.name: planner_for(method.name, environment.name) for method in methods}
    for choice in choices.values():
        check_trained_for(choice.planner.spec, environment.spec)
    runs = [
        _Run(
            config, folder, method, protocol, seed, settings[protocol, seed], choices[method.name],
            _header(config, method, protocol, seed, settings[protocol, seed], choices[method.name], controller),
        )
        for method in methods
        for protocol in protocols
        for seed in config.seeds
    ]  # fmt: skip
    missing = 0
    for run in runs:
        with open_results(run.path, run.header) as writer:
            missing += sum(number not in writer.present for number in range(len(run.setting.instances)))
    if on_start is not None:
        on_start(missing)
    rows: dict[tuple[str, str], list[Row]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedLengthWarning)  # of a thousand plans some are; rows tell which
        with Simulators(simulator, config.slots, config.workers) as simulators:
            for run in runs:
                rows.setdefault((run.method.name, run.protocol), []).extend(
                    _run_one(run, controller, simulators, geodesic, on_row)
                )
        seed = config.seeds[0]
        paper = [settings[name, seed].instances for name in ("ss", "rp") if name in protocols]
        if "vhd" in choices and paper and not plans_path(folder, environment.name).exists():
            sheet = plan_sheet(
                choices["vhd"].planner, env, environment.geometry.walls, paper[0][: max(1, config.keep)], seed
            )
            save_plans(plans_path(folder, environment.name), sheet)
    headers = {(run.method.name, run.protocol): run.header for run in runs}
    return [summarize_cell(found, headers[cell]) for cell, found in rows.items()]


@dataclass(frozen=True)
class _Run:
    """One method under one protocol on the instances of one seed."""

    config: BenchConfig
    folder: Path
    method: Method
    protocol: str
    seed: int
    setting: Setting
    choice: PlannerChoice
    header: dict[str, Any]

    @property
    def path(self) -> Path:
        drawn = distribution(self.config)
        return result_path(self.folder, self.config.environment.name, self.method.name, self.protocol, self.seed, drawn)


def _run_one(
    run: _Run,
    controller: Controller,
    simulators: Simulators,
    geodesic: Geodesic | None,
    on_row: Callable[[Row], None] | None,
) -> list[Row]:
    """Run the missing instances; all rows asked for."""
    planner, setting, config = run.choice.planner, run.setting, run.config
    executor = Executor(
        planner,
        controller,
        simulators,
        setting.rule,
        seed=run.seed,
        horizon=run.method.horizon(config.environment),
        hit=setting.hit,
    )
    with open_results(run.path, run.header) as writer:
        missing = [number for number in range(len(setting.instances)) if number not in writer.present]
        for outcome in executor.run([setting.instances[number] for number in missing], missing):
            # The rollout first: a row says that all that belongs to it is on disk.
            if outcome.number < config.keep:
                save_rollout(rollout_path(run.path, outcome.number), kept_rollout(planner.spec, outcome))
            row = _row(run, outcome, geodesic)
            writer.write(row)
            if on_row is not None:
                on_row(row)
        return [writer.present[number] for number in range(len(setting.instances))]


def _header(
    config: BenchConfig,
    method: Method,
    protocol: str,
    seed: int,
    setting: Setting,
    choice: PlannerChoice,
    controller: Controller,
) -> dict[str, Any]:
    """Everything that could change a row, and what figures need to draw it."""
    environment = config.environment
    spec = environment.spec
    return {
        "environment": spec.name,
        "method": method.name,
        "protocol": protocol,
        "seed": seed,
        "streams": STREAMS,
        "instances": describe_instances(config),
        "rule": setting.rule.to_json(),
        "epsilon": spec.epsilon,
        "scale": [float(value) for value in spec.goal_of(choice.planner.normalizer.scale)],
        "horizon": method.horizon(environment),
        **choice.describe(),
        "controller": controller.describe(),
        "state_names": list(spec.state_names),
        "goal_dims": list(spec.goal_dims),
        "walls": np.asarray(environment.geometry.walls, float).round(6).tolist(),
    }


def _row(run: _Run, outcome: Outcome, geodesic: Geodesic | None) -> Row:
    setting = run.setting
    rollout, instance = outcome.rollout, outcome.instance
    lengths = [plan.length for _, plan in rollout.plans]
    return Row(
        environment=run.config.environment.name,
        method=run.method.name,
        protocol=run.protocol,
        seed=run.seed,
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
        geodesic=None if geodesic is None else geodesic.of_instance(run.config.environment.spec, instance),
        score=None if setting.score is None else setting.score(rollout.observations, instance.goal),
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
        actions=rollout.actions,
        plans=tuple((step, spec.goal_of(plan.states)) for step, plan in rollout.plans),
    )
