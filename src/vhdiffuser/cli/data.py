"""`vhd data get | build | info | import | draw | walker`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.data_get import Build, Get
from vhdiffuser.cli.data_import import Import
from vhdiffuser.cli.data_info import Info
from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import out, print_json, progress_bar
from vhdiffuser.envs.antmaze.walker_training import WalkerConfig
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.files import home

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Draw:
    """Draw trajectories of a dataset.

    Example: vhd data draw maze2d-umaze --out umaze.png
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    out: Path = Path("data.png")
    """Image to write (PNG)."""
    steps: int = 20_000
    """States to draw."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Write the image."""
        from vhdiffuser.report.data_figures import draw_dataset

        dataset = load_dataset(self.env)
        draw_dataset(dataset.spec, dataset.episodes, self.out, self.steps)
        if self.json:
            print_json({"written": str(self.out)})
        else:
            out.print(f"wrote {self.out}")


@dataclass(frozen=True)
class WalkerCommand:
    """Train the ant walker that generates antmaze data (extra `walker`; about an hour on one core; resumable).

    A trained walker ships with the package; use this only to train another. Example:

        vhd data walker --steps 400000
    """

    config: Annotated[WalkerConfig, tyro.conf.arg(name="")] = field(default_factory=WalkerConfig)
    out: Omittable[Path] = None
    """Folder to train in (default: `walker` in the cache folder)."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Train, and print the path of the actor."""
        from vhdiffuser.envs.antmaze.walker_training import train_walker

        with progress_bar("training the walker", "steps", self.quiet) as progress:
            path = train_walker(
                self.config,
                self.out or home() / "walker",
                lambda entry: progress(
                    entry["steps"],
                    self.config.steps,
                    note=f"{entry['speed_along']:.3f} m/step along, falls {entry['fall_share']:.0%}",
                ),
            )
        if self.json:
            print_json({"actor": str(path)})
        else:
            out.print(f"actor: {path}")


@dataclass(frozen=True)
class Data:
    """Download, build, import, inspect and draw datasets."""

    command: Annotated[
        Annotated[Get, tyro.conf.subcommand("get")]
        | Annotated[Build, tyro.conf.subcommand("build")]
        | Annotated[Info, tyro.conf.subcommand("info")]
        | Annotated[Import, tyro.conf.subcommand("import")]
        | Annotated[Draw, tyro.conf.subcommand("draw")]
        | Annotated[WalkerCommand, tyro.conf.subcommand("walker")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        """Run the subcommand."""
        self.command.run()
