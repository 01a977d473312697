"""Runs on disk: one folder for each trained network, by environment and name."""

from __future__ import annotations

import shutil
from pathlib import Path

from vhdiffuser.files import home


def run_folder(environment: str, name: str) -> Path:
    """`runs/ENV/NAME` in the cache folder: checkpoint, logs and, when done, `model.safetensors`."""
    return home() / "runs" / environment / name


def planner_name(recipe: str, horizon: int | None) -> str:
    """`vhd`, or `fh-H` for a fixed horizon; the paper's recipe says so."""
    base = "vhd" if horizon is None else f"fh-{horizon}"
    return base if recipe == "default" else f"{base}-{recipe}"


def restart(folder: Path) -> None:
    """Forget a run."""
    shutil.rmtree(folder, ignore_errors=True)
