"""Export of planner, Length Predictor and controller to ONNX, for robots and other languages."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.control.base import default_controller
from vhdiffuser.control.inverse_dynamics import DynamicsConfig, InverseDynamicsController, proprioception_dims
from vhdiffuser.diffusion.options import OptionChanges
from vhdiffuser.diffusion.sampler import reverse_levels
from vhdiffuser.envs.registry import find_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path, sha256
from vhdiffuser.length.config import goal_dims
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import FILE, belongs, relabelled, write_calibration
from vhdiffuser.planner.load import load_planner
from vhdiffuser.planner.planner import Planner
from vhdiffuser.runtime.network import Network, OnnxNetwork
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.onnx_folder import CONFIG, ROUTE, read_checked, write_config
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from typing_extensions import Unpack


def export_onnx(
    planner: Planner, folder: Path | str, controller: InverseDynamicsController | None = None
) -> dict[str, Path]:
    """Write `planner.onnx`, `config.json` and, if present, `length.onnx`, `dynamics.onnx` and the route graph to a
    folder.

    `vhdiffuser.load_planner(folder)` plans with them, `load_onnx_controller(folder)` follows plans. Raises `VhdError`
    for custom networks.
    """
    folder = Path(folder)
    predictor = planner.length_predictor
    if predictor is not None and not isinstance(predictor, LengthPredictor):
        raise VhdError(f"a {type(predictor).__name__} cannot be exported; only a vhdiffuser.LengthPredictor can.")
    models = {"planner.onnx": _model("planner", planner.network)}
    if predictor is not None:
        models["length.onnx"] = _model("Length Predictor", predictor.network)
    if controller is not None:
        models["dynamics.onnx"] = _model("inverse dynamics model", controller.network)
    written = {}
    for name, model in models.items():
        written[name] = folder / name
        with atomic_path(folder / name) as temporary:
            temporary.write_bytes(model)
    if predictor is not None and predictor.routes is not None:
        fingerprint = predictor.header().data_fingerprint
        written[ROUTE] = predictor.routes.save(folder / ROUTE, predictor.spec, predictor.normalizer, fingerprint)
    if (calibration := planner.calibration) is not None and belongs(planner, calibration):
        digests = {Path(name).stem: sha256(folder / name) for name in models if name != "dynamics.onnx"}
        written[FILE] = write_calibration(folder / FILE, relabelled(replace(calibration, default_risk=None), digests))
    return {**written, CONFIG: write_config(folder, _config(planner, predictor, controller), list(written.values()))}


def export_environment(
    name: str, folder: Path | None = None, source: Source = "auto", **options: Unpack[OptionChanges]
) -> tuple[Planner, dict[str, Path]]:
    """Export an environment's planner with these options and, where it is a learned one, its controller.

    The folder is `out/onnx/ENVIRONMENT` unless given. Returns the planner and the files written.
    """
    planner = load_planner(name, source=source, **options)
    controller, environment = None, find_environment(planner.spec.name)
    if environment is not None and environment.learns_control and planner.spec.action_dim:
        made = default_controller(planner.spec, source)
        controller = made if isinstance(made, InverseDynamicsController) else None
    return planner, export_onnx(planner, folder or Path("out/onnx") / planner.spec.name, controller)


def load_onnx_controller(folder: Path | str) -> InverseDynamicsController:
    """Load the inverse dynamics controller from a folder's `dynamics.onnx`."""
    folder = Path(folder)
    content = read_checked(folder)
    if content["dynamics"] is None:
        raise DataError(f"{folder} has no dynamics.onnx: the controller of {content['spec']['name']} is not a network.")
    dynamics = content["dynamics"]
    return InverseDynamicsController(
        OnnxNetwork((folder / "dynamics.onnx").read_bytes()),
        EnvSpec.from_json(content["spec"]),
        DynamicsConfig.from_json(dynamics["config"]),
        Normalizer.from_json(dynamics["normalizer"]),
        content["files"]["dynamics.onnx"][:12],
        dynamics["by_path"],
    )


def _model(kind: str, network: Network) -> bytes:
    if not isinstance(network, OnnxNetwork):
        raise VhdError(
            f"this {kind} is a {type(network).__name__}, not one of our CPU networks, so it cannot be exported."
        )
    return network.model


def _config(
    planner: Planner, predictor: LengthPredictor | None, controller: InverseDynamicsController | None
) -> dict[str, Any]:
    spec, config, options = planner.spec, planner.config, planner.options
    first, last = config.clamped_dims(spec)
    levels = list(reverse_levels(planner.schedule, options.steps))
    length = dynamics = None
    if predictor is not None:
        length = {
            "inputs": {"s": "normalised state", "g": "its goal_dims, normalised"},
            "output": {"f": "quantiles of steps / T_max; the first one is used, clipped at 1"},
            "goal_dims": list(goal_dims(spec, predictor.config)),
            "config": predictor.config.to_json(),
            "normalizer": predictor.normalizer.to_json(),
        }
    if controller is not None:
        dynamics = {
            "inputs": {
                "body": "normalised observation, body_dims only",
                "relative": "(planned position `ahead` steps on - position) / reach, flattened",
            },
            "output": {"action": "clip to -1..1"},
            "by_path": controller.by_path,
            "body_dims": proprioception_dims(spec, controller.config),
            "reach": controller.reach.tolist(),
            "config": controller.config.to_json(),
            "normalizer": controller.normalizer.to_json(),
        }
    return {
        "library_name": "vhdiffuser",
        "versions": {"vhdiffuser": version("vhdiffuser")},
        "spec": spec.to_json(),
        "config": config.to_json(),
        "planning": options.to_json(),
        "normalizer": planner.normalizer.to_json(),
        "motion": planner.motion.to_notes() if planner.motion else {},
        "network": {
            "inputs": {"tau": "(B, K, d) noisy knots, normalised", "level": "(1,) diffusion time"},
            "output": {"predicted": config.prediction},
            "stride": config.stride,
            "clamped_dims_of_first_knot": first,
            "clamped_dims_of_last_knot": last,
        },
        "schedule": {"levels": levels, "alpha_bar": [*planner.schedule.alpha_bar[levels].tolist(), 1.0]},
        "length": length,
        "dynamics": dynamics,
    }
