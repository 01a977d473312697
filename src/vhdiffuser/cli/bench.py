"""`vhd bench` and `vhd report`: the paper's table, from raw rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.methods import PlannerChoice
    from vhdiffuser.control.base import Controller
    from vhdiffuser.report.video import View
    from vhdiffuser.results.rows import Row
    from vhdiffuser.results.summary import Summary


Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Bench:
    """Run methods under protocols on the same random instances; a row on disk for each, as it goes.

    Interrupted? Run the same command again: what is done is kept. Examples:

        vhd bench maze2d-umaze --methods vhd --n 100
        vhd bench maze2d-umaze                       all methods that are there, ss and rp, 1000 instances
        vhd bench maze2d-umaze --seeds 100 101 102   the same, as published: three test seeds, pooled
        vhd bench maze2d-umaze --distribution uniform
        vhd bench antmaze-medium --methods vhd --protocols ogbench --n 250
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    methods: tuple[str, ...] = ()
    """Methods to run: vhd, fh-lp, fh-h1, fh-h2, fh-h3 (default: those of them whose weights are there), and
    vhd-paper: VHD with networks that were trained with `--recipe paper`."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """ss (single-shot), rp (replan-on-deviation); peers': d4rl-fixed, d4rl-random (one plan, its end
    held), d4rl-fixed-rp, d4rl-random-rp (replanning), ogbench."""
    n: int | None = None
    """Instances of each seed (default 1000, or all pairs of --instances)."""
    seeds: tuple[int, ...] = (0,)
    """Each fixes its instances and every plan, and has a file of its own; the summary pools them. 0 to 99 are for
    development, 100 and above for published figures."""
    distribution: Literal["reset", "uniform"] = "reset"
    """How instances are drawn: the environment's own reset, or uniform over free space."""
    instances: Path | None = None
    """Your own pairs: npz or HDF5 with `start_state` (positions, planning states or whole observations) and
    `goal_pos`."""
    sampler: str | None = None
    """Reverse process: ddpm, ddim, dpm++ or a registered one (default: the planner's own)."""
    steps: int | None = None
    """Reverse steps (default: the planner's own)."""
    gamma: float | None = None
    """Margin on the predicted length (default: the planner's own)."""
    smoothing: float | None = None
    """Control steps over which plans are evened out; 0: through every knot (default: the planner's own)."""
    stretch: float | None = None
    """How many times as slowly as the data moves plans are to be followed (default: the planner's own)."""
    candidates: int | None = None
    """Candidates drawn per plan; the one that least violates predicted distances is kept. 1 is no selection
    (default: the planner's own)."""
    position_gain: float | None = None
    """PD: action per unit of position error (default: measured best)."""
    velocity_gain: float | None = None
    """PD: action per unit of velocity error (default: measured best)."""
    threshold: float | None = None
    """rp: normalised tracking error above which to plan again (default: the benchmark's)."""
    check_every: int | None = None
    """rp: control steps between two checks of the tracking error (default: the benchmark's)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if there), or a folder of weights."""
    out: Path = Path("results")
    """Folder of the rows."""
    keep: int = 10
    """Rollouts of each seed's first instances kept whole, for figures and videos."""
    video: Literal["top", "camera"] | None = None
    """Also write GIFs of the kept rollouts: painted from above with their plans, or by the simulator's camera."""
    workers: int = 0
    """Processes that step simulators; 0 is one per core."""
    json: bool = False
    """Print the summary as a JSON list of objects."""
    quiet: bool = False
    """No progress bar and no remarks."""

    def run(self) -> None:
        """Run what is missing, print the summary."""
        from vhdiffuser.benchmark.methods import get_method
        from vhdiffuser.benchmark.run import run_benchmark
        from vhdiffuser.benchmark.settings import BenchConfig

        environment = get_environment(self.env)
        environment.require_simulator()
        spec = environment.spec
        config = BenchConfig(
            environment=environment,
            methods=self.methods or self._methods_there(),
            protocols=self.protocols,
            n=self.n,
            seeds=self.seeds,
            distribution=self.distribution,
            instances=self.instances,
            keep=self.keep,
            workers=self.workers,
        )
        given = {key: getattr(self, key) for key in ("threshold", "check_every") if getattr(self, key) is not None}
        config = replace(config, **given)
        predicted: list[int] = []  # lengths of the plans that a Length Predictor set
        candidates: set[int] = set()

        def choose(method: str, environment: str) -> PlannerChoice:
            choice = self.choose(method, environment)
            candidates.add(choice.options.candidates)
            return choice

        with self._progress() as (on_start, show_row):

            def on_row(row: Row) -> None:
                predicted.extend(row.plan_lengths if get_method(row.method).predicts else ())
                show_row(row)

            summaries = run_benchmark(
                config,
                self.out,
                choose,
                self.controller(),
                on_row=on_row,
                on_start=on_start,
            )
        if self.video is not None:
            self._write_videos(self.video)
        clipped = sum(length >= spec.T_max for length in predicted)
        if clipped and not self.quiet:
            err.print(
                f"{clipped:,} of {len(predicted):,} predicted lengths were clipped at T_max = {spec.T_max} states"
            )
        if self.json:
            print_json([summary.to_json() for summary in summaries])
        else:
            print_summaries(summaries, candidates)
            out.print(f"rows: {self.out / spec.name}   report: vhd report {self.out}")

    @contextmanager
    def _progress(self) -> Iterator[tuple[Callable[[int], None], Callable[[Any], None]]]:
        """A bar over the runs that are missing: what it is told at the start, and of each row."""
        total, done, hits = 0, 0, 0
        with progress_bar(f"bench {self.env}", "runs", self.quiet) as progress:

            def on_start(missing: int) -> None:
                nonlocal total
                total = missing

            def on_row(row: Any) -> None:
                nonlocal done, hits
                done, hits = done + 1, hits + row.success
                progress(done, total, note=f"{row.method} {row.protocol}, {hits / done:.1%} so far")

            yield on_start, on_row

    def choose(self, method: str, environment: str) -> PlannerChoice:
        """The planner of a method, under these options."""
        from vhdiffuser.benchmark.methods import load_method

        return load_method(
            method,
            environment,
            self.weights,
            sampler=self.sampler,
            steps=self.steps,
            gamma=self.gamma,
            smoothing=self.smoothing,
            stretch=self.stretch,
            candidates=self.candidates,
        )

    def _methods_there(self) -> tuple[str, ...]:
        """The table's methods whose weights are there; says which are left out, and how to make them."""
        from vhdiffuser.benchmark.methods import TABLE_METHODS, missing_methods

        missing = missing_methods(get_environment(self.env), self.weights)
        if len(missing) == len(TABLE_METHODS):
            raise missing["vhd"]
        if not self.quiet:
            for name, reason in missing.items():
                err.print(f"{name} is left out. {reason}")
        return tuple(name for name in TABLE_METHODS if name not in missing)

    def controller(self) -> Controller:
        """The environment's controller, under these options."""
        from vhdiffuser.control.base import default_controller
        from vhdiffuser.control.pd import PDConfig, PDController

        environment = get_environment(self.env)
        spec = environment.spec
        if environment.controller == "pd":
            names = ("position_gain", "velocity_gain")
            gains = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
            return PDController(spec, replace(PDConfig(), **gains))
        return default_controller(spec, self.weights)

    def _write_videos(self, view: View) -> None:
        from vhdiffuser.report.video import write_rollout
        from vhdiffuser.results.rollout_files import load_rollout

        env = get_environment(self.env).make()
        for path in sorted((self.out / env.spec.name / "rollouts").glob("*.npz")):
            written = write_rollout(env, load_rollout(path), path.with_suffix(".gif"), view)
            if not self.quiet:
                err.print(f"wrote {written}")


