"""The command `vhd`. Thin: parse, call, print.

Each command is a frozen dataclass in a module of this package, parsed by tyro and imported only when
it is called, so that `vhd --help` does not wait for torch and MuJoCo.
"""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from importlib.metadata import version

from vhdiffuser.errors import VhdError

COMMANDS: dict[str, tuple[str, str]] = {
    "envs": ("vhdiffuser.cli.envs:Envs", "the five environments and their settings"),
    "data": ("vhdiffuser.cli.data:Data", "get, build, import, look at and draw datasets"),
    "train": ("vhdiffuser.cli.train:Train", "train a planner, a Length Predictor or an inverse dynamics model"),
}

EXAMPLES = """\
examples:
  vhd envs                              what there is to plan in
  vhd data get maze2d-umaze             its dataset: the official one, or a regeneration
  vhd data info maze2d-umaze --json     what is in it
  vhd train planner maze2d-umaze        a variable-horizon diffusion planner (resumable)"""


def main() -> None:
    """Entry point of `vhd`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; 0 is success, 1 an error that the message explains, 2 a wrong command line."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if name == "--version":
        print(f"vhd {version('vhdiffuser')}")
        return 0
    if name == "--completion":
        return _completion(rest)
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        print(f"vhd: unknown command '{name}'.{hint} Known: {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    import tyro

    try:
        command = tyro.cli(_load(name), args=rest, prog=f"vhd {name}", config=(tyro.conf.OmitArgPrefixes,))
        command.run()
        sys.stdout.flush()
    except VhdError as error:
        print(f"vhd: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("vhd: stopped; what was finished is kept. Run the same command to go on.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as stop:  # tyro: 0 after --help, 2 after a wrong option
        return stop.code if isinstance(stop.code, int) else 2
    return 0


def _load(name: str) -> type:
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
            "",
            "shell completion: vhd --completion bash|zsh|tcsh",
        ]
    )


def _completion(rest: list[str]) -> int:
    """Print a completion script for all commands; parsing them needs every module, so this takes seconds."""
    if len(rest) != 1 or rest[0] not in ("bash", "zsh", "tcsh"):
        print("vhd: --completion takes one of bash, zsh, tcsh.", file=sys.stderr)
        return 2
    import shtab
    import tyro

    parser = tyro.extras.get_parser(
        tyro.extras.subcommand_type_from_defaults({})  # pragma: no cover
        if not COMMANDS
        else _union(),
        prog="vhd",
    )
    print(shtab.complete(parser, rest[0]))
    return 0


def _union() -> object:
    from typing import Annotated, Union

    import tyro

    return Union[tuple(Annotated[_load(name), tyro.conf.subcommand(name)] for name in COMMANDS)]  # noqa: UP007
