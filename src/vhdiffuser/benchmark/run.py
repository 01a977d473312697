"""The benchmark: each method under each protocol on the same instances, one row per execution.

Instances are executed in whole shards of `BenchConfig.shard`: the last bits of a plan depend on the batch in which it
is computed, so a shard's rows are the same wherever and whenever it is run.
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
from vhdiffuser.benchmark.records import kept_rollout, path_length, start_gap
from vhdiffuser.benchmark.settings import (
    PAPER,
    BenchConfig,
    Setting,
    describe_instances,
    distribution,
    make_setting,
)
from vhdiffuser.cluster import run_on_ray
from vhdiffuser.control.base import Controller
from vhdiffuser.envs.checked import check_trained_for
from vhdiffuser.errors import ClippedLengthWarning, DataError
from vhdiffuser.execution.executor import Executor, Outcome, may_share
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.results.configs import differences
from vhdiffuser.results.paths import plans_path, result_path, rollout_path
from vhdiffuser.results.rollout_files import KeptRollout, load_plans, save_plans, save_rollout
from vhdiffuser.results.rows import Row, RowWriter, open_results
from vhdiffuser.results.summary import Summary, summarize_cell
from vhdiffuser.streams import STREAMS

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

    All names, weights and results files are checked before anything is simulated. Rows on disk are kept; `on_start` is
    called with the number of missing rows, `on_row` with each new row. With a `cluster`, shards are executed on its
    nodes and rows are written here.
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
            row, kept = executed
            if row.instance in writer.present:
                continue
            # Write the rollout first: a row implies that everything belonging to it is on disk.
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
        # Plans by fixed-horizon planners replace those drawn by VHD alone.
        due = not sheet.exists() or (own is not None and load_plans(sheet).planner != "")
        if config.keep and "vhd" in choices and paper and due:
            pairs, walls = paper[0][:_SHEET_PAIRS], environment.geometry.walls
            save_plans(sheet, plan_sheet(choices["vhd"].planner, env, walls, pairs, seed, own))
    headers = {(run.method.name, run.protocol): run.header for run in runs}
    return [summarize_cell(found, headers[cell]) for cell, found in rows.items()]


@dataclass(frozen=True)
class Cluster:
    """Where shards are executed, and how nodes create planners and controller from their copy of the weights."""

    address: str
    """`auto`, or the address of a Ray cluster."""
    planner_for: PlannerSource
    """Creates the planners. Must be importable, since it is sent to the nodes."""
    make_controller: Callable[[], Controller]
    """Creates the controller. Must be importable."""


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
        """Instance numbers of each shard."""
        n, size = len(self.setting.instances), self.config.shard
        return [range(begin, min(begin + size, n)) for begin in range(0, n, size)]

    def present(self, writer: RowWriter) -> set[int]:
        """Numbers of the instances that already have rows."""
        return writer.present.keys() & set(range(len(self.setting.instances)))


Executed = tuple[Row, KeptRollout | None]
"""A row, and its rollout if it is kept."""


class _Bench:
    """A benchmark ready to run: settings, planners and controller."""

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

    def execute(self, shards: Sequence[tuple[int, range]]) -> Iterator[tuple[int, Executed]]:
        """Execute shards, given as (run number, instance numbers), on all cores; yields each row with its run
        number."""
        make = self.config.environment.require_simulator()
        with Simulators(make, self.config.slots, self.config.workers, self.config.environment.make()) as simulators:
            for numbers, parts in self._together(shards, simulators.savable):
                yield from self._executed(numbers, parts, simulators)

    def _together(
        self, shards: Sequence[tuple[int, range]], savable: bool
    ) -> list[tuple[tuple[int, ...], list[range]]]:
        """Groups of shards to execute together: those of one run or, if executions can be shared, of two (the one that
        replans first)."""
        due: dict[int, list[range]] = {}
        for number, numbers in shards:
            due.setdefault(number, []).append(numbers)
        together: list[tuple[tuple[int, ...], list[range]]] = []
        for number in list(due):
            for other in [other for other in due if savable and self._shares(self.runs[number], self.runs[other])]:
                both = [numbers for numbers in due[number] if numbers in due[other]]
                together.append(((number, other), both))
                for run in (number, other):
                    due[run] = [numbers for numbers in due[run] if numbers not in both]
        together += [((number,), numbers) for number, numbers in due.items()]
        return [(runs, numbers) for runs, numbers in together if numbers]

    @staticmethod
    def _shares(run: _Run, other: _Run) -> bool:
        """Whether two runs begin with the same plans for the same instances, and the second never replans."""
        same = run.method.name == other.method.name and run.seed == other.seed
        paper = run.protocol in PAPER and other.protocol in PAPER
        return same and paper and may_share(run.setting.rule, other.setting.rule)

    def _executed(
        self, numbers: tuple[int, ...], shards: Sequence[range], simulators: Simulators
    ) -> Iterator[tuple[int, Executed]]:
        run, *others = (self.runs[number] for number in numbers)
        planner, setting = run.choice.planner, run.setting
        executor = Executor(
            planner,
            self.controller,
            simulators,
            setting.rule,
            seed=run.seed,
            horizon=run.header["horizon"],
            hit=setting.hit,
            also=others[0].setting.rule if others else None,
        )
        instances = [(shard, [setting.instances[number] for number in shard]) for shard in shards]
        for rule, outcome in executor.run_shards(instances):
            number = numbers[rule is executor.also]
            kept = kept_rollout(planner.spec, outcome) if outcome.number < self.config.keep else None
            yield number, (_row(self.runs[number], outcome, self.geodesic), kept)


def _on_cluster(cluster: Cluster, bench: _Bench, shards: Sequence[tuple[int, range]]) -> Iterator[tuple[int, Executed]]:
    """Execute shards on the cluster's nodes; yields rows with their run numbers as they finish."""
    config = replace(bench.config, workers=1)  # one core per shard
    headers = [json.dumps(run.header) for run in bench.runs]
    jobs = [(config, cluster.planner_for, cluster.make_controller, headers, *shard) for shard in shards]
    for job, executed in run_on_ray(_execute_there, jobs, cluster.address):
        yield from ((shards[job][0], item) for item in executed)


_benches: dict[str, _Bench] = {}
"""The benchmark of this process, which executes its shards one after another."""


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
                    f"node {socket.gethostname()} would produce different rows ({details}). All nodes need the "
                    "same version, weights and data: let them share VHD_HOME."
                )
        _benches[key] = bench
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedLengthWarning)
        return [item for _, item in _benches[key].execute([(number, numbers)])]


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
