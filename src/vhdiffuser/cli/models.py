"""`vhd models [export | card | archive | adopt]`: list the shipped weights; export, archive or share your own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source, shipped_card, shipped_environments

if TYPE_CHECKING:
    from vhdiffuser.training.export import ShippedModel


@dataclass(frozen=True)
class Export:
    """Export models that you trained to a folder of weights, in the format of the shipped ones.

    Half precision, at most 10 MB in total, with a model card. The card's results come from rows that `vhd bench` made
    with exactly these files, so run the benchmark, then write the card again. Examples:

        vhd models export maze2d-umaze --out out/models/maze2d-umaze
        vhd bench maze2d-umaze --methods vhd --weights out/models
        vhd models card out/models/maze2d-umaze
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment, or the name of an imported dataset."""
    results: Path = Path("results")
    """Folder with the rows for the card's results."""
    out: Omittable[Path] = None
    """Folder to write to (default: out/models/ENV)."""
    gamma: Omittable[float] = None
    """Margin on the predicted length to store with the planner, instead of a calibration's default risk (default: the
    one in its file)."""
    planner: str = "vhd"
    """Name of the planner's run."""
    length: str = "length"
    """Name of the Length Predictor's run."""
    route: str = "route"
    """Name of the route graph's run, if there is one."""
    dynamics: str = "dynamics"
    """Name of the inverse dynamics model's run, if the controller is one."""
    json: bool = False
    """Print the card as one JSON object."""
    quiet: bool = False
    """No messages."""

    def run(self) -> None:
        """Export, write the card, and print what is missing from it."""
        from vhdiffuser.training.export import runs_to_ship, ship

        folder = self.out or Path("out/models") / self.env
        runs = runs_to_ship(
            self.env, planner=self.planner, length=self.length, route=self.route, dynamics=self.dynamics
        )
        models = ship(self.env, runs, folder, self.gamma)
        _write_card(self.env, models, self.results, folder, self.json, self.quiet)


@dataclass(frozen=True)
class Card:
    """Rewrite the card of a folder of weights, with results from rows made with exactly these files.

    Example: vhd models card out/models/maze2d-umaze --results results
    """

    folder: Positional[Path]
    """Folder written by `vhd models export`."""
    results: Path = Path("results")
    """Folder with the rows for the card's results."""
    json: bool = False
    """Print the card as one JSON object."""
    quiet: bool = False
    """No messages."""

    def run(self) -> None:
        """Write card.json and README.md."""
        from vhdiffuser.errors import DataError
        from vhdiffuser.training.export import read_shipped

        models = read_shipped(self.folder)
        if "planner" not in models:
            raise DataError(f"{self.folder}: no planner.safetensors. Create one with `vhd models export`.")
        name = models["planner"].header.spec["name"]
        _write_card(name, models, self.results, self.folder, self.json, self.quiet)


def _write_card(
    environment: str, models: dict[str, ShippedModel], results: Path, folder: Path, as_json: bool, quiet: bool
) -> None:
    """Write the card, say what is missing from it, and print it."""
    from vhdiffuser.report.cards import write_card

    remarks = write_card(environment, models, results, folder)
    if not quiet:
        for remark in remarks:
            err.print(remark)
    if as_json:
        print_json(json.loads((folder / "card.json").read_text(encoding="utf-8")))
    else:
        size = sum(model.bytes for model in models.values())
        out.print(f"{environment}: {', '.join(models)}, {size / 1e6:.2f} MB: {folder}")


@dataclass(frozen=True)
class Archive:
    """Archive the models behind published rows: an environment's finished runs, in half precision.

    Run the benchmark with the archive, so that the rows' digests match the files you share. Examples:

        vhd models archive maze2d-umaze --out weights
        vhd bench maze2d-umaze --weights weights
        vhd models archive maze2d-umaze --runs fh-64 fh-128 --out weights
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment, or the name of an imported dataset."""
    out: Path
    """Folder to write to; models go to OUT/ENV, VHD's planner as planner.safetensors, others under their run's name."""
    runs: Several[str] = ()
    """Runs to archive (default: all finished ones)."""
    json: bool = False
    """Print the written files as one JSON object."""

    def run(self) -> None:
        """Write the files and print their paths."""
        from vhdiffuser.training.export import archive

        written = archive(self.env, self.runs, self.out)
        if self.json:
            print_json({name: str(path) for name, path in written.items()})
        else:
            for path in written.values():
                out.print(f"wrote {path} ({path.stat().st_size / 1e6:.2f} MB)")


@dataclass(frozen=True)
class Adopt:
    """Use another environment's planner and inverse dynamics model: one network for all mazes of a family.

    The planner must have been trained with a `--frame`, i.e. with positions relative to the plan's start. Data, Length
    Predictor and route graph remain the environment's own. Example:

        vhd train planner antmaze-giant-navigate --frame 20
        vhd train length antmaze-large-stitch
        vhd models adopt antmaze-large-stitch --of antmaze-giant-navigate
    """

    env: Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment that gets the models."""
    of: str
    """Environment to take the models from."""
    kinds: tuple[Literal["planner", "dynamics"], ...] = ("planner", "dynamics")
    """Models to adopt."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    json: bool = False
    """Print the written files as one JSON object."""

    def run(self) -> None:
        """Write the files and print their paths."""
        from vhdiffuser.training.export import adopt

        written = adopt(get_environment(self.env), self.of, self.kinds, self.weights)
        if self.json:
            print_json({name: str(path) for name, path in written.items()})
        else:
            out.print(f"{self.env} uses {' and '.join(written)} of {self.of}")


@dataclass(frozen=True)
class Models:
    """List the shipped models with their results; `export` and `archive` save your own, `adopt` reuses them.

    Each model has a card: data, recipe, updates, minutes, parameters, results. Examples:

        vhd models
        vhd models --json
        vhd models export maze2d-umaze
        vhd models archive maze2d-umaze --out weights
    """

    command: Annotated[
        Annotated[Export, tyro.conf.subcommand("export")]
        | Annotated[Card, tyro.conf.subcommand("card")]
        | Annotated[Archive, tyro.conf.subcommand("archive")]
        | Annotated[Adopt, tyro.conf.subcommand("adopt")]
        | Annotated[None, tyro.conf.subcommand("list")],
        tyro.conf.arg(name=""),
    ] = None
    json: bool = False
    """Print the model cards as a JSON list of objects."""

    def run(self) -> None:
        """List the models, or run the subcommand."""
        if self.command is not None:
            self.command.run()
            return
        cards = [{"environment": name, **shipped_card(name)} for name in shipped_environments()]
        if self.json:
            print_json(cards)
        elif cards:
            _print_table(cards)
        else:
            out.print("This version ships no weights. Train your own: vhd train planner ENV, vhd train length ENV.")


def _print_table(cards: list[dict[str, Any]]) -> None:
    from vhdiffuser.report.cards import steps_text, success_text

    rows = [("environment", "parameters", "MB", "lengths", "SS: SR %", "SS: AES", "RP: SR %", "RP: AES")]
    for card in cards:
        cells = [card.get("numbers", {}).get(protocol) for protocol in ("ss", "rp")]
        numbers = [text(cell) if cell else "-" for cell in cells for text in (success_text, steps_text)]
        facts = (f"{card.get('parameters', 0):,}", f"{card.get('bytes', 0) / 1e6:.2f}", card.get("lengths", "-"))
        rows.append((card["environment"], *facts, *numbers))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        out.print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    out.print("\nSS single-shot, RP replan-on-deviation; [95 % intervals]. Model cards: vhd models --json")
