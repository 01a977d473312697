"""`vhd bench` and `vhd report`: the paper's table, from raw rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.methods import AnyChoice, ForeignChoice
    from vhdiffuser.control.base import Controller
    from vhdiffuser.report.video import View
    from vhdiffuser.results.rows import Row
    from vhdiffuser.results.summary import Summary


Name = Annotated[str, tyro.conf.arg(metavar="ENV")]
_OPTIONS = ("sampler", "steps", "gamma", "smoothing", "stretch", "candidates", "piece", "tube", "risk")
"""The planning options among the options below."""


@cache
def _load_foreign(reference: str, environment: str) -> ForeignChoice:
    """The planner of a reference, made once: it may load weights or data."""
    from vhdiffuser.benchmark.methods import ForeignChoice
    from vhdiffuser.planner.foreign import foreign_planner

    return ForeignChoice(foreign_planner(reference, environment))


@dataclass(frozen=True)
class Bench:
    """Run methods under protocols on the same random instances, and write one row per execution.

    If interrupted, run the same command again: finished rows are kept. Examples:

        vhd bench maze2d-umaze --methods vhd --n 100
        vhd bench maze2d-umaze                       all methods with weights, ss and rp, 1000 instances
        vhd bench maze2d-umaze --seeds 100 101 102   the same, as published: three test seeds, pooled
        vhd bench maze2d-umaze --distribution uniform
        vhd bench antmaze-medium --methods vhd --protocols ogbench --n 250
        vhd bench maze2d-large --ray auto            on a Ray cluster
        vhd bench maze2d-umaze --planner my_planner.py:MyPlanner
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    methods: tuple[str, ...] = ()
    """Methods to run: vhd, fh-lp, fh-h1, fh-h2, fh-h3 (default: those whose weights exist), or the same with networks
    trained with `--recipe paper`: vhd-paper, fh-lp-paper, fh-h1-paper and so on."""
    planner: tuple[str, ...] = ()
    """Planners of anybody's to run, as file.py:name or package.module:name (docs/leaderboard.md); none of ours are run
    beside them unless --methods names them."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """ss (single-shot), rp (replan-on-deviation); of other benchmarks: d4rl-fixed, d4rl-random (one plan, its end
    held), d4rl-fixed-rp, d4rl-random-rp (replanning), ogbench."""
    n: int | None = None
    """Instances per seed (default 1000, or all pairs of --instances)."""
    seeds: tuple[int, ...] = (0,)
    """Test seeds. Each fixes its instances and plans, and has its own results file; the summary pools them. 0 to 99 are
    for development, 100 and above for published figures."""
    distribution: Literal["reset", "uniform"] = "reset"
    """How instances are drawn: by the environment's reset, or uniformly over free space."""
    instances: Path | None = None
    """Your own start-goal pairs: npz or HDF5 with `start_state` (positions, planning states or full observations) and
    `goal_pos`."""
    sampler: str | None = None
    """Sampler: ddpm, ddim, dpm++ or a registered one (default: the planner's)."""
    steps: int | None = None
    """Reverse steps (default: the planner's)."""
    gamma: float | None = None
    """Margin on the predicted length (default: the planner's)."""
    smoothing: float | None = None
    """Smoothing time of plans in control steps; 0: through every knot (default: the planner's own)."""
    stretch: float | None = None
    """How many times slower than the data plans move (default: the planner's)."""
    candidates: int | None = None
    """Candidates drawn per plan; the one that least violates predicted distances is kept. 1 is no selection
    (default: the planner's own)."""
    piece: int | None = None
    """States of a piece: longer plans are composed of pieces along a route; 0 draws every plan whole (default: the
    planner's own)."""
    tube: float | None = None
    """How far composed plans may leave their route, in radii of its regions (default: the planner's own)."""
    risk: float | None = None
    """Accepted probability of not arriving: plans take the shortest length that keeps it, as calibrated (`vhd
    calibrate`), in place of gamma (default: the planner's own)."""
    controller: str | None = None
    """Controller: pd, displacement, inverse_dynamics, path_following or a registered one (default: the environment's;
    methods of the recipe `paper` read plans by their index)."""
    position_gain: float | None = None
    """PD gain: action per unit of position error (default: the controller's)."""
    velocity_gain: float | None = None
    """PD gain: action per unit of velocity error (default: the controller's)."""
    threshold: float | None = None
    """rp: normalised tracking error above which to replan (default: the benchmark's)."""
    check_every: int | None = None
    """rp: control steps between two checks of the tracking error (default: the benchmark's)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Path = Path("results")
    """Folder of the rows."""
    keep: int = 10
    """Number of rollouts per seed to save in full, for figures and videos."""
    video: Literal["top", "camera"] | None = None
    """Also write GIFs of the saved rollouts: drawn from above with their plans, or by the simulator's camera."""
    workers: int = 0
    """Simulator processes; 0: one per core."""
    ray: str | None = None
    """Run on a Ray cluster (extra `ray`): its address, or auto for the one that runs here; without one, this machine's
    cores. The rows are the same."""
    json: bool = False
    """Print the summary as a JSON list of objects."""
    quiet: bool = False
    """No progress bar and no messages."""

    def run(self) -> None:
        """Run what is missing, print the summary."""
        from vhdiffuser.benchmark.methods import METHODS
        from vhdiffuser.benchmark.run import Cluster, run_benchmark
        from vhdiffuser.benchmark.settings import BenchConfig

        environment = get_environment(self.env)
        environment.require_simulator()
        spec = environment.spec
        config = BenchConfig(
            environment=environment,
            methods=(*self._methods(), *self.foreign()),
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
        predicted: list[int] = []  # predicted plan lengths
        candidates: set[int] = set()

        def choose(method: str, environment: str) -> AnyChoice:
            choice = self.choose(method, environment)
            candidates.add(choice.candidates)
            return choice

        with self._progress() as (on_start, show_row):

            def on_row(row: Row) -> None:
                ours = METHODS.get(row.method)
                predicted.extend(row.plan_lengths if ours is not None and ours.predicts else ())
                show_row(row)

            summaries = run_benchmark(
                config,
                self.out,
                choose,
                self.make_controller(),
                on_row=on_row,
                on_start=on_start,
                cluster=None if self.ray is None else Cluster(self.ray, self.choose, self.make_controller),
            )
        if self.video is not None:
            self._write_videos(self.video)
        clipped = sum(length == spec.T_max for length in predicted)
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
        """A progress bar over the missing runs: callbacks for the start and for each row."""
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

    def choose(self, method: str, environment: str) -> AnyChoice:
        """The planner of a method, with these options, or the one of --planner that has this name."""
        from vhdiffuser.benchmark.methods import load_method

        if method in (foreign := self.foreign()):
            return foreign[method]
        options = {name: getattr(self, name) for name in _OPTIONS}
        return load_method(method, environment, self.weights, **options)

    def foreign(self) -> dict[str, ForeignChoice]:
        """The planners of --planner by name."""
        found: dict[str, ForeignChoice] = {}
        for reference in self.planner:
            place, colon, attribute = reference.rpartition(":")
            place = str(Path(place).resolve()) if place.endswith(".py") else place
            choice = _load_foreign(f"{place}{colon}{attribute}", self.env)
            if (name := choice.planner.name) in found:
                raise VhdError(f"two planners are named '{name}': give one of them another `name`.")
            found[name] = choice
        return found

    def _methods(self) -> tuple[str, ...]:
        """The methods of ours to run: none beside a planner of anybody's, unless they are named."""
        if not self.planner:
            return self.methods or self._methods_there()
        if given := [f"--{name}" for name in _OPTIONS if getattr(self, name) is not None and not self.methods]:
            raise VhdError(
                f"{', '.join(given)}: of our planners, which are not run here. Leave out, or name --methods."
            )
        return self.methods

    def _methods_there(self) -> tuple[str, ...]:
        """The table's methods whose weights exist; prints which are skipped, and how to train them."""
        from vhdiffuser.benchmark.methods import TABLE_METHODS, missing_methods

        missing = missing_methods(get_environment(self.env), self.weights)
        if len(missing) == len(TABLE_METHODS):
            raise missing["vhd"]
        if not self.quiet:
            for name, reason in missing.items():
                err.print(f"skipping {name}: {reason}")
        return tuple(name for name in TABLE_METHODS if name not in missing)

    def make_controller(self) -> Controller:
        """The chosen controller, with these options; by default the environment's, by index for the recipe `paper`."""
        from vhdiffuser.benchmark.methods import controller_for
        from vhdiffuser.control.base import default_controller
        from vhdiffuser.control.pd import PDConfig, PDController

        environment = get_environment(self.env)
        spec = environment.spec
        name = self.controller or controller_for(self.methods, environment)
        if name == "pd":
            names = ("position_gain", "velocity_gain")
            gains = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
            return PDController(spec, replace(PDConfig(), **gains))
        return default_controller(spec, self.weights, name)

    def _write_videos(self, view: View) -> None:
        from vhdiffuser.report.video import write_rollout
        from vhdiffuser.results.rollout_files import load_rollout

        env = get_environment(self.env).make()
        for path in sorted((self.out / env.spec.name / "rollouts").glob("*.npz")):
            written = write_rollout(env, load_rollout(path), path.with_suffix(".gif"), view)
            if not self.quiet:
                err.print(f"wrote {written}")


def print_summaries(summaries: list[Summary], candidates: set[int]) -> None:
    """One line per cell."""
    width = max(11, *(len(item.method) + 2 for item in summaries))
    out.print(f"candidates per plan: {', '.join(map(str, sorted(candidates)))}")
    out.print(
        f"{'method':{width}}{'protocol':15}{'n':>6}  {'SR %':>6} {'95 %':>14}  {'AES':>7} {'95 %':>16}  {'replans':>7}"
    )
    for item in summaries:
        low, high = (100 * value for value in item.success_rate_interval)
        few, many = item.average_executed_steps_interval
        score = "" if item.average_score is None else f"  score {item.average_score:.1f}"
        out.print(
            f"{item.method:{width}}{item.protocol:15}{item.n:>6}  {100 * item.success_rate:6.1f} "
            f"{f'{low:.1f}..{high:.1f}':>14}  {item.average_executed_steps:7.1f} {f'{few:.1f}..{many:.1f}':>16}  "
            f"{item.average_replans:7.2f}{score}"
        )
        if len(item.seeds) > 1:
            rates = (
                f"{seed}: {100 * rate:.1f}" for seed, rate in zip(item.seeds, item.success_rate_by_seed, strict=True)
            )
            out.print(f"{'':{width}}SR % by seed   {', '.join(rates)}")


@dataclass(frozen=True)
class Report:
    """Make the paper's Table II with our results next to it, as Markdown and HTML, and figures, from rows alone.

    Example: vhd report results
    """

    folder: Positional[Path]
    """Folder of rows written by `vhd bench`."""
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
