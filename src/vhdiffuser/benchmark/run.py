"""The benchmark: each method under each protocol on the same instances, one row per execution.

Instances are executed in shards of `BenchConfig.shard`, always whole: the last bits of a plan depend on the batch in
which it is computed, so the rows of a shard are the same wherever and whenever it is run.
"""

from __future__ import annotations

import json
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.geodesic import Geodesic, make_geodesic
from vhdiffuser.benchmark.methods import AnyChoice, Method, PlannerSource
from vhdiffuser.benchmark.mismatch import plan_sheet
from vhdiffuser.benchmark.settings import BenchConfig, Setting, describe_instances, distribution, make_setting
from vhdiffuser.cluster import run_on_ray
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.checked import check_trained_for
from vhdiffuser.envs.success import goal_distance
from vhdiffuser.errors import ClippedLengthWarning, DataError
from vhdiffuser.execution.executor import Executor, Outcome
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.results.configs import differences
from vhdiffuser.results.paths import plans_path, result_path, rollout_path
from vhdiffuser.results.rollout_files import KeptRollout, load_plans, save_plans, save_rollout
from vhdiffuser.results.rows import Row, RowWriter, open_results
from vhdiffuser.results.summary import Summary, summarize_cell
from vhdiffuser.streams import STREAMS
from vhdiffuser.trajectories import Rollout
from vhdiffuser.types import EnvSpec, FloatArray

_SHEET_PAIRS = 100
"""Instances among which the pair of Fig. 1 is chosen."""


def run_benchmark(
    config: BenchConfig,
    folder: Path,
    planner_for: PlannerSource,
    controller: Controller,
    on_row: Callable[[Row], None] | None = None,
    on_start: Callable[[int], None] | None = None,
    cluster: Cluster | None = None,
) -> list[Summary]:
    """Run what is missing from `folder`; returns a summary per method and protocol, over all given seeds.

    All names, weight files and results files are checked before anything is simulated. Rows already
    on disk are kept; `on_start` receives the number of missing rows, `on_row` each new row. A `cluster` executes
    the shards on its nodes; the rows are written here.
    """
    bench = _Bench(config, folder, planner_for, controller)
    runs, env, environment = bench.runs, bench.env, config.environment
    with ExitStack() as files, warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedLengthWarning)  # rows show which lengths were clipped
        writers = {run: files.enter_context(open_results(run.path, run.header)) for run in runs}
        if on_start is not None:
            on_start(sum(len(run.setting.instances) - len(run.present(writer)) for run, writer in writers.items()))
        shards = [
            (number, numbers)
            for number, run in enumerate(runs)
            for numbers in run.shards
            if not run.present(writers[run]) >= set(numbers)
        ]
        for number, executed in bench.execute(shards) if cluster is None else _on_cluster(cluster, bench, shards):
            run, writer = runs[number], writers[runs[number]]
            for row, kept in executed:
                if row.instance in writer.present:
                    continue
                # The rollout first: a row implies that everything belonging to it is on disk.
                if kept is not None:
                    save_rollout(rollout_path(run.path, row.instance), kept)
                writer.write(row)
                if on_row is not None:
                    on_row(row)
        rows: dict[tuple[str, str], list[Row]] = {}
        for run, writer in writers.items():
            found = [writer.present[number] for number in range(len(run.setting.instances))]
            rows.setdefault((run.method.name, run.protocol), []).extend(found)
        seed = config.seeds[0]
        paper = [bench.settings[name, seed].instances for name in ("ss", "rp") if name in config.protocols]
        choices, methods = bench.choices, {run.method.name: run.method for run in runs}
        fixed = {
            H: choices[name].planner
            for name, method in methods.items()
            if (H := method.horizon(environment)) is not None
        }
        own = fixed if len(fixed) == 3 else None
        sheet = plans_path(folder, environment.name)
        # Planners of their own horizons replace a sheet that VHD drew alone.
        due = not sheet.exists() or (own is not None and load_plans(sheet).planner != "")
        if config.keep and "vhd" in choices and paper and due:
            pairs, walls = paper[0][:_SHEET_PAIRS], environment.geometry.walls
            save_plans(sheet, plan_sheet(choices["vhd"].planner, env, walls, pairs, seed, own))
    headers = {(run.method.name, run.protocol): run.header for run in runs}
    return [summarize_cell(found, headers[cell]) for cell, found in rows.items()]


@dataclass(frozen=True)
class Cluster:
    """Where shards are executed, and how a node there makes planners and controller, with its copy of the weights."""

    address: str
    """`auto`, or the address of a Ray cluster."""
    planner_for: PlannerSource
    """Makes the planners. Importable: it is sent to the nodes."""
    make_controller: Callable[[], Controller]
    """Makes the controller. Importable, too."""


@dataclass(frozen=True, eq=False)
class _Run:
    """One method under one protocol on the instances of one seed."""

    config: BenchConfig
    folder: Path
    method: Method
    protocol: str
    seed: int
    setting: Setting
    choice: AnyChoice
    header: dict[str, Any]

    @property
    def path(self) -> Path:
        drawn = distribution(self.config)
        return result_path(self.folder, self.config.environment.name, self.method.name, self.protocol, self.seed, drawn)

    @property
    def shards(self) -> list[range]:
        """Numbers of the instances of each shard."""
        n, size = len(self.setting.instances), self.config.shard
        return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]

    def present(self, writer: RowWriter) -> set[int]:
        """Numbers of its instances that have rows."""
        return writer.present.keys() & set(range(len(self.setting.instances)))


Executed = tuple[Row, KeptRollout | None]
"""A row, and its rollout if that is kept."""


