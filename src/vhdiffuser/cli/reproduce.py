"""`vhd reproduce ENV`: data, all networks, the benchmark and the report, in one resumable command."""

from __future__ import annotations

import io
import json
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.benchmark.methods import TABLE_METHODS
from vhdiffuser.console import err, out, print_json
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.weights.places import find_model

STOPPED = 128
"""Exit codes from here on mean that a signal ended the command (130: Ctrl-C)."""

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper's column of one environment from scratch: data, training, benchmark, report.

    Each part is a `vhd` command, printed before it runs and resumable; existing networks are not trained again. After
    an interruption, run the same command again. Examples:

        vhd reproduce maze2d-umaze
        vhd reproduce maze2d-umaze --dry-run                   print the commands without running them
        vhd reproduce maze2d-large --no-baselines --n 200
        vhd reproduce maze2d-umaze --dry-run --json            the same list as JSON
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    baselines: bool = True
    """Include the fixed-horizon baselines FH-H1, FH-H2, FH-H3 and FH+LP."""
    n: int = 1000
    """Instances per cell and seed."""
    seeds: tuple[int, ...] = (100, 101, 102)
    """Test seeds per cell, pooled; nothing was tuned on the default ones."""
    out: Path = Path("results")
    """Folder for the rows and the report."""
    dry_run: bool = False
    """Print the commands without running them."""
    json: bool = False
    """Print a JSON list: each command, whether it was done, its seconds and its result."""
    quiet: bool = False
    """No progress bars and no messages."""

    def run(self) -> None:
        """Run what is missing."""
        environment = get_environment(self.env)
        record: list[dict[str, Any]] = []
        try:
            for arguments in self.commands(environment):
                self._say(f"$ vhd {' '.join(arguments)}")
                record.append({"command": f"vhd {' '.join(arguments)}", "done": False})
                if not self.dry_run:
                    self._run_one(arguments, record[-1])
        finally:  # print what was done even if a command failed or was stopped
            if self.json:
                print_json(record)

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
        if environment.controller == "inverse_dynamics":
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
