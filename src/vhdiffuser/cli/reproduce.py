"""`vhd reproduce ENV` or `all`: data, all networks, the benchmark and the report, in one resumable command.

One after the other here, or on a cluster as a graph of commands, each as soon as what it needs is there.
"""

from __future__ import annotations

import io
import itertools
import json
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.benchmark.methods import TABLE_METHODS, get_method
from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.weights.places import find_model

ALL = "all"
"""Stands for every environment."""
STOPPED = 128
"""Exit codes from here on mean that a signal ended the command (130: Ctrl-C)."""

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Step:
    """A command, and the names of those that must have ended before it."""

    command: list[str]
    needs: tuple[str, ...] = ()


def graph_of(commands: list[list[str]], selects_crops: bool) -> dict[str, Step]:
    """The commands of one environment, without the report, as a graph. A benchmark is divided by method and seed.

    `selects_crops`: the planner's training asks the Length Predictor which crops are direct.
    """
    steps: dict[str, Step] = {}
    for command in commands:
        if command[0] == "data":
            steps[_name(command)] = Step([*command, "--workers", "1"])
        elif command[0] == "train":
            needs = [name for name in steps if name.startswith("data ")]
            if command[1] == "planner" and "--horizon" not in command and selects_crops:
                needs += [name for name in steps if name.startswith("train length ")]
            steps[_name(command)] = Step([*command, "--threads", "1"], tuple(needs))
        elif command[0] != "report":
            for part in _divided(command):
                own = [name for name in steps if name.startswith(("data ", "train ")) and _uses(part, steps[name])]
                steps[_name(part)] = Step([*part, "--workers", "1"] if part[0] == "bench" else part, tuple(own))
    return steps


def _name(command: list[str]) -> str:
    return " ".join(command)


def _divided(command: list[str]) -> list[list[str]]:
    """A benchmark of several methods and seeds as one for each: every one has results files of its own."""
    if command[0] != "bench":
        return [command]
    lists = {name: _values(command, name) for name in ("--methods", "--seeds")}
    rest = list(command)
    for name, values in lists.items():
        at = rest.index(name)
        del rest[at : at + 1 + len(values)]
    return [[*rest, "--methods", method, "--seeds", seed] for method in lists["--methods"] for seed in lists["--seeds"]]


def _values(command: list[str], option: str) -> list[str]:
    after = command[command.index(option) + 1 :]
    return list(itertools.takewhile(lambda value: not value.startswith("--"), after))


def _uses(command: list[str], step: Step) -> bool:
    """Whether a benchmark or evaluation needs what a step makes."""
    if step.command[:2] != ["train", "planner"] or command[0] != "bench":
        return True
    method, environment = get_method(_values(command, "--methods")[0]), get_environment(command[1])
    horizon = method.training_horizon(environment)
    own = _values(step.command, "--horizon") if "--horizon" in step.command else []
    return own == ([] if horizon is None else [str(horizon)])


def run_command(arguments: list[str]) -> dict[str, Any]:
    """Run one `vhd` command in this process, without a bar; what it printed, or `VhdError`."""
    from vhdiffuser.cli import run

    asked = [*arguments, *([] if arguments[0] == "report" else ["--quiet"]), "--json"]
    begun = time.monotonic()
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as said:
        code = run(asked)
    if code:
        raise VhdError(f"`vhd {' '.join(arguments)}` ended with code {code}: {said.getvalue().strip()[-500:]}")
    return {"seconds": round(time.monotonic() - begun, 1), "result": json.loads(printed.getvalue())}


