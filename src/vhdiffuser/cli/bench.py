"""`vhd bench` and `vhd report`: the paper's table, from raw rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.choices import Choices
    from vhdiffuser.benchmark.methods import AnyChoice
    from vhdiffuser.benchmark.settings import BenchConfig
    from vhdiffuser.report.video import View
    from vhdiffuser.results.rows import Row
    from vhdiffuser.results.summary import Summary


Name = Annotated[str, tyro.conf.arg(metavar="ENV")]
_OPTIONS = (
    "sampler",
    "steps",
    "gamma",
    "smoothing",
    "stretch",
    "candidates",
    "piece",
    "tube",
    "retime",
    "wait",
    "risk",
)
"""The planning options among the options below."""


@dataclass(frozen=True)
class Bench:
    """Run methods under protocols on the same random instances, and write one row per execution to a results folder.

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
    methods: Several[str] = ()
    """Methods to run: vhd, fh-lp, fh-h1, fh-h2, fh-h3 (default: those with weights), or the same with networks trained
    with `--recipe paper`: vhd-paper, fh-lp-paper, fh-h1-paper and so on."""
    planner: Several[str] = ()
    """Third-party planners to run, as file.py:name or package.module:name (docs/leaderboard.md); our methods are then
    run only if --methods names them."""
    protocols: tuple[str, ...] = ("ss", "rp")
    """Protocols: ss (single-shot), rp (replan-on-deviation); from other benchmarks: d4rl-fixed, d4rl-random (one plan,
    its end held), d4rl-fixed-rp, d4rl-random-rp (replanning), ogbench."""
    n: Omittable[int] = None
    """Instances per seed (default 1000, or all pairs of --instances)."""
    seeds: tuple[int, ...] = (0,)
    """Test seeds. Each determines its instances and plans, and has its own results file; the summary pools them. 0 to
    99 are for development, 100 and above for published figures."""
    distribution: Literal["reset", "uniform"] = "reset"
    """How instances are drawn: by the environment's reset, or uniformly over free space."""
    instances: Omittable[Path] = None
    """Your own start-goal pairs: npz or HDF5 with `start_state` (positions, planning states or full observations) and
    `goal_pos`."""
    sampler: Omittable[str] = None
    """Sampler: ddpm, ddim, dpm++ or a registered one (default: the planner's)."""
    steps: Omittable[int] = None
    """Reverse steps (default: the planner's)."""
    gamma: Omittable[float] = None
    """Margin on the predicted length, instead of a risk (default: the risk 0.01 of calibrated planners, otherwise the
    planner's own; 1.3 for FH+LP)."""
    smoothing: Omittable[float] = None
    """Smoothing time of plans in control steps; 0 passes through every knot (default: the planner's)."""
    stretch: Omittable[float] = None
    """Factor by which plans are slower than the data (default: the planner's)."""
    candidates: Omittable[int] = None
    """Candidates sampled per plan; the one that least violates predicted distances is used. 1 means no selection
    (default: the planner's)."""
    piece: Omittable[int] = None
    """States per piece: longer plans are composed of pieces along a route; 0 plans in one piece (default: the
    planner's)."""
    tube: Omittable[float] = None
    """Maximum distance of composed plans from their route, in radii of its regions (default: the planner's)."""
    retime: Omittable[float] = None
    """Plans shorter than this many times the predicted distance are sampled at that length and sped up within the
    data's speed and acceleration (default: the planner's)."""
    wait: Omittable[int] = None
    """States that plans add to their length and spend at the goal (default: the planner's)."""
    risk: Omittable[float] = None
    """Accepted probability of not arriving: plans use the shortest length that meets it, as calibrated (`vhd
    calibrate`), instead of gamma (default: the planner's)."""
    controller: Omittable[str] = None
    """Controller: pd, displacement, inverse_dynamics, path_following or a registered one (default: the environment's;
    methods of the recipe `paper` read plans by index)."""
    position_gain: Omittable[float] = None
    """PD gain: action per unit of position error (default: the environment's)."""
    velocity_gain: Omittable[float] = None
    """PD gain: action per unit of velocity error (default: the environment's)."""
    threshold: Omittable[float] = None
    """rp: normalised tracking error above which to replan (default: the benchmark's)."""
    check_every: Omittable[int] = None
    """rp: control steps between checks of the tracking error (default: the benchmark's)."""
    warm_start: bool = False
    """When replanning, resample only the pieces ahead and keep the rest of a composed plan."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Path = Path("results")
    """Results folder for the rows."""
    keep: int = 10
    """Number of rollouts per seed to save in full, for figures and videos."""
    video: Omittable[Literal["top", "camera"]] = None
    """Also write GIFs of the saved rollouts: drawn from above with their plans, or through the simulator's camera."""
    workers: int = 0
    """Simulator processes; 0 means one per core."""
    ray: Omittable[str] = None
    """Run on a Ray cluster (extra `ray`): its address, or auto for the one running here; without one, on this machine's
    cores. The rows are the same."""
    json: bool = False
    """Print the summary as a JSON list of objects."""
    quiet: bool = False
    """No progress bar, no messages."""

    def run(self) -> None:
        """Run what is missing and print the summary."""
        from vhdiffuser.benchmark.methods import METHODS
        from vhdiffuser.benchmark.run import Cluster, run_benchmark
        from vhdiffuser.planner.calibrated import advice
        from vhdiffuser.planner.planner import Planner

        environment = get_environment(self.env)
        environment.require_simulator()
        choices = self._choices()
        for name, reason in () if self.quiet else choices.skipped().items():
            err.print(f"skipping {name}: {reason}")
        predicted: list[int] = []  # predicted plan lengths
        candidates: set[int] = set()

        def choose(method: str, environment: str) -> AnyChoice:
            choice = choices.choose(method, environment)
            candidates.add(choice.candidates)
            said = advice(choice.planner) if self.gamma is None and isinstance(choice.planner, Planner) else None
            if said is not None and not self.quiet:
                err.print(said)
            return choice

        with self._progress() as (on_start, show_row):

            def on_row(row: Row) -> None:
                ours = METHODS.get(row.method)
                predicted.extend(row.plan_lengths if ours is not None and ours.predicts else ())
                show_row(row)

            summaries = run_benchmark(
                self._config(choices.names()),
                self.out,
                choose,
                choices.make_controller(),
                on_row=on_row,
                on_start=on_start,
                cluster=None if self.ray is None else Cluster(self.ray, choices.choose, choices.make_controller),
            )
        if self.video is not None:
            self._write_videos(self.video)
        spec = environment.spec
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

    def _choices(self) -> Choices:
        from vhdiffuser.benchmark.choices import Choices

        return Choices(
            self.env,
            self.methods,
            self.planner,
            self.weights,
            options={name: getattr(self, name) for name in _OPTIONS},
            controller=self.controller,
            gains={"position_gain": self.position_gain, "velocity_gain": self.velocity_gain},
        )

    def _config(self, names: tuple[str, ...]) -> BenchConfig:
        from vhdiffuser.benchmark.settings import BenchConfig

        given = {key: getattr(self, key) for key in ("threshold", "check_every") if getattr(self, key) is not None}
        return BenchConfig(
            environment=get_environment(self.env),
            methods=names,
            protocols=self.protocols,
            n=self.n,
            seeds=self.seeds,
            distribution=self.distribution,
            instances=self.instances,
            warm_start=self.warm_start,
            keep=self.keep,
            workers=self.workers,
            **given,
        )

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
    """Make the paper's Table II with our results next to it, in Markdown and HTML, and figures, from rows alone.

    Example: vhd report results
    """

    folder: Positional[Path]
    """Folder of rows written by `vhd bench`."""
    out: Omittable[Path] = None
    """Folder to write to (default: next to the rows)."""
    json: bool = False
    """Print the written files as one JSON object."""

    def run(self) -> None:
        """Write the report."""
        from vhdiffuser.report.build import write_report

        written = write_report(self.folder, self.out)
        if self.json:
            print_json({"written": [str(path) for path in written]})
        else:
            for path in written:
                out.print(f"wrote {path}")
