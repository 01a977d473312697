"""`vhd recipes show`: the recipe of an environment, or the one a model was trained with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional

from vhdiffuser.console import out, print_json
from vhdiffuser.recipes.recipe import RecipeName


@dataclass(frozen=True)
class Show:
    """Print the recipe of an environment, or the one saved with a model.

    A recipe has parts for each network, its training, and planning. Examples:

        vhd recipes show maze2d-large
        vhd recipes show maze2d-large --recipe paper --json
        vhd recipes show path/to/planner.safetensors
    """

    of: Positional[Annotated[str, tyro.conf.arg(metavar="ENV|MODEL")]]
    """Environment or imported dataset, or a model file."""
    recipe: RecipeName = "default"
    """Recipe of the environment."""
    json: bool = False
    """Print one JSON object."""

    def run(self) -> None:
        """Print the recipe."""
        from vhdiffuser.envs.registry import get_environment
        from vhdiffuser.recipes.recipe import get_recipe, saved_recipe

        path = Path(self.of)
        known = path.is_file()
        facts = saved_recipe(path) if known else get_recipe(get_environment(self.of), self.recipe).to_json()
        if self.json:
            print_json(facts)
            return
        for key, value in _flat(facts).items():
            out.print(f"{key:44} {value}", highlight=False)


@dataclass(frozen=True)
class Recipes:
    """Show recipes: the networks, their training and the planning options.

    Every field can be overridden on the command line of `vhd train`. Examples:

        vhd recipes
        vhd recipes show maze2d-large --recipe paper
    """

    command: Annotated[
        Annotated[Show, tyro.conf.subcommand("show")] | Annotated[None, tyro.conf.subcommand("names")],
        tyro.conf.arg(name=""),
    ] = None

    def run(self) -> None:
        """List the names, or run the subcommand."""
        from vhdiffuser.recipes.recipe import recipe_names

        if self.command is not None:
            self.command.run()
        else:
            out.print("\n".join(recipe_names()))


def _flat(value: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= _flat(item, f"{before}{key}.") if isinstance(item, dict) else {f"{before}{key}": item}
    return found