def _all_environments() -> list[Environment]:
    """Those that can be built or downloaded, and simulated here."""
    known = [environment for environment in environments().values() if environment.simulator is not None]
    return [environment for environment in known if environment.missing_extra is None]


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's column of one environment, or of all, from scratch: data, training, benchmark, report.

    Each part is a `vhd` command, printed before it runs and resumable; existing networks are not trained again. After
    an interruption, run the same command again. Examples:

        vhd reproduce maze2d-umaze
        vhd reproduce maze2d-umaze --dry-run                   print the commands without running them
        vhd reproduce maze2d-large --no-baselines --n 200
        vhd reproduce maze2d-umaze --dry-run --json            the same list as JSON
        vhd reproduce all --ray auto                           everything, on a Ray cluster
        vhd reproduce all --workers 4                          everything, four commands at a time here
    """

    env: Positional[Name]
    """Environment: see `vhd envs`; `all` for every one whose simulator is installed."""
    baselines: bool = True
    """Include the fixed-horizon baselines FH-H1, FH-H2, FH-H3 and FH+LP."""
    n: int = 1000
    """Instances per cell and seed."""
    seeds: tuple[int, ...] = (100, 101, 102)
    """Test seeds per cell, pooled; nothing was tuned on the default ones."""
    out: Path = Path("results")
    """Folder for the rows and the report."""
    ray: str | None = None
    """Run on a Ray cluster (extra `ray`): its address, or auto for the one that runs here. Methods and seeds run side
    by side; all nodes must see the same VHD_HOME and output folder."""
    workers: int = 0
    """Without a cluster: commands at a time on this machine, of one thread each; 0: one command on all cores."""
    gpus: float = 0
    """GPUs of each training on the cluster."""
    dry_run: bool = False
    """Print the commands without running them."""
    json: bool = False
    """Print a JSON list: each command, whether it was done, its seconds and its result."""
    quiet: bool = False
    """No progress bars and no messages."""

    def run(self) -> None:
        """Run what is missing."""
        from vhdiffuser.recipes.recipe import get_recipe

        chosen = _all_environments() if self.env == ALL else [get_environment(self.env)]
        if self.ray is None and not self.workers:
            commands = [command for environment in chosen for command in self.commands(environment)]
            reports = [command for command in commands if command[0] == "report"][:1]  # one for all, in the end
            self._run_in_turn([*(command for command in commands if command[0] != "report"), *reports])
            return
        steps: dict[str, Step] = {}
        for environment in chosen:
            selects = get_recipe(environment).planner.directness is not None
            steps |= graph_of(self.commands(environment), selects)
        benches = tuple(name for name in steps if name.startswith("bench "))
        if benches:
            steps["report"] = Step(["report", str(self.out)], benches)
        self._run_graph(steps)

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

    def _run_graph(self, steps: dict[str, Step]) -> None:
        from vhdiffuser.cluster import GraphTask, make_pool, run_graph

        entries: dict[str, dict[str, Any]] = {
            name: {"command": f"vhd {' '.join(step.command)}", "needs": list(step.needs), "done": False}
            for name, step in steps.items()
        }
        try:
            if self.dry_run:
                for entry in entries.values():
                    after = f"   (after {', '.join(entry['needs'])})" if entry["needs"] else ""
                    self._say(f"$ {entry['command']}{after}")
                return
            tasks = {
                name: GraphTask(
                    run_command, (step.command,), step.needs, self.gpus if step.command[0] == "train" else 0
                )
                for name, step in steps.items()
            }
            with progress_bar(f"reproduce {self.env}", "commands", self.quiet) as progress:
                progress(0, len(tasks))
                for number, (name, told) in enumerate(run_graph(tasks, make_pool(self.ray, self.workers)), start=1):
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

    def commands(self, environment: Environment) -> list[list[str]]:
        """The commands whose results are missing, and the benchmark, which skips finished rows itself."""
        env = environment.name
        found: list[list[str]] = []
        if not dataset_path(env).is_file():
            found.append(["data", "get", env])
        planner = ["train", "planner", env]
        trainings: dict[Path, list[str]] = {
            find_model(env, "length", "trained"): ["train", "length", env],
            find_model(env, "planner", "trained"): planner,
        }
        if environment.simulator is None:  # evaluated on held-out episodes
            evaluations = [["eval-length", env], ["eval-plans", env]]
            return [*found, *(command for path, command in trainings.items() if not path.is_file()), *evaluations]
        if environment.learns_control:
            trainings[find_model(env, "dynamics", "trained")] = ["train", "dynamics", env]
        if self.baselines:
            for horizon in environment.horizons:
                path = find_model(env, "planner", "trained", horizon)
                trainings[path] = [*planner, "--horizon", str(horizon)]
        found += [command for path, command in trainings.items() if not path.is_file()]
        bench = ["bench", env, "--weights", "trained", "--n", str(self.n), "--seeds", *map(str, self.seeds)]
        bench += ["--out", str(self.out)]
        methods = ["--methods", *(TABLE_METHODS if self.baselines else ("vhd",))]
        found.append([*bench, *methods])
        found += [
            [*bench, *methods, "--distribution", drawn] for drawn in environment.distributions if drawn != "reset"
        ]
        for gamma in dict.fromkeys(protocol.gamma for protocol in environment.protocols.values()):
            names = [name for name, protocol in environment.protocols.items() if protocol.gamma == gamma]
            margin = [] if gamma is None else ["--gamma", str(gamma)]
            found.append([*bench, "--methods", "vhd", "--protocols", *names, *margin])
        found.append(["report", str(self.out)])
        return found
