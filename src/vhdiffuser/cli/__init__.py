"""The command `vhd`: parse, call the library, print.

Each command is a frozen dataclass in a module of this package, parsed by tyro and imported only when
it runs, so that `vhd --help` does not wait for torch and MuJoCo.
"""

from __future__ import annotations

import difflib
import gc
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from typing import Any

from vhdiffuser.errors import TRAINING_PACKAGES, Interrupted, MissingExtraError, VhdError, VhdWarning
from vhdiffuser.signals import STOPPING, interrupt_on_signals

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("vhdiffuser.cli.demo:Demo", "run the shipped weights and compare with the paper's results"),
    "models": ("vhdiffuser.cli.models:Models", "list the shipped weights with their results; export your own"),
    "envs": ("vhdiffuser.cli.envs:Envs", "list the environments and their settings"),
    "data": ("vhdiffuser.cli.data:Data", "download, build, import, inspect and draw datasets"),
    "train": ("vhdiffuser.cli.train:Train", "train a planner, a Length Predictor or an inverse dynamics model"),
    "recipes": ("vhdiffuser.cli.recipes:Recipes", "show recipes: networks, training and planning options"),
    "plan": ("vhdiffuser.cli.plan:PlanCommand", "plan from a start to a goal; write an image, JSON, CSV or GIF"),
    "export": ("vhdiffuser.cli.export:Export", "export ONNX models for computers without torch or Python"),
    "bench": ("vhdiffuser.cli.bench:Bench", "run the paper's methods and protocols on random instances"),
    "analyse": (
        "vhdiffuser.cli.analyse:Analyse",
        "the paper's analyses: crops, strides, length mismatch, unseen lengths, ablation of the Length Predictor, "
        "training seeds, learning curves",
    ),
    "report": ("vhdiffuser.cli.bench:Report", "make tables and figures from benchmark results"),
    "leaderboard": (
        "vhdiffuser.cli.leaderboard:Leaderboard",
        "rank planners, including third-party ones, from benchmark rows",
    ),
    "sweep": (
        "vhdiffuser.cli.sweep:SweepCommand",
        "train and compare a grid of recipe settings",
    ),
    "reproduce": (
        "vhdiffuser.cli.reproduce:Reproduce",
        "reproduce one environment or all: data, training, benchmark, report",
    ),
    "calibrate": (
        "vhdiffuser.cli.calibrate:Calibrate",
        "learn the probability of arriving within a horizon, to plan for a given risk or deadline",
    ),
    "eval-length": ("vhdiffuser.cli.eval_length:EvalLength", "evaluate a Length Predictor against true distances"),
    "eval-plans": ("vhdiffuser.cli.eval_plans:EvalPlans", "compare plans with held-out episodes; no simulator needed"),
    "eval-dynamics": (
        "vhdiffuser.cli.eval_dynamics:EvalDynamics",
        "evaluate an inverse dynamics model on held-out data",
    ),
    "failures": (
        "vhdiffuser.cli.failures:Failures",
        "classify and draw the failed instances of a benchmark",
    ),
    "serve": (
        "vhdiffuser.cli.serve:Serve",
        "open the web page: move the goal and watch horizon, plan and execution",
    ),
    "import-diffuser": (
        "vhdiffuser.cli.import_diffuser:ImportDiffuser",
        "import a checkpoint of the original Diffuser",
    ),
    "completion": ("vhdiffuser.cli.completion:Completion", "print a completion script for bash, zsh, tcsh or fish"),
}

_SIGPIPE = 13
_REFERENCE = re.compile(r"(.+\.py|[A-Za-z_]\w*(\.\w+)+):[A-Za-z_]\w*")
"""A reference to an environment: a file, or a module with a dot in its name, and an attribute."""
_NAMELESS = ("serve", "envs", "report", "completion")
"""Commands without an environment argument, which use everything registered."""
_WITH_NAME = {"models": {"export", "archive", "adopt"}, "recipes": {"show"}}
"""Commands of which only these subcommands have an environment argument."""
_BY_OPTION = {"import-diffuser": "--env", "demo": "--env", "leaderboard": "--envs"}
"""Commands with their own option for environments."""

