"""A planner with its Length Predictor in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vhdiffuser.errors import UnknownNameError
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.planner.planner import Planner
from vhdiffuser.weights.places import Source, find_model, shipped_environments


def load_planner(
    name: str | Path,
    *,
    source: Source = "shipped",
    gamma: float | None = None,
    smoothing: float | None = None,
    outside: Literal["warn", "refuse", "ignore"] = "warn",
    device: str = "cpu",
) -> Planner:
    """The variable-horizon planner of an environment, ready to plan.

    `name` is an environment with shipped weights (`vhd models` lists them), an environment that you have
    trained with `source="trained"`, or a folder with `planner.safetensors` and `length.safetensors`.

    >>> planner = load_planner("maze2d-large")                       # doctest: +SKIP
    >>> plan = planner.plan(start=[1, 1, 0, 0], goal=[7, 9])         # doctest: +SKIP
    """
    folder = Path(name)
    # A folder that only happens to be called like an environment (of results, say) is not meant.
    if (folder / "planner.safetensors").is_file() or (isinstance(name, Path) and folder.is_dir()):
        planner_path, length_path = folder / "planner.safetensors", folder / "length.safetensors"
    else:
        if source == "shipped" and str(name) not in shipped_environments():
            raise UnknownNameError("shipped planner", str(name), shipped_environments() or ["none yet"])
        planner_path = find_model(str(name), "planner", source)
        length_path = find_model(str(name), "length", source)
    predictor = LengthPredictor.load(length_path, device)
    return Planner.load(planner_path, predictor, gamma=gamma, smoothing=smoothing, outside=outside, device=device)
