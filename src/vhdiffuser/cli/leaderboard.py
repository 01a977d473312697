"""`vhd leaderboard`: one table for anybody's planners, from rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from vhdiffuser.console import err, out, print_json
from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path

FORMATS = (".md", ".csv", ".html", ".json")


@dataclass(frozen=True)
class Leaderboard:
    """Rank planners, ours and anybody's, from rows of `vhd bench`: one table per environment and protocol.

    Planners are compared on the instances that they share, and only under the same rule, success region and controller;
    others are listed unranked, with the reason. Examples:

        vhd leaderboard results results/planners
        vhd leaderboard results mine --envs maze2d-umaze --protocols ss
        vhd leaderboard results mine --out leaderboard.html
    """

    folders: Positional[tuple[Path, ...]]
    """Folders of rows written by `vhd bench`."""
    envs: tuple[str, ...] = ()
    """Environments to show (default: all that have rows)."""
    protocols: tuple[str, ...] = ()
    """Protocols to show (default: all that have rows)."""
    distribution: str = "reset"
    """How instances were drawn: reset, uniform, or pairs for a file of them."""
    out: Path | None = None
    """File to write: .md, .csv, .html or .json. In a .md that exists, the tables go between its marks."""
    json: bool = False
    """Print a JSON list of entries."""

    def run(self) -> None:
        """Read, compare, print or write."""
        from vhdiffuser.report.leaderboard import as_csv, html, into_page, markdown
        from vhdiffuser.results.boards import read_boards

        if not self.folders:
            raise VhdError("name one or more folders of rows, for example: vhd leaderboard results")
        if self.out is not None and self.out.suffix not in FORMATS:
            raise VhdError(f"{self.out}: the table can be written as {', '.join(FORMATS)}.")
        entries = read_boards(self.folders, self.envs, self.protocols, self.distribution)
        if self.json:
            print_json([item.to_json() for item in entries])
        elif self.out is None:
            out.print(markdown(entries), markup=False, highlight=False, soft_wrap=True)
        if self.out is None:
            return
        if self.out.suffix == ".md":
            text = markdown(entries)
            if self.out.exists():
                text = into_page(self.out.read_text(encoding="utf-8"), text, self.out)
        elif self.out.suffix == ".csv":
            text = as_csv(entries)
        elif self.out.suffix == ".html":
            text = html(entries)
        else:
            text = json.dumps([item.to_json() for item in entries], indent=1) + "\n"
        with atomic_path(self.out) as temporary:
            temporary.write_text(text, encoding="utf-8")
        err.print(f"wrote {self.out}")