class _Bench:
    """A benchmark ready to run: its settings, planners and controller."""

    def __init__(self, config: BenchConfig, folder: Path, planner_for: PlannerSource, controller: Controller) -> None:
        environment = config.environment
        environment.require_simulator()
        self.config, self.controller = config, controller
        self.geodesic, self.env = make_geodesic(environment), environment.make()
        protocols = tuple(dict.fromkeys(config.protocols))
        self.settings = {
            (name, seed): make_setting(name, config, self.env, seed) for name in protocols for seed in config.seeds
        }
        self.choices = {name: planner_for(name, environment.name) for name in dict.fromkeys(config.methods)}
        methods = [choice.method(name) for name, choice in self.choices.items()]
        for choice in self.choices.values():
            check_trained_for(choice.planner.spec, environment.spec)
        self.runs = [
            _Run(
                config, folder, method, protocol, seed, self.settings[protocol, seed], self.choices[method.name],
                _header(config, method, protocol, seed, self.settings[protocol, seed], self.choices[method.name],
                        controller),
            )
            for method in methods
            for protocol in protocols
            for seed in config.seeds
        ]  # fmt: skip

    def execute(self, shards: Sequence[tuple[int, range]]) -> Iterator[tuple[int, Iterator[Executed]]]:
        """Execute shards, given as (number of the run, numbers of its instances), one after the other, on all cores."""
        make = self.config.environment.require_simulator()
        with Simulators(make, self.config.slots, self.config.workers, self.config.environment.make()) as simulators:
            for number, numbers in shards:
                yield number, self._executed(self.runs[number], numbers, simulators)

    def _executed(self, run: _Run, numbers: range, simulators: Simulators) -> Iterator[Executed]:
        planner, setting, config = run.choice.planner, run.setting, self.config
        executor = Executor(
            planner,
            self.controller,
            simulators,
            setting.rule,
            seed=run.seed,
            horizon=run.header["horizon"],
            hit=setting.hit,
        )
        for outcome in executor.run([setting.instances[number] for number in numbers], numbers):
            kept = kept_rollout(planner.spec, outcome) if outcome.number < config.keep else None
            yield _row(run, outcome, self.geodesic), kept


def _on_cluster(
    cluster: Cluster, bench: _Bench, shards: Sequence[tuple[int, range]]
) -> Iterator[tuple[int, list[Executed]]]:
    """Execute shards on the cluster's nodes; yields each once, as they finish."""
    config = replace(bench.config, workers=1)  # a shard has one core
    headers = [json.dumps(run.header) for run in bench.runs]
    jobs = [(config, cluster.planner_for, cluster.make_controller, headers, *shard) for shard in shards]
    for job, executed in run_on_ray(_execute_there, jobs, cluster.address):
        yield shards[job][0], executed


_benches: dict[str, _Bench] = {}
"""The benchmark of this process, which executes one shard after the other of it."""


def _execute_there(
    config: BenchConfig,
    planner_for: PlannerSource,
    make_controller: Callable[[], Controller],
    headers: list[str],
    number: int,
    numbers: range,
) -> list[Executed]:
    """Execute one shard in a process of a node, which must have the same weights."""
    key = repr((headers, config.n, config.keep, config.shard))
    if key not in _benches:
        _benches.clear()
        bench = _Bench(config, Path(), planner_for, make_controller())
        for run, header in zip(bench.runs, headers, strict=True):
            if differ := differences(json.loads(header), json.loads(json.dumps(run.header))):
                details = "; ".join(f"{name}: {there} there, {here} here" for name, (here, there) in differ.items())
                raise DataError(
                    f"node {socket.gethostname()} would make other rows ({details}). All nodes need the same version, "
                    "weights and data: let them share VHD_HOME."
                )
        _benches[key] = bench
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedLengthWarning)
        return [item for _, executed in _benches[key].execute([(number, numbers)]) for item in executed]


def _header(
    config: BenchConfig,
    method: Method,
    protocol: str,
    seed: int,
    setting: Setting,
    choice: AnyChoice,
    controller: Controller,
) -> dict[str, Any]:
    """Everything that affects a row, and what figures need to draw it."""
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
        "horizon": choice.horizon or method.horizon(environment),
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
        start_gap=start_gap(run.config.environment.spec, run.choice.planner.normalizer.scale, rollout),
        path=path_length(run.config.environment.spec, rollout.observations),
        score=None if setting.score is None else setting.score(rollout.observations, instance.goal),
        task=None if setting.tasks is None else outcome.number % setting.tasks + 1,
    )


def path_length(spec: EnvSpec, observations: FloatArray) -> float:
    """Length of the path (T, observation_dim) in the goal dimensions, in the environment's units."""
    places = spec.goal_of(spec.planning_state(observations)).astype(np.float64)
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).sum())


def start_gap(spec: EnvSpec, scale: FloatArray, rollout: Rollout) -> float:
    """The largest distance between the place from which a plan was made and its first state (normalised)."""
    places = [spec.goal_of(spec.planning_state(rollout.observations[step])) for step, _ in rollout.plans]
    return max(
        float(goal_distance(spec, scale, plan.states[0], place))
        for (_, plan), place in zip(rollout.plans, places, strict=True)
    )


def kept_rollout(spec: EnvSpec, outcome: Outcome) -> KeptRollout:
    """The part of an execution that figures and videos need."""
    rollout = outcome.rollout
    return KeptRollout(
        number=outcome.number,
        instance=outcome.instance,
        success=rollout.success,
        states=spec.planning_state(rollout.observations),
        actions=rollout.actions,
        plans=tuple((step, spec.goal_of(plan.states)) for step, plan in rollout.plans),
    )
