"""`vhd demo`: run the shipped weights and compare with the paper's results."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import environment_of, get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.files import scratch_folder
from vhdiffuser.weights.places import Source, shipped_environments

if TYPE_CHECKING:
    from vhdiffuser.benchmark.methods import PlannerChoice
    from vhdiffuser.diffusion.options import PlanningOptions
    from vhdiffuser.results.summary import Summary

PROTOCOLS = ("ss", "rp")
PANELS = 6
"""Rollouts per protocol in the figure."""


@dataclass(frozen=True)
class Demo:
    """Plan and execute random instances with the shipped weights, single-shot and with replanning.

    Prints success rate and executed steps with 95 % intervals next to the paper's, and saves a figure of plans and
    rollouts. Needs no data and no training. Examples:

        vhd demo
        vhd demo maze2d-umaze --n 20 --out out
        vhd demo path/to/folder --n 20          your own weights, written by `vhd models export`
        vhd demo path/to/folder --env my_robot.py:make
    """

    planner: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]] = "maze2d-large"
    """Environment with shipped weights (`vhd models`) or with models that you trained, or a folder of exported
    models."""
    env: Omittable[str] = None
    """Environment to run a folder's weights in (default: the one they were trained for)."""
    n: int = 100
    """Instances."""
    seed: int = 0
    """Seed of the instances and plans."""
    risk: Omittable[float] = None
    """Accepted probability of not arriving: plans use the shortest length that meets it, as calibrated (`vhd
    calibrate`), instead of gamma (default: the planner's)."""
    out: Path = Path("out")
    """Folder for the figure."""
    workers: int = 0
    """Simulator processes; 0 means one per core."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Run, print, draw."""
        from vhdiffuser.benchmark.evaluate import evaluate
        from vhdiffuser.control.base import default_controller
        from vhdiffuser.planner.calibrated import advice
        from vhdiffuser.planner.planner import Planner
        from vhdiffuser.results.paths import result_path

        choice, source = self._models()
        environment = environment_of(choice.planner.spec) if self.env is None else get_environment(self.env)
        if environment.simulator is None:
            raise VhdError(
                f"{environment.name} has no simulator to execute plans in. Name one: `vhd demo {self.planner} "
                "--env my_robot.py:make` (docs/extending.md)."
            )
        picture = self.out / f"demo-{environment.name}.png"
        # Rows of a demo are not results; they are deleted afterwards.
        with (
            scratch_folder() as rows,
            progress_bar(f"demo {environment.name}", "runs", self.quiet) as progress,
        ):
            done = itertools.count(1)
            summaries = evaluate(
                choice,
                environment,
                self.n,
                protocols=PROTOCOLS,
                seeds=self.seed,
                controller=default_controller(environment.spec, source),
                folder=rows,
                workers=self.workers,
                keep=PANELS,
                on_row=lambda row: progress(next(done), self.n * len(PROTOCOLS), note=row.protocol),
            )
            _draw({name: result_path(rows, environment.name, "vhd", name, self.seed) for name in PROTOCOLS}, picture)
        if self.json:
            cells = [{**item.to_json(), **_paper(item)} for item in summaries]
            print_json({"environment": environment.name, "results": cells, "picture": str(picture)})
        else:
            _print(environment.name, choice.options, summaries)
            out.print(f"picture: {picture}")
            if isinstance(choice.planner, Planner) and not self.quiet and (said := advice(choice.planner)) is not None:
                err.print(said)

    def _models(self) -> tuple[PlannerChoice, Source]:
        """The planner, and the source of its controller: a folder, shipped, or trained by the user."""
        from vhdiffuser.benchmark.methods import load_folder, load_method

        folder = Path(self.planner)
        if (folder / "planner.safetensors").is_file():
            return load_folder(folder, risk=self.risk), str(folder)
        environment = get_environment(self.planner)
        environment.require_simulator()
        source = "shipped" if environment.name in shipped_environments() else "trained"
        return load_method("vhd", environment, source, risk=self.risk), source


def _draw(rows: dict[str, Path], picture: Path) -> None:
    """Draw the rollouts saved next to each protocol's rows."""
    from vhdiffuser.report.rollout_figures import draw_rollouts
    from vhdiffuser.results.paths import rollout_path
    from vhdiffuser.results.rollout_files import load_rollout
    from vhdiffuser.results.rows import read_results

    config = read_results(rows[PROTOCOLS[0]]).config
    paths = {protocol: [rollout_path(path, number) for number in range(PANELS)] for protocol, path in rows.items()}
    kept = {protocol: [load_rollout(path) for path in each if path.exists()] for protocol, each in paths.items()}
    draw_rollouts(kept, config, picture)


def _paper(item: Summary) -> dict[str, float | None]:
    from vhdiffuser.report.paper import TABLE_II

    rate, steps = TABLE_II.get((item.environment, item.method, item.protocol), (None, None))
    return {"paper_success_rate": None if rate is None else rate / 100, "paper_average_executed_steps": steps}


def _print(environment: str, options: PlanningOptions, summaries: list[Summary]) -> None:
    from vhdiffuser.report.cards import steps_text, success_text
    from vhdiffuser.report.paper import TABLE_II

    names = {"ss": "single-shot", "rp": "replan-on-deviation"}
    out.print(
        f"{environment}: {summaries[0].n} random instances, {options.sampler} in {options.steps} steps, "
        f"{'gamma' if options.risk is None else 'risk'} {options.risk or options.gamma:g}, candidates per plan "
        f"{options.candidates}"
    )
    out.print(f"{'':22}{'SR % [95 %]':24}{'paper':>8}    {'AES [95 %]':24}{'paper':>8}")
    for item in summaries:
        paper = TABLE_II.get((item.environment, item.method, item.protocol))
        rate, steps = ("-", "-") if paper is None else (f"{paper[0]:.1f}", f"{paper[1]:.1f}")
        cell = item.to_json()
        line = f"{names[item.protocol]:22}{success_text(cell):24}{rate:>8}    {steps_text(cell):24}{steps:>8}"
        out.print(line)
