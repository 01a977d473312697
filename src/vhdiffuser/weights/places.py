"""Where models are stored: those shipped with the package and those trained by the user."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from vhdiffuser.arguments import shown
from vhdiffuser.errors import UnknownNameError
from vhdiffuser.files import checked_name, home, is_folder
from vhdiffuser.reading import read_json

Source = str
"""`auto`, `trained`, `shipped`, or a folder written by `vhd models archive` or `vhd models export`."""
SOURCES = ("auto", "trained", "shipped")
FAST_LENGTH = "length-fast"
"""Kind of the small Length Predictor fitted to the trained one."""


def run_folder(environment: str, name: str) -> Path:
    """`runs/ENV/NAME` in the cache folder: checkpoint, logs and the finished `model.safetensors`."""
    return home() / "runs" / checked_name("dataset", environment) / checked_name("run", name)


def run_name(kind: str, recipe: str = "default", horizon: int | None = None) -> str:
    """Default name of a run: `vhd`, `fh-H`, `length`, `route` or `dynamics`, plus the recipe's name unless it is the
    default."""
    base = kind if kind != "planner" else "vhd" if horizon is None else f"fh-{horizon}"
    return base if recipe == "default" else f"{base}-{recipe}"


def file_name(run: str) -> str:
    """File name of a run's model in a folder of weights; VHD's is `planner.safetensors`."""
    return f"{'planner' if run == run_name('planner') else run}.safetensors"


def shipped_path(environment: str, kind: str) -> Path:
    """The shipped model file of that kind (it may not exist)."""
    return Path(str(files("vhdiffuser"))) / "weights" / environment / f"{kind}.safetensors"


def find_model(
    environment: str, kind: str, source: Source = "auto", horizon: int | None = None, recipe: str = "default"
) -> Path:
    """Path of the model file to use. `auto` prefers the user's own models to shipped ones.

    Only models of the default recipe with random lengths are shipped. A folder of weights may hold models of any
    method; what its subfolder of the environment lacks is taken from the shipped ones, so a baseline needs no copy of
    the Length Predictor.

    The path is returned even if the file does not exist; opening it reports what is missing.
    """
    name = run_name(kind, recipe, horizon)
    trained = run_folder(environment, name) / "model.safetensors"
    shipped = shipped_path(environment, kind)
    ships = horizon is None and recipe == "default" and shipped.exists()
    if not isinstance(source, str) or source not in SOURCES:
        path = _in_folder(environment, name, source)
        return shipped if ships and not path.exists() and path.parent != Path(source) else path
    if horizon is not None or recipe != "default" or source == "trained":
        return trained
    if source == "shipped" or (not trained.exists() and ships):
        return shipped
    return trained


def find_run(environment: str, run: str, source: Source = "auto") -> Path:
    """Path of the model file of a run of this name: in a folder of weights, or in the cache folder."""
    if isinstance(source, str) and source in SOURCES:
        return run_folder(environment, run) / "model.safetensors"
    return _in_folder(environment, run, source)


def _in_folder(environment: str, run: str, source: Source) -> Path:
    """Path of a run's model in a folder of weights; raises `UnknownNameError` if there is no such folder."""
    if not isinstance(source, str | Path) or not is_folder(Path(source)):
        known = [*SOURCES, "a folder of weights written by `vhd models archive`"]
        raise UnknownNameError("source of weights", shown(source), known)
    folder = Path(source) / environment
    # `save_pretrained` writes one environment, without a subfolder.
    return (folder if folder.is_dir() else Path(source)) / file_name(run)


def trained_models(environment: str) -> dict[str, Path]:
    """Model files of an environment's finished runs, by run name."""
    folder = home() / "runs" / checked_name("dataset", environment)
    return {path.parent.name: path for path in sorted(folder.glob("*/model.safetensors"))}


def shipped_environments() -> list[str]:
    """Environments with a shipped planner."""
    folder = Path(str(files("vhdiffuser"))) / "weights"
    return sorted(path.parent.name for path in folder.glob("*/planner.safetensors"))


def shipped_card(environment: str) -> dict[str, Any]:
    """Facts about a shipped model: data, recipe, minutes, numbers."""
    path = shipped_path(environment, "planner").with_name("card.json")
    return read_json(path, "Reinstall the package.") if path.exists() else {}