EXAMPLES = """\
examples:
  vhd demo                              plans, executions and numbers of the shipped weights
  vhd envs                              list the environments
  vhd data get maze2d-umaze             get its dataset: official, or regenerated
  vhd data info maze2d-umaze --json     describe the dataset
  vhd train planner maze2d-umaze        train a variable-horizon diffusion planner (resumable)
  vhd train length maze2d-umaze         train its Length Predictor
  vhd plan maze2d-umaze --start 1 1 --goal 3 1 --out plan.png
  vhd bench maze2d-umaze --methods vhd --n 100

ENV is the name of an environment (`vhd envs`) or imported dataset, or your own environment: my_robot.py:make"""


def main() -> None:
    """Entry point of `vhd`."""
    # Signals are handled like Ctrl-C: files are closed, worker processes end, and the message says how to continue.
    interrupt_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # paths may contain bytes that are not valid text
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    for number in STOPPING:  # there is nothing left to stop
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # nothing left to collect: with torch loaded, a collection would take a second
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command. Returns 0 on success, 1 on an error, 2 for an invalid command line, 128 + n after signal n.

    A closed output pipe (`vhd envs | head -1`) counts as SIGPIPE, as for other programs.
    """
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 128 + _SIGPIPE
    except OSError as error:  # standard output on a full disk
        _drop_output()
        print(f"vhd: the output cannot be written ({error}).", file=sys.stderr)
        return 1
    return code


def _drop_output() -> None:
    """Discard the rest of the output; otherwise Python would try to write it again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
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
    except VhdError as error:
        print(f"vhd: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in TRAINING_PACKAGES:
            raise
        print(f"vhd: {MissingExtraError('train', f'vhd {name}')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        interrupted = stop if isinstance(stop, Interrupted) else Interrupted(signal.SIGINT)
        print(f"vhd: {interrupted}", file=sys.stderr)
        return 128 + interrupted.signal
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"vhd: {error}. Check that path, its disk and your permissions.", file=sys.stderr)
        return 1
    except MemoryError:
        print("vhd: out of memory. Use a smaller size or batch, or close other programs.", file=sys.stderr)
        return 1
    except SystemExit as stop:  # tyro: 0 after --help, 2 after an invalid option
        return stop.code if isinstance(stop.code, int) else 2
    return 0


def _with_references(command: str, arguments: list[str]) -> list[str]:
    """Register the environments that arguments refer to (`my_robot.py:make`, `--env package.module:make`).

    A reference is replaced by its environment's name. References of `--planner` are left as they are.
    """
    found: list[str] = []
    rest = iter(arguments)
    planners = False
    for argument in rest:
        option, equals, value = argument.partition("=")
        planners = option == "--planner" if argument.startswith("-") else planners
        if planners:
            found.append(argument)
            continue
        given = option == "--env"
        reference = (value if equals else next(rest, "")) if given else argument
        if not given and not _REFERENCE.fullmatch(reference):
            found.append(argument)
            continue
        from vhdiffuser.envs.registry import get_environment

        name = get_environment(reference).name
        if command not in _NAMELESS and not _WITH_NAME.get(command, set(arguments)).isdisjoint(arguments):
            found += [_BY_OPTION[command], name] if given and command in _BY_OPTION else [name]
    return found


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """Print our own warnings as one line on stderr, each message once; others as usual."""
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
    """The command with its options; SystemExit after --help (0) or an invalid command line (2)."""
    import tyro

    from vhdiffuser.cli.options import REGISTRY

    command = load_command(name)
    made = command.parse(arguments) if hasattr(command, "parse") else command
    described = None if made is command else command.__doc__
    return tyro.cli(made, args=arguments, prog=f"vhd {name}", description=described, registry=REGISTRY)


def load_command(name: str) -> type:
    """The dataclass behind a command."""
    module, attribute = COMMANDS[name][0].split(":")
    return getattr(import_module(module), attribute)


def _overview() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: vhd COMMAND [options]      (details: vhd COMMAND --help)",
            "",
            "Plan trajectories with a diffusion model whose horizon is learned.",
            "",
            "commands:",
            *lines,
            "",
            EXAMPLES,
        ]
    )
