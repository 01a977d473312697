"""`vhd leaderboard`: rank any planners from their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json
from vhdiffuser.errors import VhdError


@dataclass(frozen=True)
class Leaderboard:
    """Rank planners, including third-party ones, from rows of `vhd bench`: one table per environment and protocol.

    Planners are compared on the instances that they share, and only under the same rule, success region and controller;
    others are listed unranked, with the reason. Examples:

        vhd leaderboard results results/planners
        vhd leaderboard results mine --envs maze2d-umaze --protocols ss
        vhd leaderboard results mine --out leaderboard.html
    """

    folders: Positional[tuple[Path, ...]]
    """Folders of rows written by `vhd bench`."""
    envs: Several[str] = ()
    """Environments to show (default: all with rows)."""
    protocols: Several[str] = ()
    """Protocols to show (default: all with rows)."""
    distribution: str = "reset"
    """How instances were drawn: reset, uniform, or pairs (from a file)."""
    out: Omittable[Path] = None
    """File to write: .md, .csv, .html or .json. In an existing .md, the tables go between its marks."""
    json: bool = False
    """Print a JSON list of entries."""

    def run(self) -> None:
        """Read and compare; print or write."""
        from vhdiffuser.report.leaderboard import check_format, markdown, write_boards
        from vhdiffuser.results.boards import read_boards

        if not self.folders:
            raise VhdError("name one or more results folders, e.g. vhd leaderboard results")
        if self.out is not None:
            check_format(self.out)
        entries = read_boards(self.folders, self.envs, self.protocols, self.distribution)
        if self.json:
            print_json([item.to_json() for item in entries])
        elif self.out is None:
            out.print(markdown(entries), markup=False, highlight=False, soft_wrap=True)
        if self.out is not None:
            write_boards(self.out, entries)
            err.print(f"wrote {self.out}")