def print_summaries(summaries: list[Summary], candidates: set[int]) -> None:
    """One line a cell."""
    out.print(f"candidates per plan: {', '.join(map(str, sorted(candidates)))}")
    out.print(
        f"{'method':11}{'protocol':15}{'n':>6}  {'SR %':>6} {'95 %':>14}  {'AES':>7} {'95 %':>16}  {'replans':>7}"
    )
    for item in summaries:
        low, high = (100 * value for value in item.success_rate_interval)
        few, many = item.average_executed_steps_interval
        score = "" if item.average_score is None else f"  score {item.average_score:.1f}"
        out.print(
            f"{item.method:11}{item.protocol:15}{item.n:>6}  {100 * item.success_rate:6.1f} "
            f"{f'{low:.1f}..{high:.1f}':>14}  {item.average_executed_steps:7.1f} {f'{few:.1f}..{many:.1f}':>16}  "
            f"{item.average_replans:7.2f}{score}"
        )
        if len(item.seeds) > 1:
            rates = (
                f"{seed}: {100 * rate:.1f}" for seed, rate in zip(item.seeds, item.success_rate_by_seed, strict=True)
            )
            out.print(f"{'':11}SR % by seed   {', '.join(rates)}")


@dataclass(frozen=True)
class Report:
    """Make the paper's Table II beside ours, as Markdown and HTML, and the figures, from rows alone.

    Example: vhd report results
    """

    folder: Positional[Path]
    """Folder of rows that `vhd bench` wrote."""
    out: Path | None = None
    """Folder to write to (default: beside the rows)."""
    json: bool = False
    """Print the files written as one JSON object."""

    def run(self) -> None:
        """Write the report."""
        from vhdiffuser.report.build import write_report

        written = write_report(self.folder, self.out)
        if self.json:
            print_json({"written": [str(path) for path in written]})
        else:
            for path in written:
                out.print(f"wrote {path}")
