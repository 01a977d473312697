"""`vhd failures`: execute the failed instances of a benchmark again, classify and draw them."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.cli.bench import Bench
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import ClippedLengthWarning, VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.results.configs import FOREIGN
from vhdiffuser.weights.places import SOURCES, Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.failures import Facts, Failure
    from vhdiffuser.benchmark.methods import AnyChoice
    from vhdiffuser.control.base import Controller
    from vhdiffuser.data.motion import FastestMotion

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Failures:
    """Repeat the failed instances of a benchmark; count and draw the kinds of failure.

    Kinds: horizon (too few steps), plan (through a wall), endpoint (does not end at the goal), fall (the robot
    fell), tracking (a good plan that was not followed). Examples:

        vhd failures maze2d-large --out out/failures
        vhd failures maze2d-large --protocol rp --json
        vhd failures maze2d-umaze --planner my_planner.py:MyPlanner
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    rows: Path = Path("results")
    """Folder of rows written by `vhd bench`."""
    method: str = "vhd"
    """Method to analyse."""
    planner: str | None = None
    """Planner of anybody's to analyse instead, as file.py:name or package.module:name."""
    protocol: Literal["ss", "rp"] = "ss"
    """Protocol under which they failed."""
    distribution: Literal["reset", "uniform", "pairs"] = "reset"
    """How the instances were drawn; pairs: your own (`vhd bench --instances`)."""
    out: Path | None = None
    """Folder for failures.png and failures.json (default: nothing is written)."""
    max: int = 24
    """Number of failures in the picture, taken from each kind in turn."""
    video: Literal["top", "camera"] | None = None
    """Also write a GIF of each failure in the picture: drawn from above with its plans, or by the camera."""
    speed: float | None = None
    """Maximum speed in units per control step, without acceleration limit (default: the data's maximum)."""
    weights: Source = "auto"
    """Where to look first for the models behind the rows: auto, or a folder of weights."""
    workers: int = 0
    """Simulator processes; 0: one per core."""
    json: bool = False
    """Print counts and failures as one JSON object."""
    quiet: bool = False
    """No progress bar and no messages."""

    def run(self) -> None:
        """Execute again, count, draw."""
        from vhdiffuser.benchmark.failures import count_kinds, failed_rows, run_again
        from vhdiffuser.execution.simulators import Simulators
        from vhdiffuser.results.cells import read_cell

        environment = get_environment(self.env)
        environment.require_simulator()
        spec = environment.spec
        method = self.method
        if self.planner is not None:
            (method,) = Bench(self.env, planner=(self.planner,)).foreign()
        cell = read_cell(self.rows, spec.name, method, self.protocol, self.distribution)
        total = sum(len(failed_rows(results)) for results in cell.files)
        failures: list[Failure] = []
        choice, controller, same = self._models(method, cell.config)
        if not same and not self.quiet:
            what = "weights" if self.planner is None else "planner and controller"
            err.print(f"the {what} behind the rows were not found, so plans may differ from theirs")
        if total:
            simulator, env = environment.require_simulator(), environment.make()
            slots = min(environment.simulators, total)
            with (
                Simulators(simulator, slots, self.workers, environment.make()) as simulators,
                progress_bar(f"failures of {spec.name}", "runs", self.quiet) as progress,
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore", ClippedLengthWarning)  # clipped lengths count as `horizon`
                facts = self._facts(choice)
                for results in cell.files:
                    for failure in run_again(results, choice.planner, controller, simulators, env, facts):
                        failures.append(failure)
                        progress(len(failures), total)
        failures.sort(key=lambda failure: (failure.seed, failure.kept.number))
        counts, repaired = count_kinds(failures), [_name(failure) for failure in failures if failure.kind is None]
        answer = {
            "environment": spec.name,
            "method": method,
            "protocol": self.protocol,
            "distribution": self.distribution,
            "seeds": list(cell.seeds),
            "instances": len(cell.rows),
            "failures": total,
            "same_weights": same,
            "kinds": counts,
            "did_not_fail_again": repaired,
            "runs": [failure.to_json() for failure in failures],
        }
        if self.json:
            print_json(answer)
        else:
            self._print(answer, failures)
        if self.out is not None:
            self._write(self.out, answer, failures, cell.config)

    def _models(self, method: str, config: dict[str, Any]) -> tuple[AnyChoice, Controller, bool]:
        """The planner and controller behind the rows, or else the available ones; and whether they are the same."""
        gains = {key: config["controller"].get(key) for key in ("position_gain", "velocity_gain")}
        if self.planner is None and FOREIGN in config:
            raise VhdError(f"'{method}' is not a planner of ours: give --planner {config[FOREIGN].get('reference')}.")
        # Older rows do not list every option; the planner's are used then.
        names = ("sampler", "gamma", "smoothing", "stretch", "candidates", "piece", "tube", "risk")
        options: dict[str, Any] = {key: config.get(key) for key in names}
        candidates = [
            Bench(
                self.env,
                steps=config.get("sampler_steps"),
                planner=() if self.planner is None else (self.planner,),
                weights=source,
                controller=config["controller"]["name"],
                **options,
                **gains,
            )
            for source in (self.weights, *SOURCES)
        ]
        found, missing = [], None
        for bench in candidates:
            try:
                found.append((bench.choose(method, self.env), bench.make_controller()))
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

    def _facts(self, choice: AnyChoice) -> Facts:
        from vhdiffuser.benchmark.failures import Facts
        from vhdiffuser.benchmark.geodesic import make_geodesic

        environment = get_environment(self.env)
        motion = self._motion(choice)
        return Facts(
            environment=environment,
            scale=choice.planner.normalizer.scale,
            fastest=motion.speed,
            acceleration=motion.acceleration,
            geodesic=make_geodesic(environment),
        )

    def _motion(self, choice: AnyChoice) -> FastestMotion:
        """From --speed, the planner's file, or the dataset if the file is too old to have it."""
        from vhdiffuser.data.motion import FastestMotion, fastest_motion
        from vhdiffuser.envs.datasets import load_dataset
        from vhdiffuser.planner.foreign import ForeignPlanner
        from vhdiffuser.planner.planner import Planner

        if self.speed is not None:
            if not self.speed > 0:
                raise VhdError(f"the fastest speed must be above 0 units per step, got {self.speed}.")
            return FastestMotion(self.speed, float("inf"))
        assert isinstance(choice.planner, Planner | ForeignPlanner)
        spec = get_environment(self.env).spec
        return choice.planner.motion or fastest_motion(load_dataset(spec.name).episodes, spec)

    def _print(self, answer: dict[str, Any], failures: list[Failure]) -> None:
        method, failed, total = (answer[key] for key in ("method", "failures", "instances"))
        out.print(f"{self.env} {method} {self.protocol}: {failed} of {total} instances failed")
        again = answer["failures"] - len(answer["did_not_fail_again"])
        for kind, count in answer["kinds"].items():
            of_kind = [failure for failure in failures if failure.kind == kind]
            note = ""
            if of_kind:
                note = (
                    f"  median: L {np.median([f.length for f in of_kind]):.0f}, "
                    f"missed by {np.median([f.final_distance for f in of_kind]):.3f}, "
                    f"largest tracking error {np.median([f.tracking_error for f in of_kind]):.3f}"
                )
            out.print(f"  {kind:10}{count:5}  {count / max(again, 1):6.1%}{note}")
        if answer["did_not_fail_again"]:
            names = ", ".join(answer["did_not_fail_again"])
            out.print(f"  {len(answer['did_not_fail_again'])} did not fail again: instances {names}")
        if other := [_name(failure) for failure in failures if not failure.same_plan]:
            out.print(f"  {len(other)} were planned at other lengths than in the rows: instances {', '.join(other)}")

    def _write(self, folder: Path, answer: dict[str, Any], failures: list[Failure], config: dict[str, Any]) -> None:
        from vhdiffuser.benchmark.failures import pick
        from vhdiffuser.report.failure_figures import draw_failures

        with atomic_path(folder / "failures.json") as temporary:
            temporary.write_text(json.dumps(answer, indent=1) + "\n")
        written = [folder / "failures.json"]
        if shown := pick(failures, self.max):
            titled = [
                (f"{_name(f)}: {f.kind}, L = {f.length}, missed by {f.final_distance:.3f}", f.kept) for f in shown
            ]
            written.append(draw_failures(titled, config, folder / "failures.png"))
        if self.video is not None:
            from vhdiffuser.report.video import write_rollout

            env = get_environment(self.env).make()
            for f in shown:
                path = folder / f"{f.seed}-{f.kept.number:04d}-{f.kind}.gif"
                written.append(write_rollout(env, f.kept, path, self.video))
        if not self.quiet:
            for path in written:
                err.print(f"wrote {path}")


def _name(failure: Failure) -> str:
    """`SEED/INSTANCE`."""
    return f"{failure.seed}/{failure.kept.number}"
