"""Load a planner from a folder of ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import FILE, read_calibration
from vhdiffuser.runtime.network import OnnxNetwork
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.onnx_folder import ROUTE, read_checked


def load_parts(folder: Path) -> tuple[dict[str, Any], LengthPredictor | None]:
    """Arguments of `Planner` and its Length Predictor, from a folder with verified digests."""
    content = read_checked(folder)
    spec, config = EnvSpec.from_json(content["spec"]), PlannerConfig.from_json(content["config"])
    arguments = {
        "network": OnnxNetwork((folder / "planner.onnx").read_bytes()),
        "config": config,
        "spec": spec,
        "normalizer": Normalizer.from_json(content["normalizer"]),
        "options": PlanningOptions.from_json(content["planning"]),
        "motion": FastestMotion.from_notes(content["motion"]),
        "calibration": read_calibration(folder / FILE) if FILE in content["files"] else None,
    }
    if content["length"] is None:
        return arguments, None
    length = content["length"]
    routes = RouteGraph.load(folder / ROUTE)[0] if ROUTE in content["files"] else None
    network = OnnxNetwork((folder / "length.onnx").read_bytes())
    normalizer = Normalizer.from_json(length["normalizer"])
    return arguments, LengthPredictor(network, spec, LengthConfig.from_json(length["config"]), normalizer, routes)
