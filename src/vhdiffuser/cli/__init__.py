"""The command `vhd`. Thin: parse, call, print.

Each command is a frozen dataclass in a module of this package, parsed by tyro and imported only when
it is called, so that `vhd --help` does not wait for torch and MuJoCo.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from vhdiffuser.errors import Interrupted, VhdError, VhdWarning

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("vhdiffuser.cli.demo:Demo", "the shipped weights at work, beside the paper's numbers"),
    "models": ("vhdiffuser.cli.models:Models", "the weights that ship, with their numbers; export your own"),
    "envs": ("vhdiffuser.cli.envs:Envs", "the environments and their settings"),
    "data": ("vhdiffuser.cli.data:Data", "get, build, import, look at and draw datasets"),
    "train": ("vhdiffuser.cli.train:Train", "train a planner, a Length Predictor or an inverse dynamics model"),
    "recipes": ("vhdiffuser.cli.recipes:Recipes", "what a training is given: networks, loop and planning, as values"),
    "plan": ("vhdiffuser.cli.plan:PlanCommand", "plan from a start to a goal, as a picture, JSON, CSV or GIF"),
    "bench": ("vhdiffuser.cli.bench:Bench", "the paper's methods and protocols on random instances, row by row"),
    "report": ("vhdiffuser.cli.bench:Report", "the paper's table beside ours, and figures, from those rows"),
    "reproduce": ("vhdiffuser.cli.reproduce:Reproduce", "all of it for one environment: data, training, bench, report"),
    "eval-length": ("vhdiffuser.cli.eval_length:EvalLength", "evaluate a Length Predictor against true distances"),
    "eval-plans": ("vhdiffuser.cli.eval_plans:EvalPlans", "compare plans with held-out episodes; no simulator needed"),
    "eval-dynamics": (
        "vhdiffuser.cli.eval_dynamics:EvalDynamics",
        "evaluate an inverse dynamics model on held-out data",
    ),
    "failures": (
        "vhdiffuser.cli.failures:Failures",
        "the failed instances of a benchmark, sorted into kinds and drawn",
    ),
    "serve": (
        "vhdiffuser.cli.serve:Serve",
        "a page: move the goal, watch horizon, plan and execution follow",
    ),
    "import-diffuser": ("vhdiffuser.cli.import_diffuser:ImportDiffuser", "use a checkpoint of the original Diffuser"),
    "completion": ("vhdiffuser.cli.completion:Completion", "a completion script for bash, zsh, tcsh or fish"),
}

_REFERENCE = re.compile(r"(.+\.py|[A-Za-z_]\w*(\.\w+)+):[A-Za-z_]\w*")
"""An environment by where it is: a file or a module with a dot in its name, and what in it."""
_NAMELESS = ("serve", "envs", "report", "completion")
"""Commands that take no environment's name: what is registered is theirs."""
_BY_OPTION = ("import-diffuser", "demo")
"""Commands that have an option `--env` of their own."""

EXAMPLES = """\
examples:
  vhd demo                              the shipped weights: plans, executions, numbers
  vhd envs                              what there is to plan in
  vhd data get maze2d-umaze             its dataset: the official one, or a regeneration
  vhd data info maze2d-umaze --json     what is in it
  vhd train planner maze2d-umaze        a variable-horizon diffusion planner (resumable)
  vhd train length maze2d-umaze         its Length Predictor
  vhd plan maze2d-umaze --start 1 1 --goal 3 1 --out plan.png
  vhd bench maze2d-umaze --methods vhd --n 100

ENV is a name (`vhd envs`), an imported dataset's, or your own environment: my_robot.py:make"""


def main() -> None:
    """Entry point of `vhd`."""
    # As Ctrl-C does: what is open is closed, worker processes end, and the message says how to go on.
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted(number)


def run(arguments: list[str]) -> int:
    """Run one command; 0 is success, 1 an error that the message explains, 2 a wrong command line, 128 + n signal n."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if name == "--version":
        print(f"vhd {version('vhdiffuser')}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        print(f"vhd: unknown command '{name}'.{hint} Known: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    try:
        with _warnings_in_words():
            parse(name, _with_references(name, rest)).run()
        sys.stdout.flush()
    except VhdError as error:
        print(f"vhd: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        interrupted = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
        print(f"vhd: {interrupted}", file=sys.stderr)
        return 128 + interrupted.signal
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as stop:  # tyro: 0 after --help, 2 after a wrong option
        return stop.code if isinstance(stop.code, int) else 2
    return 0


def _with_references(command: str, arguments: list[str]) -> list[str]:
    """Register the environments that arguments refer to (`my_robot.py:make`, `--env package.module:make`).

    A reference stands for its environment's name, where the command asks for one.
    """
    found: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        given = option == "--env"
        reference = (value if equals else next(rest, "")) if given else argument
        if not given and not _REFERENCE.fullmatch(reference):
            found.append(argument)
            continue
        from vhdiffuser.envs.registry import get_environment

        name = get_environment(reference).name
        if command not in _NAMELESS:
            found += ["--env", name] if given and command in _BY_OPTION else [name]
    return found


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Print our own warnings as one line on stderr, each text once; others as Python does."""
    shown: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, VhdWarning):
                usual(message, category, *where, **more)
            elif str(message) not in shown:
                shown.add(str(message))
                print(f"vhd: warning: {message}", file=sys.stderr)

        warnings.showwarning = show
        warnings.simplefilter("always", VhdWarning)
        yield


def parse(name: str, arguments: list[str]) -> Any:
    """The command with its options; SystemExit after --help (0) or a wrong command line (2)."""
    import tyro

    command = load_command(name)
    made = command.parse(arguments) if hasattr(command, "parse") else command
    return tyro.cli(made, args=arguments, prog=f"vhd {name}")


def load_command(name: str) -> type:
    """The dataclass behind a command."""
    module, attribute = COMMANDS[name][0].split(":")
    return getattr(import_module(module), attribute)


def _overview() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: vhd COMMAND [options]      (vhd COMMAND --help tells more)",
            "",
            "Plan trajectories with a diffusion model whose horizon is learned.",
            "",
            "commands:",
            *lines,
            "",
            EXAMPLES,
        ]
    )
