"""`vhd completion`: shell completion of commands and options."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from vhdiffuser.files import scratch_folder, writing


@dataclass(frozen=True)
class Completion:
    """Print a completion script for your shell.

    Generating it takes a few seconds. Examples:

        vhd completion bash > ~/.local/share/bash-completion/completions/vhd
        vhd completion zsh > ~/.zfunc/_vhd             with ~/.zfunc in your fpath
        vhd completion fish > ~/.config/fish/completions/vhd.fish
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "tcsh", "fish"]]
    """Your shell."""

    def run(self) -> None:
        """Print the script."""
        from vhdiffuser.cli import COMMANDS, load_command

        every = tuple(Annotated[load_command(name), tyro.conf.subcommand(name)] for name in COMMANDS)
        commands: Any = Union[every]  # noqa: UP007  (the members are known only here)
        with scratch_folder() as folder:
            path = folder / "script"
            try:
                with writing(path):
                    tyro.cli(commands, args=["--tyro-write-completion", self.shell, str(path)], prog="vhd")
            except SystemExit as stop:  # tyro always exits here
                if stop.code:
                    raise
            sys.stdout.write(path.read_text())
