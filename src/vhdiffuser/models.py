"""Where trained models are: those that ship with the package, and those that the user has trained."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from vhdiffuser.files import checked_name, home

Source = Literal["auto", "trained", "shipped"]


def run_folder(environment: str, name: str) -> Path:
    """`runs/ENV/NAME` in the cache folder: checkpoint, logs and, when done, `model.safetensors`."""
    return home() / "runs" / checked_name("dataset", environment) / checked_name("run", name)


def run_name(kind: str, recipe: str = "default", horizon: int | None = None) -> str:
    """`vhd`, `fh-H`, `length` or `dynamics`; another recipe than the default says so."""
    base = kind if kind != "planner" else "vhd" if horizon is None else f"fh-{horizon}"
    return base if recipe == "default" else f"{base}-{recipe}"


def shipped_path(environment: str, kind: str) -> Path:
    """The package's own model file of that kind (it may not exist)."""
    return Path(str(files("vhdiffuser"))) / "weights" / environment / f"{kind}.safetensors"


def find_model(
    environment: str, kind: str, source: Source = "auto", horizon: int | None = None, recipe: str = "default"
) -> Path:
    """The model file to use. `auto` takes what the user has trained, and otherwise what ships.

    Only the default recipe at random lengths ships.

    The path is returned whether or not the file exists: whoever opens it says what is missing.
    """
    trained = run_folder(environment, run_name(kind, recipe, horizon)) / "model.safetensors"
    shipped = shipped_path(environment, kind)
    if horizon is not None or recipe != "default" or source == "trained":
        return trained
    if source == "shipped" or (not trained.exists() and shipped.exists()):
        return shipped
    return trained


def shipped_environments() -> list[str]:
    """Environments whose planner ships with the package."""
    folder = Path(str(files("vhdiffuser"))) / "weights"
    return sorted(path.parent.name for path in folder.glob("*/planner.safetensors"))


def shipped_card(environment: str) -> dict[str, Any]:
    """Facts about a shipped model: data, recipe, minutes, numbers."""
    path = shipped_path(environment, "planner").with_name("card.json")
    return json.loads(path.read_text()) if path.exists() else {}
