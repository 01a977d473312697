"""`vhd train planner | length | route | fast-length | dynamics`: options generated from the recipe."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from tyro.conf import Positional

from vhdiffuser.console import out, print_json, progress_bar
from vhdiffuser.control.inverse_dynamics import DynamicsConfig
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.envs.registry import environments, find_environment, get_environment
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.recipes.recipe import RecipeName, get_recipe, recipe_names
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import Status

Name = Annotated[str, tyro.conf.arg(metavar="ENV")]
Flat = tyro.conf.arg(name="")
"""Parts whose fields are options without a prefix."""
SHOWN = "maze2d-large"
"""Environment whose recipe `--help` shows if none is given."""


@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of all trainings."""

    env: Positional[Name]
    """Environment or imported dataset. Its recipe sets the defaults below."""
    recipe: RecipeName = "default"
    """`default` (best on two CPU cores), or `paper` (the paper's, with Diffuser's values where it gives none)."""
    name: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: from the recipe)")] = None
    """Name of the run."""
    begin_with: Annotated[str | None, tyro.conf.arg(help_behavior_hint="(default: random weights)")] = None
    """Fine-tune: start from the weights of this run of the environment, or of this model file."""
    restart: bool = False
    """Start this run over; the old one is kept until the new one has its first checkpoint."""
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print the result as one JSON object."""

    def _train(self, training: Callable[..., Path], **parts: Any) -> None:
        environment = get_environment(self.env)
        recipe = replace(get_recipe(environment, self.recipe), **parts)
        # Only one of the processes started by torchrun or accelerate prints.
        first = os.environ.get("RANK", "0") == "0"
        last: dict[str, Any] = {}
        title = f"training {environment.name} {self.name or training.__name__.removeprefix('train_')}"
        with progress_bar(title, "updates", self.quiet or not first) as progress:

            def report(status: Status) -> None:
                last.update(status.metrics, update=status.update, minutes=round(status.seconds / 60, 2))
                # Unlike the bar's own estimate, this includes earlier sessions and the time budget.
                note = f"loss {status.metrics['loss']:.4f}, {status.seconds_left / 60:.1f} min left"
                progress(status.update, status.updates, note=note)

            path = training(
                environment.name,
                recipe,
                name=self.name,
                begin_with=self.begin_with,
                restart=self.restart,
                on_status=report,
            )
        if not first:
            return
        if self.json:
            print_json({"model": str(path), **last})
        else:
            out.print(f"model: {path}")


@dataclass(frozen=True, kw_only=True)
class TrainPlanner(Common):
    """Train a diffusion planner (Algorithm 1) on random-length crops, or at a fixed horizon.

    Stop it with Ctrl-C and run the same command again to resume. Defaults are the recipe's. Examples:

        vhd train planner maze2d-umaze
        vhd train planner maze2d-umaze --horizon 128          a fixed-horizon baseline
        vhd train planner maze2d-umaze --recipe paper --minutes 30
        vhd train planner maze2d-umaze --recipe paper --help  the paper's values
    """

    network: Annotated[PlannerConfig, Flat]
    planning: Annotated[PlanningOptions, Flat]
    loop: Annotated[LoopConfig, Flat]

    def run(self) -> None:
        """Train."""
        from vhdiffuser.recipes.train import train_planner

        self._train(train_planner, planner=self.network, planning=self.planning, planner_loop=self.loop)


@dataclass(frozen=True, kw_only=True)
class TrainLength(Common):
    """Train a Length Predictor: shortest-step distances between states, from offline data alone.

    Defaults are the recipe's. Examples:

        vhd train length maze2d-large
        vhd train length maze2d-large --length.network.width 512
    """

    length: Annotated[LengthConfig, tyro.conf.AvoidSubcommands]
    loop: Annotated[LoopConfig, Flat]

    def run(self) -> None:
        """Train."""
        from vhdiffuser.recipes.train import train_length

        self._train(train_length, length=self.length, length_loop=self.loop)


@dataclass(frozen=True, kw_only=True)
class TrainRoute:
    """Build the route graph: landmarks in the data connected by observed transitions. Takes seconds to a minute.

    Long plans are composed of pieces along its routes. `vhd train length` builds it as well. Example:

        vhd train route maze2d-large
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Build the graph and print its size."""
        from vhdiffuser.length.route import RouteGraph
        from vhdiffuser.recipes.train import train_route

        path = train_route(get_environment(self.env).name)
        graph, _ = RouteGraph.load(path)
        facts = {"landmarks": len(graph.places), "hops": len(graph.hops), "bytes": path.stat().st_size}
        if self.json:
            print_json({"model": str(path), **facts})
            return
        out.print(f"route graph: {path}")
        out.print(f"{facts['landmarks']:,} landmarks, {facts['hops']:,} hops, {facts['bytes'] / 1000:.0f} kB")
        if not facts["hops"]:
            out.print(
                "No hops: with this many goal dimensions, the data is too sparse to tell which states are "
                "close to each other. Plans are made in one piece, with at most T_max states."
            )


@dataclass(frozen=True, kw_only=True)
class TrainFastLength:
    """Fit a small network to the Length Predictor's answers, for millions of queries per second, in minutes.

    `vhdiffuser.load_length_predictor(ENV, fast=True, source="auto")` loads it. Examples:

        vhd train fast-length maze2d-umaze
        vhd train fast-length maze2d-umaze --weights shipped
    """

    env: Positional[Name]
    """Environment, or the name of an imported dataset."""
    weights: str = "auto"
    """Length Predictor to learn from: trained (by you), shipped, auto (trained if available), or a folder of
    weights."""
    quiet: bool = False
    """No progress bar."""
    json: bool = False
    """Print the result as one JSON object."""

    def run(self) -> None:
        """Fit the network and print its path."""
        from vhdiffuser.recipes.train import train_fast_length

        environment = get_environment(self.env).name
        with progress_bar(f"fitting {environment} fast-length", "updates", self.quiet) as progress:
            path = train_fast_length(environment, self.weights, on_update=progress)
        if self.json:
            print_json({"model": str(path), "bytes": path.stat().st_size})
        else:
            out.print(f"model: {path}")


@dataclass(frozen=True, kw_only=True)
class TrainDynamics(Common):
    """Train an inverse dynamics model, which predicts the action from the observation and the upcoming plan.

    Defaults are the recipe's. Example: vhd train dynamics antmaze-medium
    """

    network: Annotated[DynamicsConfig, Flat]
    loop: Annotated[LoopConfig, Flat]

    def run(self) -> None:
        """Train."""
        from vhdiffuser.recipes.train import train_dynamics

        self._train(train_dynamics, dynamics=self.network, dynamics_loop=self.loop)


@dataclass(frozen=True)
class Train:
    """Train a network. Trainings write checkpoints and can be resumed."""

    command: Annotated[
        Annotated[TrainPlanner, tyro.conf.subcommand("planner")]
        | Annotated[TrainLength, tyro.conf.subcommand("length")]
        | Annotated[TrainRoute, tyro.conf.subcommand("route")]
        | Annotated[TrainFastLength, tyro.conf.subcommand("fast-length")]
        | Annotated[TrainDynamics, tyro.conf.subcommand("dynamics")],
        tyro.conf.arg(name=""),
    ]

    def run(self) -> None:
        """Run the subcommand."""
        self.command.run()

    @classmethod
    def parse(cls, arguments: list[str]) -> Any:
        """Parse the command, with the recipe of the environment in `arguments` as defaults."""
        return _with_defaults(arguments)


def _with_defaults(arguments: list[str]) -> Any:
    environment = find_environment(_named_environment(arguments)) or environments()[SHOWN]
    recipe = get_recipe(environment, _named_recipe(arguments))
    if (horizon := _value_of("--horizon", arguments)) is not None and horizon.isdecimal() and int(horizon):
        recipe = recipe.fixed_horizon(int(horizon))
    # A required positional stays required: its default is tyro's MISSING.
    common: dict[str, Any] = {"env": tyro.MISSING, "recipe": recipe.name}
    planner = TrainPlanner(network=recipe.planner, planning=recipe.planning, loop=recipe.planner_loop, **common)
    length = TrainLength(length=recipe.length, loop=recipe.length_loop, **common)
    dynamics = TrainDynamics(network=recipe.dynamics, loop=recipe.dynamics_loop, **common)
    kinds = {"planner": planner, "length": length, "dynamics": dynamics}
    commands = [Annotated[type(made), tyro.conf.subcommand(kind, default=made)] for kind, made in kinds.items()]
    commands.append(Annotated[TrainRoute, tyro.conf.subcommand("route")])
    commands.append(Annotated[TrainFastLength, tyro.conf.subcommand("fast-length")])
    return Union[tuple(commands)]  # noqa: UP007  (the members are known only here)


def _named_environment(arguments: list[str]) -> str:
    """The first argument that names an environment or dataset and is not the value of an option."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if before in ("--name", "--begin-with") or argument.startswith("-"):
            continue
        if find_environment(argument) is not None:
            return argument
    return SHOWN


def _named_recipe(arguments: list[str]) -> str:
    name = _value_of("--recipe", arguments)
    if name is not None and name not in recipe_names():
        raise UnknownNameError("recipe", name, recipe_names())
    return name or "default"


def _value_of(option: str, arguments: list[str]) -> str | None:
    """Value of an option, before parsing."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option:
            return value if equals else next(iter(arguments[position + 1 :]), "")
    return None
