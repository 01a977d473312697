"""`vhd calibrate`: learn the probability of arriving within a horizon, and check the calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.control.base import Controller
    from vhdiffuser.length.calibration import Calibration
    from vhdiffuser.planner.planner import Planner


@dataclass(frozen=True)
class Calibrate:
    """Execute plans at many horizons, and learn the probability that this planner and controller arrive in time.

    Writes calibration.json next to the planner's weights. From then on every command takes the shortest horizon at
    which 99 % arrive; `--risk 0.05` (or `risk=0.05` in Python) takes that at which 95 % do, and `deadline` says whether
    a number of steps suffices. If interrupted, run the same command again: finished executions are kept.
    Without a simulator it learns from held-out episodes. Examples:

        vhd calibrate maze2d-large
        vhd calibrate maze2d-large --n 1000 --workers 0
        vhd calibrate maze2d-large --check                 check it on 1000 fresh instances
        vhd plan maze2d-large --start 1 1 --goal 7 9 --risk 0.05
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    n: Omittable[int] = None
    """Instances (default 400; with --check 1000)."""
    multiples: Several[float] = ()
    """Horizons to try, as multiples of the predicted length (default: 0.6 to 2, times the planner's stretch)."""
    protocol: Literal["ss", "rp"] = "ss"
    """How plans are executed: single-shot, or replan-on-deviation. Arriving means within the first plan's length."""
    seed: Omittable[int] = None
    """Seed of the instances (default 90, used for nothing else; with --check 205)."""
    distributions: tuple[Literal["reset", "uniform"], ...] = ("reset", "uniform")
    """Instances to calibrate on: drawn by the environment's reset, and uniformly over free space, for pairs unlike the
    former. `uniform` alone adds to an existing calibration. With --check: the first is checked."""
    candidates: Omittable[int] = None
    """Candidates sampled per plan (default: the planner's)."""
    steps: Omittable[int] = None
    """Reverse steps (default: the planner's)."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Omittable[Path] = None
    """File to write (default: calibration.json next to the planner's weights); with --check, the folder for rows and
    figure (default: results/analysis/calibration)."""
    check: bool = False
    """Check the calibration instead: execute fresh instances at risks 0.2, 0.1, 0.05 and 0.01, and print promised and
    realised failures."""
    workers: int = 0
    """Threads or processes that step simulators; 0 means one per core."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar, no messages."""

    def run(self) -> None:
        """Calibrate and write, or check and print."""
        from vhdiffuser.benchmark.methods import load_method
        from vhdiffuser.control.base import default_controller
        from vhdiffuser.planner.planner import Planner
        from vhdiffuser.weights.places import find_model

        environment = get_environment(self.env)
        choice = load_method("vhd", environment, self.weights, candidates=self.candidates, steps=self.steps)
        planner = choice.planner
        assert isinstance(planner, Planner)
        controller = None
        if environment.simulator is not None:
            controller = default_controller(environment.spec, self.weights)
        if self.check:
            self._check(planner, choice.models, controller)
            return
        self._calibrate(planner, controller, find_model(environment.name, "planner", self.weights).parent)

    def _calibrate(self, planner: Planner, controller: Controller | None, beside: Path) -> None:
        from vhdiffuser.benchmark.calibrate import SEED, calibrate
        from vhdiffuser.files import home
        from vhdiffuser.planner.calibrated import DEFAULT_RISK, FILE, write_calibration

        with progress_bar(f"calibrate {self.env}", "executions", self.quiet) as progress:
            calibration = calibrate(
                planner,
                self.env,
                400 if self.n is None else self.n,
                multiples=self.multiples or None,
                protocol=self.protocol,
                seed=SEED if self.seed is None else self.seed,
                distributions=self.distributions,
                controller=controller,
                folder=home() / "calibration",
                workers=self.workers,
                on_done=progress,
            )
        calibration = replace(calibration, default_risk=DEFAULT_RISK)
        path = write_calibration(self.out or beside / FILE, calibration)
        if self.json:
            print_json({"written": str(path), **calibration.to_json()})
            return
        _print(calibration)
        if not self.quiet:
            err.print(f"wrote {path}")

    def _check(self, planner: Planner, models: dict[str, str], controller: Controller | None) -> None:
        from vhdiffuser.benchmark.calibration_check import SEED, check_calibration
        from vhdiffuser.files import atomic_path
        from vhdiffuser.report.calibration_figures import markdown_table, reliability_diagram

        folder = self.out or Path("results/analysis/calibration")
        with progress_bar(f"check {self.env}", "executions", self.quiet) as progress:
            results = check_calibration(
                planner,
                get_environment(self.env),
                folder,
                1000 if self.n is None else self.n,
                SEED if self.seed is None else self.seed,
                distribution=self.distributions[0],
                models=models,
                controller=controller,
                workers=self.workers,
                on_done=progress,
            )
        drawn = self.distributions[0]
        title = planner.spec.name if drawn == "reset" else f"{planner.spec.name}, {drawn}"
        figure = folder / f"calibration-{title.replace(', ', '-')}.png"
        with atomic_path(figure) as temporary:
            reliability_diagram(title, results, temporary)
        with atomic_path(figure.with_suffix(".md")) as temporary:
            temporary.write_text(markdown_table(title, results), encoding="utf-8")
        if self.json:
            print_json({"environment": planner.spec.name, "figure": str(figure), "results": results})
            return
        for line in check_lines(results):
            out.print(line)
        if not self.quiet:
            err.print(f"wrote {figure} and the table {figure.with_suffix('.md').name}")


def _print(calibration: Calibration) -> None:
    """Print the multiples that meet some risks, by distance."""
    risks = (0.2, 0.1, 0.05, 0.01)
    out.print("multiple of the predicted length that meets a risk; (x): none does, lowest failure rate instead")
    out.print(f"{'predicted steps':>16}" + "".join(f"{f'risk {risk:g}':>16}" for risk in risks))
    columns = [calibration.margin(calibration.steps, risk) for risk in risks]
    for row, steps in enumerate(calibration.steps):
        cells = []
        for risk, (margins, failure) in zip(risks, columns, strict=True):
            beyond = f" ({failure[row]:.3f})" if failure[row] > risk * (1 + 1e-9) else ""
            cells.append(f"{margins[row]:.2f}{beyond}")
        out.print(f"{steps:>16.0f}" + "".join(f"{cell:>16}" for cell in cells))


def check_lines(results: list[dict[str, Any]]) -> list[str]:
    """A table of promised and realised failures, in %."""
    lines = [
        f"{'':12}{'instances':>10}  {'promised %':>10}  {'failed %':>9} {'95 %':>13}  {'10-90 % holds':>14}  {'AES':>7}"
    ]
    for result in results:
        name = f"gamma {result['gamma']:g}" if result["risk"] is None else f"risk {result['risk']:g}"
        for part, values in (("", result), *result["bands"].items()):
            low, high = (100 * value for value in values["failure_interval"])
            covered = values["interval_coverage"]
            label, count = (f"  {part}", "") if part else (name, str(result["n"]))
            shares = f"{100 * values['promised_failure']:10.1f}  {100 * values['failure']:9.1f}"
            steps = "" if part else f"  {result['average_executed_steps']:7.1f}"
            cover = "-" if covered is None else f"{100 * covered:.1f}"
            lines.append(f"{label:12}{count:>10}  {shares} {f'{low:.1f}..{high:.1f}':>13}  {cover:>14}{steps}")
    return lines
