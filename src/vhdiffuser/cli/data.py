"""`vhd data get | build | info | import | draw | walker`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.console import err, out, print_json, progress_bar
from vhdiffuser.data.store import (
    Dataset,
    dataset_path,
    save_dataset,
    summary,
)
from vhdiffuser.envs.antmaze.walker_training import WalkerConfig
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import environments, get_environment
from vhdiffuser.errors import DataError
from vhdiffuser.files import home
from vhdiffuser.types import EnvSpec

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]


@dataclass(frozen=True)
class Get:
    """Get an environment's dataset into the cache.

    `auto` tries the official file and falls back to a regeneration; `build` regenerates on all cores,
    shows the time left, and goes on where it stopped. Examples:

        vhd data get maze2d-umaze
        vhd data get antmaze-medium --source build --size 100000
    """

    env: Positional[Name]
    """Environment: see `vhd envs`."""
    source: Literal["auto", "official", "build"] = "auto"
    """Where to take it from."""
    size: int | None = None
    """Transitions to build (default: as many as the official set has)."""
    seed: int | None = None
    """Seed of a build (default 0): same seed and size, same bytes on this machine, whatever the number of workers."""
    workers: int | None = None
    """Processes that build (default: one per core)."""
    timeout: float = 20.0
    """Seconds without an answer after which a server is given up."""
    replace: bool = False
    """Replace a dataset that is already there."""
    json: bool = False
    """Print what was got as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Get, save, say what was got."""
        from vhdiffuser.data.build import BuildConfig, build, forget_chunks

        environment = get_environment(self.env)
        spec = environment.spec
        if dataset_path(spec.name).exists() and not self.replace:
            present = load_dataset(spec.name)
            self._require_same(present)
            _print(present, self.json, "already here: ")
            return
        dataset = None
        if self.source == "official" or (self.source == "auto" and self.size is None and self.seed is None):
            dataset = self._official()
        if dataset is None:
            config = BuildConfig(self.size, self.seed or 0, self.workers)
            with progress_bar(f"building {spec.name}", "transitions", self.quiet) as progress:
                dataset = build(spec, environment.builder, config, progress)
        save_dataset(dataset)
        forget_chunks(spec)
        _print(dataset, self.json)

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
        """Explicit wishes that the present dataset does not meet are refused, not ignored."""
        wishes = {
            "source": None if self.source == "auto" else self.source,
            "size": self.size,
            "seed": self.seed,
        }
        has = {"source": present.source, **present.details}
        unmet = [f"{key} {value}" for key, value in wishes.items() if value is not None and has.get(key) != value]
        if unmet:
            raise DataError(
                f"the cache holds another {self.env} dataset ({_line(present)}), not one with {', '.join(unmet)}. "
                "Pass --replace to replace it."
            )


@dataclass(frozen=True)
class Build:
    """Build data for a point maze of your own map; the maze is then known by NAME to every command.

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
    """Longest plan in states (default: 32 for each cell of the longest way)."""
    workers: int | None = None
    """Processes that build (default: one per core)."""
    replace: bool = False
    """Replace a dataset of that name."""
    json: bool = False
    """Print what was built as one JSON object, as `vhd data info` does."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Build, save, say what was built."""
        from vhdiffuser.data.build import BuildConfig, build, forget_chunks
        from vhdiffuser.envs.maze2d.environments import make_maze
        from vhdiffuser.envs.maze2d.maze import Maze

        if self.name in environments():
            raise DataError(f"'{self.name}' is a registered environment: choose another name for a maze of your own.")
        if dataset_path(self.name).exists() and not self.replace:
            raise DataError(f"a dataset '{self.name}' is already here. Pass --replace, or choose another name.")
        try:
            text = self.maze.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.maze}: not a readable text file ({error}).") from error
        maze = Maze.of(text)
        environment = make_maze(maze, self.name, epsilon=self.epsilon, T_max=self.t_max)
        config = BuildConfig(self.size, self.seed, self.workers)
        with progress_bar(f"building {self.name}", "transitions", self.quiet) as progress:
            dataset = build(environment.spec, environment.builder, config, progress)
        dataset = replace(dataset, details={**dataset.details, "maze": list(maze.rows)})
        save_dataset(dataset)
        forget_chunks(environment.spec)
        _print(dataset, self.json)


@dataclass(frozen=True)
class Info:
    """Say what a dataset holds.

    Example: vhd data info maze2d-umaze --json
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Print the summary."""
        dataset = load_dataset(self.env)
        facts = summary(dataset)
        if self.json:
            print_json(facts)
            return
        from rich.table import Table

        out.print(_line(dataset))
        for line in _spec_lines(dataset.spec, facts):
            out.print(line)
        table = Table()
        for column in ("observation", "mean", "std", "min", "max"):
            table.add_column(column, justify="right")
        names = dict(zip(dataset.spec.state_dims, dataset.spec.state_names, strict=True))
        for dim in range(dataset.spec.observation_dim):
            row = (facts[f"observation_{key}"][dim] for key in ("mean", "std", "min", "max"))
            table.add_row(f"{dim} {names.get(dim, '')}", *(f"{value:.4f}" for value in row))
        out.print(table)
        out.print(f"action std {[round(value, 4) for value in facts['action_std']]}")
        out.print(f"fingerprint {facts['fingerprint']}")


