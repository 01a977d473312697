"""`vhd data get` and `vhd data build`: data of an environment or a custom maze."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.data_info import print_dataset
from vhdiffuser.cli.options import Omittable
from vhdiffuser.console import progress_bars
from vhdiffuser.data.store import dataset_path
from vhdiffuser.envs.datasets import DataSource, get_dataset
from vhdiffuser.envs.registry import get_environment

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Get:
    """Download or build an environment's dataset and store it in the cache.

    `auto` tries the official files and falls back to building; `build` regenerates the data on all cores and can be
    resumed. Examples:

        vhd data get maze2d-umaze
        vhd data get antmaze-medium --source build --size 100000
        vhd data get maze2d-large --source build --ray auto
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    source: DataSource = "auto"
    """Source of the data."""
    size: Omittable[int] = None
    """Transitions to build (default: the size of the official set)."""
    seed: Omittable[int] = None
    """Seed of a build (default 0). The same seed and size give the same bytes on this machine, for any number of
    workers."""
    workers: Omittable[int] = None
    """Worker processes (default: one per core)."""
    ray: Omittable[str] = None
    """Build on a Ray cluster (extra `ray`): its address, or auto for the one running here. The bytes are the same."""
    timeout: float = 20.0
    """Seconds to wait for a server."""
    replace: bool = False
    """Replace an existing dataset."""
    json: bool = False
    """Print a description as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Get the dataset and describe it."""
        kept = dataset_path(get_environment(self.env).name).exists() and not self.replace
        with progress_bars(self.quiet) as progress:
            dataset = get_dataset(
                self.env,
                self.source,
                size=self.size,
                seed=self.seed,
                workers=self.workers,
                ray=self.ray,
                timeout=self.timeout,
                replace=self.replace,
                on_progress=progress,
            )
        print_dataset(dataset, self.json, "already in the cache: " if kept else "")


@dataclass(frozen=True)
class Build:
    """Build data for a point maze with your own map; the maze is then available to all commands as NAME.

    The map is a text file: `#` for walls, `O` or a space for free cells, one row per line, walls all around. Physics
    and data are those of D4RL's maze2d. Examples:

        vhd data build my-maze --maze map.txt
        vhd train planner my-maze
        vhd train length my-maze
        vhd bench my-maze --methods vhd --n 100
    """

    name: Positional[Annotated[str, tyro.conf.arg(metavar="NAME")]]
    """Name of the environment and its data."""
    maze: Path
    """File with the map."""
    size: int = 1_000_000
    """Transitions to build."""
    seed: int = 0
    """Seed of the build; the same seed and size give the same bytes."""
    epsilon: Omittable[float] = None
    """Goal tolerance in normalised units (default: 0.15 units of the maze)."""
    t_max: Omittable[int] = None
    """Maximum plan length in states (default: 32 per cell of the longest path)."""
    workers: Omittable[int] = None
    """Worker processes (default: one per core)."""
    ray: Omittable[str] = None
    """Build on a Ray cluster (extra `ray`): its address, or auto for the one running here. The bytes are the same."""
    replace: bool = False
    """Replace an existing dataset with this name."""
    json: bool = False
    """Print a description as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Build, save and describe the dataset."""
        from vhdiffuser.data.build import BuildConfig
        from vhdiffuser.envs.maze2d.own_maze import build_maze, read_maze

        with progress_bars(self.quiet) as progress:
            dataset = build_maze(
                self.name,
                read_maze(self.maze),
                BuildConfig(self.size, self.seed, self.workers, self.ray),
                epsilon=self.epsilon,
                T_max=self.t_max,
                replace=self.replace,
                on_progress=progress,
            )
        print_dataset(dataset, self.json)
