"""`vhd reproduce ENV` or `all`: data, all networks, the benchmark and the report, in one resumable command.

Commands run as a graph, each as soon as its dependencies are done, on this machine's cores or on a cluster; or one
after another.
"""

from __future__ import annotations

import io
import json
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.devices import is_cpu
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.workers import available_cores

if TYPE_CHECKING:
    from vhdiffuser.benchmark.reproduction import Step

ALL = "all"
"""Means every environment."""
STOPPED = 128
"""Exit codes from here on mean that a signal ended the command (130: Ctrl-C)."""

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


def _one_per_core() -> int:
    """Number of commands that run best at a time here: threads of one training wait for each other, commands do not."""
    cores = available_cores()
    return cores if cores > 1 and is_cpu("auto") else 0


def _after(needs: list[str]) -> str:
    """What a command waits for: the names of up to three others, or their number."""
    if not needs:
        return ""
    return f"   (after {', '.join(needs) if len(needs) <= 3 else f'{len(needs)} other commands'})"


def run_command(arguments: list[str]) -> dict[str, Any]:
    """Run one `vhd` command in this process, without a progress bar; returns its output, or raises `VhdError`."""
    from vhdiffuser.cli import run

    asked = [*arguments, *([] if arguments[0] == "report" else ["--quiet"]), "--json"]
    begun = time.monotonic()
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as said:
        code = run(asked)
    if code:
        raise VhdError(f"`vhd {' '.join(arguments)}` ended with code {code}: {said.getvalue().strip()[-500:]}")
    return {"seconds": round(time.monotonic() - begun, 1), "result": json.loads(printed.getvalue())}


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's column of one environment, or of all, from scratch: data, training, benchmark, report.

    Each part is a resumable `vhd` command, printed before it runs; existing networks are not trained again. If
    interrupted, run the same command again. Examples:

        vhd reproduce maze2d-umaze
        vhd reproduce maze2d-umaze --dry-run                   print the commands without running them
        vhd reproduce maze2d-large --no-baselines --n 200
        vhd reproduce maze2d-umaze --dry-run --json            the same list as JSON
        vhd reproduce all --ray auto                           everything, on a Ray cluster
        vhd reproduce all --workers 4                          everything, four commands at a time here
        vhd reproduce maze2d-umaze --workers 0                 one after the other, each with its own progress bar
    """

    env: Positional[Name]
    """Environment (see `vhd envs`), or `all` for all whose simulator is installed."""
    baselines: bool = True
    """Include the fixed-horizon baselines FH-H1, FH-H2, FH-H3 and FH+LP."""
    n: int = 1000
    """Instances per cell and seed."""
    seeds: tuple[int, ...] = (100, 101, 102)
    """Test seeds per cell, pooled; nothing was tuned on the default ones."""
    out: Path = Path("results")
    """Folder for the rows and the report."""
    ray: Omittable[str] = None
    """Run on a Ray cluster (extra `ray`): its address, or auto for the one running here. Methods and seeds run in
    parallel; all nodes must see the same VHD_HOME and output folder."""
    workers: Omittable[int] = None
    """Without a cluster: number of single-threaded commands to run at a time; 0 runs one command after the other on
    all cores. (default: one per core, which is faster; 0 if there is a GPU)"""
    gpus: float = 0
    """GPUs per training on the cluster."""
    dry_run: bool = False
    """Print the commands without running them."""
    json: bool = False
    """Print a JSON list: each command, whether it was done, its seconds and its result."""
    quiet: bool = False
    """No progress bars, no messages."""

    def run(self) -> None:
        """Run what is missing."""
        from vhdiffuser.benchmark.reproduction import Reproduction, reproducible

        chosen = reproducible() if self.env == ALL else [get_environment(self.env)]
        reproduction = Reproduction(self.out, self.baselines, self.n, self.seeds)
        workers = _one_per_core() if self.workers is None else self.workers
        if self.ray is None and not workers:
            self._run_in_turn(reproduction.in_turn(chosen))
        else:
            self._run_graph(reproduction.graph(chosen), workers)

    def _run_in_turn(self, commands: list[list[str]]) -> None:
        record: list[dict[str, Any]] = []
        try:
            for arguments in commands:
                self._say(f"$ vhd {' '.join(arguments)}")
                record.append({"command": f"vhd {' '.join(arguments)}", "done": False})
                if not self.dry_run:
                    self._run_one(arguments, record[-1])
        finally:  # print what was done even if a command failed or was stopped
            if self.json:
                print_json(record)

    def _run_graph(self, steps: dict[str, Step], workers: int) -> None:
        from vhdiffuser.cluster import GraphTask, make_pool, run_graph

        entries: dict[str, dict[str, Any]] = {
            name: {"command": f"vhd {' '.join(step.command)}", "needs": list(step.needs), "done": False}
            for name, step in steps.items()
        }
        try:
            if self.dry_run:
                for entry in entries.values():
                    self._say(f"$ {entry['command']}{_after(entry['needs'])}")
                return
            tasks = {
                name: GraphTask(
                    run_command, (step.command,), step.needs, self.gpus if step.command[0] == "train" else 0
                )
                for name, step in steps.items()
            }
            with progress_bar(f"reproduce {self.env}", "commands", self.quiet) as progress:
                progress(0, len(tasks))
                for number, (name, told) in enumerate(run_graph(tasks, make_pool(self.ray, workers)), start=1):
                    entries[name] |= {"done": True, **told}
                    progress(number, len(tasks), note=name)
        finally:
            if self.json:
                print_json(list(entries.values()))

    def _run_one(self, arguments: list[str], entry: dict[str, Any]) -> None:
        """Run one command and record its outcome in `entry`."""
        from vhdiffuser.cli import run

        asked = list(arguments)
        if self.quiet and arguments[0] != "report":  # `report` has no progress bar
            asked.append("--quiet")
        begun = time.monotonic()
        if self.json:
            with redirect_stdout(io.StringIO()) as printed:
                code = run([*asked, "--json"])
        else:
            code = run(asked)
        entry["seconds"] = round(time.monotonic() - begun, 1)
        if code >= STOPPED:  # the command has printed how to continue
            raise SystemExit(code)
        if code:
            raise VhdError(
                f"`vhd {' '.join(arguments)}` ended with code {code}; see above. Run this again to continue."
            )
        entry["done"] = True
        if self.json:
            entry["result"] = json.loads(printed.getvalue())

    def _say(self, text: str) -> None:
        """Print the command about to run: on stdout, unless JSON goes there."""
        if not self.quiet or (self.dry_run and not self.json):
            (err if self.json else out).print(text, style="bold", highlight=False)
