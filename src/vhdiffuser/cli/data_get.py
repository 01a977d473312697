"""`vhd data get` and `vhd data build`: the data of an environment, or of a custom maze."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.data_info import dataset_line, print_dataset
from vhdiffuser.console import err, progress_bar
from vhdiffuser.data.store import Dataset, dataset_path, save_dataset, writing_dataset
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.errors import DataError

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Get:
    """Get an environment's dataset into the cache.

    `auto` tries the official file and falls back to regenerating it; `build` regenerates it on all cores and
    can be resumed. Examples:

        vhd data get maze2d-umaze
        vhd data get antmaze-medium --source build --size 100000
        vhd data get maze2d-large --source build --ray auto
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    source: Literal["auto", "official", "build"] = "auto"
    """Source of the data."""
    size: int | None = None
    """Transitions to build (default: the size of the official set)."""
    seed: int | None = None
    """Seed of a build (default 0): same seed and size, same bytes on this machine, whatever the number of workers."""
    workers: int | None = None
    """Worker processes (default: one per core)."""
    ray: str | None = None
    """Build on a Ray cluster (extra `ray`): its address, or auto for the one that runs here. The bytes are the same."""
    timeout: float = 20.0
    """Seconds to wait for a server."""
    replace: bool = False
    """Replace an existing dataset."""
    json: bool = False
    """Print a description as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Get, save and describe the dataset."""
        environment = get_environment(self.env)
        if dataset_path(environment.name).exists() and not self.replace:
            from vhdiffuser.data.build import forget_chunks

            present = load_dataset(environment.name)
            self._require_same(present)
            forget_chunks(present, environment.builder)  # of a build that was killed once its dataset was saved
            print_dataset(present, self.json, "already in the cache: ")
            return
        with writing_dataset(environment.name):
            dataset = self._get(environment)
        print_dataset(dataset, self.json)

    def _get(self, environment: Environment) -> Dataset:
        """Download or build the dataset, and save it."""
        from vhdiffuser.data.build import BuildConfig, build, forget_chunks

        spec, dataset = environment.spec, None
        if self.source == "official" or (self.source == "auto" and self.size is None and self.seed is None):
            dataset = self._official()
        if dataset is None:
            config = BuildConfig(self.size, self.seed or 0, self.workers, self.ray)
            with progress_bar(f"building {spec.name}", "transitions", self.quiet) as progress:
                dataset = build(spec, environment.builder, config, progress)
        save_dataset(dataset)
        forget_chunks(dataset, environment.builder)
        return dataset

    def _official(self) -> Dataset | None:
        from vhdiffuser.data.official import get_official

        try:
            with progress_bar(f"downloading {self.env}", "bytes", self.quiet) as progress:
                environment = get_environment(self.env)
                return get_official(
                    environment.spec,
                    environment.official,
                    lambda file, done, total: progress(done, total, note=file),
                    self.timeout,
                )
        except DataError as error:
            if self.source == "official":
                raise DataError(f"{error}. Try again later, or use --source build.") from error
            err.print(f"official data not available ({error}); building it instead.")
            return None

    def _require_same(self, present: Dataset) -> None:
        """Raise `DataError` if the existing dataset does not match explicitly given options."""
        wishes = {
            "source": None if self.source == "auto" else self.source,
            "size": self.size,
            "seed": self.seed,
        }
        has = {"source": present.source, **present.details}
        unmet = [f"{key} {value}" for key, value in wishes.items() if value is not None and has.get(key) != value]
        if unmet:
            raise DataError(
                f"the cache has another {self.env} dataset ({dataset_line(present)}), not one with "
                f"{', '.join(unmet)}. Pass --replace to replace it."
            )


@dataclass(frozen=True)
class Build:
    """Build data for a point maze of your own map; all commands then know the maze as NAME.

    FILE is text: `#` for walls, `O` or a blank for free cells, one row per line, walls all around. Physics and data
    are those of D4RL's maze2d. Examples:

        vhd data build my-maze --maze map.txt
        vhd train planner my-maze
        vhd train length my-maze
        vhd bench my-maze --methods vhd --n 100
    """

    name: Positional[str]
    """Name of the environment and its data."""
    maze: Path
    """File with the map."""
    size: int = 1_000_000
    """Transitions to build."""
    seed: int = 0
    """Seed of the build: same seed and size, same bytes."""
    epsilon: float | None = None
    """Goal tolerance in normalised units (default: 0.15 units of the maze)."""
    t_max: int | None = None
    """Longest plan in states (default: 32 per cell of the longest path)."""
    workers: int | None = None
    """Worker processes (default: one per core)."""
    ray: str | None = None
    """Build on a Ray cluster (extra `ray`): its address, or auto for the one that runs here. The bytes are the same."""
    replace: bool = False
    """Replace an existing dataset of that name."""
    json: bool = False
    """Print a description as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Build, save and describe the dataset."""
        from vhdiffuser.data.build import BuildConfig, build, forget_chunks
        from vhdiffuser.envs.maze2d.environments import make_maze
        from vhdiffuser.envs.maze2d.maze import Maze

        if self.name in environments():
            raise DataError(f"'{self.name}' is a registered environment: choose another name for your maze.")
        if dataset_path(self.name).exists() and not self.replace:
            raise DataError(f"a dataset '{self.name}' already exists. Pass --replace, or choose another name.")
        try:
            text = self.maze.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.maze}: not a readable text file ({error}).") from error
        maze = Maze.of(text)
        environment = make_maze(maze, self.name, epsilon=self.epsilon, T_max=self.t_max)
        config = BuildConfig(self.size, self.seed, self.workers, self.ray)
        with writing_dataset(self.name):
            with progress_bar(f"building {self.name}", "transitions", self.quiet) as progress:
                dataset = build(environment.spec, environment.builder, config, progress)
            dataset = replace(dataset, details={**dataset.details, "maze": list(maze.rows)})
            save_dataset(dataset)
            forget_chunks(dataset, environment.builder)
        print_dataset(dataset, self.json)