@dataclass(frozen=True)
class Import:
    """Import your own trajectories, or an official file that you have.

    NAME is new for your own data, or an environment's name for its official file. FILE is .npz or
    .hdf5 with `observations` (N, o), optionally `actions` (N, m), and `episode_ends` (or `terminals`/
    `timeouts`); or `minari:DATASET_ID`. Examples:

        vhd data import my-robot runs.npz --goal-dims 0 1
        vhd data import my-robot runs.npz --goal-dims 0 1 --velocity-dims 2 3 --control-dt 0.05
        vhd data import maze2d-large maze2d-large-sparse-v1.hdf5
    """

    name: Positional[str]
    """Name to keep it under."""
    file: Positional[str]
    """File to read, or minari:DATASET_ID."""
    state_dims: tuple[int, ...] | None = None
    """Observation dimensions to plan in (default: all)."""
    goal_dims: tuple[int, ...] | None = None
    """Of the planning state, the dimensions that a goal fixes (default: all)."""
    velocity_dims: tuple[int, ...] | None = None
    """Of the planning state, the velocity of each goal dimension, in units per second (default: none)."""
    control_dt: float | None = None
    """Seconds between two rows. With velocities it is checked against the data, and inferred where it is not given
    (default without velocities: 1, so that time is counted in steps)."""
    t_max: int | None = None
    """Longest plan in states (default: the longest episode, 256 at most)."""
    l_min: int | None = None
    """Shortest plan in states (default: 8)."""
    epsilon: float | None = None
    """Goal tolerance on the normalised goal dimensions (default: 0.05)."""
    replace: bool = False
    """Replace a dataset of that name."""
    json: bool = False
    """Print what was imported as one JSON object, as `vhd data info` does."""

    def run(self) -> None:
        """Read, check, save."""
        from vhdiffuser.envs.importing import import_dataset

        if dataset_path(self.name).exists() and not self.replace:
            raise DataError(f"a dataset '{self.name}' is already here. Pass --replace, or choose another name.")
        settings = {
            "state_dims": self.state_dims,
            "goal_dims": self.goal_dims,
            "velocity_dims": self.velocity_dims,
            "control_dt": self.control_dt,
            "T_max": self.t_max,
            "L_min": self.l_min,
            "epsilon": self.epsilon,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        dataset = import_dataset(self.name, self.file, **given)
        save_dataset(dataset)
        if self.control_dt is None and self.name not in environments():
            err.print(f"control_dt: {_time_step(dataset.spec)}")
        _print(dataset, self.json)


@dataclass(frozen=True)
class Draw:
    """Draw trajectories of a dataset.

    Example: vhd data draw maze2d-umaze --out umaze.png
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    out: Path = Path("data.png")
    """Picture to write (.png, .svg or .pdf)."""
    steps: int = 20_000
    """States to draw."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Write the picture."""
        from vhdiffuser.report.data_figures import draw_dataset

        dataset = load_dataset(self.env)
        draw_dataset(dataset.spec, dataset.episodes, self.out, self.steps)
        if self.json:
            print_json({"written": str(self.out)})
        else:
            out.print(f"wrote {self.out}")


@dataclass(frozen=True)
class WalkerCommand:
    """Train the directional ant walker that builds antmaze data (extra `walker`; hours; resumable).

    A trained walker ships with the package: you need this only to make another. Example:

        vhd data walker --steps 400000
    """

    config: Annotated[WalkerConfig, tyro.conf.arg(name="")] = field(default_factory=WalkerConfig)
    out: Path | None = None
    """Folder to train in (default: the cache folder's `walker`)."""
    json: bool = False
    """Print one JSON object."""
    quiet: bool = False
    """No progress bar."""

    def run(self) -> None:
        """Train, and say where the actor is."""
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
    """Get, build, import, look at and draw datasets."""

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
        """Run the command chosen."""
        self.command.run()


def _print(dataset: Dataset, as_json: bool, before: str = "") -> None:
    if as_json:
        print_json(summary(dataset))
    else:
        out.print(before + _line(dataset))


def _time_step(spec: EnvSpec) -> str:
    """How an import without --control-dt came by its time step."""
    if spec.velocity_dims is None:
        return "none was given, so time is counted in control steps"
    return f"{spec.control_dt:g} s, inferred from positions and velocities"


def _spec_lines(spec: EnvSpec, facts: dict[str, Any]) -> list[str]:
    """What planning takes a dataset for."""
    goal, velocities = (
        " ".join(spec.state_names[dim] for dim in dims or ()) or "none" for dims in (spec.goal_dims, spec.velocity_dims)
    )
    lengths = " / ".join(f"{facts[f'episode_states_{key}']:,}" for key in ("min", "median", "max"))
    return [
        f"planning state {' '.join(spec.state_names)}; goal {goal}; velocities {velocities}",
        f"control_dt {spec.control_dt:g}, epsilon {spec.epsilon:g}, L_min {spec.L_min}, T_max {spec.T_max}",
        f"states in an episode, min / median / max: {lengths}",
    ]


def _line(dataset: Dataset) -> str:
    episodes = dataset.episodes
    made = " ".join(f"{key} {value}" for key, value in dataset.details.items() if key in ("seed", "file"))
    return (
        f"{dataset.spec.name}: {episodes.transitions:,} transitions in {len(episodes):,} episodes, "
        f"source {dataset.source} {made}".rstrip()
    )
