"""Commands that reproduce the paper's column of an environment, and their dependencies.

Commands are lists of arguments of `vhd`: they can be printed, run one by one, or sent to a cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vhdiffuser.benchmark.methods import TABLE_METHODS, get_method
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environments, get_environment, reference_of
from vhdiffuser.planner.calibrated import FILE
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.weights.places import find_model

Command = list[str]
"""Arguments of `vhd`."""


@dataclass(frozen=True)
class Step:
    """A command and the names of those it depends on."""

    command: Command
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce for each environment."""

    out: Path = Path("results")
    """Folder for the rows and the report."""
    baselines: bool = True
    """Whether to include the fixed-horizon baselines."""
    n: int = 1000
    """Instances per cell and seed."""
    seeds: tuple[int, ...] = (100, 101, 102)
    """Test seeds per cell."""

    def commands(self, environment: Environment) -> list[Command]:
        """Commands with missing results, and the benchmark, which skips finished rows itself."""
        env = reference_of(environment.name)  # the command may run in another process
        found: list[Command] = []
        if not dataset_path(environment.name).is_file():
            found.append(["data", "get", env])
        trainings = [command for path, command in self._trainings(environment).items() if not path.is_file()]
        found += trainings
        if trainings or not find_model(environment.name, "planner", "trained").with_name(FILE).is_file():
            found.append(["calibrate", env, "--weights", "trained"])
        if environment.simulator is None:  # evaluated on held-out episodes
            return [*found, ["eval-length", env], ["eval-plans", env]]
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
        return [*found, self.report]

    @property
    def report(self) -> Command:
        """The command that makes tables and figures from all rows."""
        return ["report", str(self.out)]

    def in_turn(self, chosen: Sequence[Environment]) -> list[Command]:
        """The commands of several environments in sequence, with one report at the end."""
        commands = [command for environment in chosen for command in self.commands(environment)]
        others = [command for command in commands if command != self.report]
        return [*others, self.report] if len(others) < len(commands) else others

    def graph(self, chosen: Sequence[Environment]) -> dict[str, Step]:
        """The same as a graph of single-threaded commands; benchmarks are split by method and seed."""
        steps: dict[str, Step] = {}
        for environment in chosen:
            steps |= _graph(self.commands(environment), get_recipe(environment).planner.directness is not None)
        if benches := tuple(name for name in steps if name.startswith("bench ")):
            steps["report"] = Step(self.report, benches)
        return steps

    def _trainings(self, environment: Environment) -> dict[Path, Command]:
        """Training commands by the model file each produces."""
        name, env = environment.name, reference_of(environment.name)
        planner = ["train", "planner", env]
        trainings: dict[Path, Command] = {
            find_model(name, "length", "trained"): ["train", "length", env],
            find_model(name, "planner", "trained"): planner,
        }
        if environment.simulator is None:
            return trainings
        if environment.learns_control:
            trainings[find_model(name, "dynamics", "trained")] = ["train", "dynamics", env]
        for horizon in environment.horizons if self.baselines else ():
            path = find_model(name, "planner", "trained", horizon)
            trainings[path] = [*planner, "--horizon", str(horizon)]
        return trainings


def reproducible() -> list[Environment]:
    """Environments that can be simulated on this machine."""
    known = [environment for environment in environments().values() if environment.simulator is not None]
    return [environment for environment in known if environment.missing_extra is None]


def _graph(commands: Sequence[Command], selects_crops: bool) -> dict[str, Step]:
    """The commands of one environment, without the report, as a graph.

    `selects_crops`: the planner's training needs the Length Predictor to select direct crops.
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
            before = ("data ", "train ", "calibrate ")
            for part in _divided(command):
                own = [name for name in steps if name.startswith(before) and _uses(part, steps[name])]
                alone = ["--workers", "1"] if part[0] in ("bench", "calibrate") else []
                steps[_name(part)] = Step([*part, *alone], tuple(own))
    return steps


def _name(command: Command) -> str:
    return " ".join(command)


def _divided(command: Command) -> list[Command]:
    """Split a benchmark of several methods and seeds into one per method and seed, each with its own results file."""
    if command[0] != "bench":
        return [command]
    lists = {name: _values(command, name) for name in ("--methods", "--seeds")}
    rest = list(command)
    for name, values in lists.items():
        at = rest.index(name)
        del rest[at : at + 1 + len(values)]
    return [[*rest, "--methods", method, "--seeds", seed] for method in lists["--methods"] for seed in lists["--seeds"]]


def _values(command: Command, option: str) -> list[str]:
    after = command[command.index(option) + 1 :]
    return list(itertools.takewhile(lambda value: not value.startswith("--"), after))


def _uses(command: Command, step: Step) -> bool:
    """Whether a calibration, benchmark or evaluation depends on a step."""
    if step.command[0] == "calibrate":
        return command[0] == "eval-plans" or (command[0] == "bench" and "vhd" in _values(command, "--methods"))
    if step.command[:2] != ["train", "planner"] or command[0] not in ("bench", "calibrate"):
        return True
    name = "vhd" if command[0] == "calibrate" else _values(command, "--methods")[0]
    horizon = get_method(name).training_horizon(get_environment(command[1]))
    own = _values(step.command, "--horizon") if "--horizon" in step.command else []
    return own == ([] if horizon is None else [str(horizon)])
