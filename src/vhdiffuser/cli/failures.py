"""`vhd failures`: execute the failed instances of a benchmark again, classify and draw them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.files import atomic_path
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.failures import Failure

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Failures:
    """Repeat the failed instances of a benchmark, and classify, count and draw the failures.

    Kinds: horizon (too few steps), plan (through a wall), endpoint (does not end at the goal), fall (the robot fell),
    time (the step budget ended first), tracking (a good plan that was not followed). Examples:

        vhd failures maze2d-large --out out/failures
        vhd failures maze2d-large --protocol rp --json
        vhd failures antmaze-giant-stitch --protocol ogbench
        vhd failures maze2d-umaze --planner my_planner.py:MyPlanner
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    rows: Path = Path("results")
    """Folder of rows written by `vhd bench`."""
    method: str = "vhd"
    """Method to analyse."""
    planner: Omittable[str] = None
    """Third-party planner to analyse instead, as file.py:name or package.module:name."""
    protocol: Literal["ss", "rp", "ogbench"] = "ss"
    """Protocol under which they failed."""
    distribution: Literal["reset", "uniform", "pairs"] = "reset"
    """How the instances were drawn; pairs: your own (`vhd bench --instances`)."""
    out: Omittable[Path] = None
    """Folder for failures.png and failures.json (default: nothing is written)."""
    max: int = 24
    """Number of failures in the figure, taken from each kind in turn."""
    video: Omittable[Literal["top", "camera"]] = None
    """Also write a GIF of each failure in the figure: drawn from above with its plans, or through the camera."""
    speed: Omittable[float] = None
    """Maximum speed in units per control step, without a limit on acceleration (default: the data's maximum)."""
    weights: Source = "auto"
    """Where to look first for the models behind the rows: auto, or a folder of weights."""
    workers: int = 0
    """Simulator processes; 0 means one per core."""
    json: bool = False
    """Print counts and failures as one JSON object."""
    quiet: bool = False
    """No progress bar, no messages."""

    def run(self) -> None:
        """Execute again, count and draw."""
        from vhdiffuser.benchmark.choices import Choices
        from vhdiffuser.benchmark.repeating import repeat_failures

        choices = Choices(self.env, (self.method,), source=self.weights)
        if self.planner is not None:
            choices = Choices(self.env, planners=(self.planner,), source=self.weights)
        with progress_bar(f"failures of {self.env}", "runs", self.quiet) as progress:
            repeated = repeat_failures(
                self.rows,
                choices,
                self.protocol,
                self.distribution,
                speed=self.speed,
                workers=self.workers,
                on_done=progress,
            )
        if not repeated.same_models and not self.quiet:
            what = "weights" if self.planner is None else "planner and controller"
            err.print(f"the {what} behind the rows were not found, so plans may differ from theirs")
        answer = repeated.to_json()
        if self.json:
            print_json(answer)
        else:
            self._print(answer, repeated.failures)
        if self.out is not None:
            self._write(self.out, answer, repeated.failures, repeated.cell.config)

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
        if other := [failure.name for failure in failures if not failure.same_plan]:
            out.print(f"  {len(other)} were planned with other lengths than in the rows: instances {', '.join(other)}")

    def _write(self, folder: Path, answer: dict[str, Any], failures: list[Failure], config: dict[str, Any]) -> None:
        from vhdiffuser.benchmark.failures import pick
        from vhdiffuser.report.failure_figures import draw_failures

        with atomic_path(folder / "failures.json") as temporary:
            temporary.write_text(json.dumps(answer, indent=1) + "\n")
        written = [folder / "failures.json"]
        if shown := pick(failures, self.max):
            titled = [(f"{f.name}: {f.kind}, L = {f.length}, missed by {f.final_distance:.3f}", f.kept) for f in shown]
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
