"""Planners in folders and on the Hugging Face Hub. No network access unless allowed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhdiffuser.arguments import shown
from vhdiffuser.data.motion import FastestMotion
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.networks import unet_network
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.errors import DataError, UnknownNameError, VhdError, needs_extra
from vhdiffuser.files import atomic_path
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.calibrated import FILE, read_calibration
from vhdiffuser.planner.candidates import StepsPredictor
from vhdiffuser.types import EnvSpec
from vhdiffuser.weights.folder import CARD, CONFIG, front_matter, read_config, write_folder
from vhdiffuser.weights.format import ModelHeader, Tensors, load_model
from vhdiffuser.weights.places import Source, find_model, shipped_environments

if TYPE_CHECKING:
    import torch

    from vhdiffuser.planner.planner import Planner

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def find_pretrained(
    name: str | Path, source: Source, local_files_only: bool, revision: str | None
) -> tuple[Path, Path | None, Path | None]:
    """Model files of the planner, its Length Predictor and its route graph; None for those missing."""
    if not isinstance(name, str | Path):
        raise VhdError(f"a planner is given by a name or a folder; got {shown(name)}.")
    folder = Path(name)
    # Ignore a folder that merely has the name of an environment (results, for example).
    if not ((folder / "planner.safetensors").is_file() or (isinstance(name, Path) and folder.is_dir())):
        known = shipped_environments()
        if source == "shipped" and str(name) not in known and HUB_ID.fullmatch(str(name)) is None:
            source = (
                "trained" if _is_trained(str(name)) else source
            )  # without shipped weights, they must have been trained
        if source != "shipped" or str(name) in known:
            path = find_model(str(name), "planner", source)
            if not path.is_file():
                from vhdiffuser.envs.registry import get_environment

                get_environment(str(name))  # report an unknown name before a missing file
            route = find_model(str(name), "route", source)
            return path, find_model(str(name), "length", source), route if route.is_file() else None
        if not HUB_ID.fullmatch(str(name)):
            others = ["a folder of weights", "an environment you trained", "a Hugging Face id OWNER/NAME"]
            raise UnknownNameError("planner", str(name), [*known, *others])
        folder = _from_hub(str(name), local_files_only, revision)
    config = read_config(folder)
    alone = config is not None and config.get("length") is None
    route = folder / "route.safetensors"
    if alone:
        return folder / "planner.safetensors", None, None
    return folder / "planner.safetensors", folder / "length.safetensors", route if route.is_file() else None


def planner_parts(path: Path, device: torch.device | str) -> tuple[dict[str, Any], ModelHeader]:
    """The arguments of `Planner` in a model file, with the calibration next to it if there is one, and its header."""
    tensors, header = load_model(path, "planner")
    config, spec = PlannerConfig.from_json(header.config), EnvSpec.from_json(header.spec)
    try:
        network = unet_network(tensors, config, spec, device)
    except DataError as error:
        raise DataError(f"{path}: its weights do not match its own config ({error}). Train it again.") from error
    return {
        "network": network,
        "config": config,
        "spec": spec,
        "normalizer": Normalizer.from_json(header.normalizer),
        "options": PlanningOptions.from_json(header.planning),
        "motion": FastestMotion.from_notes(header.notes),
        "calibration": read_calibration(path.with_name(FILE)),
    }, header


def _is_trained(name: str) -> bool:
    try:
        return find_model(name, "planner", "trained").is_file()
    except DataError:  # not the name of an environment
        return False


def _from_hub(repo_id: str, local_files_only: bool, revision: str | None) -> Path:
    """The repository's folder in the Hub's local cache, updated first if downloads are allowed."""
    with needs_extra("hub", f"loading '{repo_id}' (no folder of weights here) from the Hugging Face Hub"):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    files = ["*.safetensors", "*.table.npz", CONFIG, CARD, FILE]
    try:
        return Path(
            snapshot_download(repo_id, revision=revision, local_files_only=local_files_only, allow_patterns=files)
        )
    except (OSError, HfHubHTTPError) as error:
        if local_files_only:
            raise DataError(
                f"'{repo_id}' is neither a folder with planner.safetensors nor in the local Hugging Face cache. "
                "Pass local_files_only=False to download it."
            ) from error
        raise DataError(f"'{repo_id}' cannot be downloaded from the Hugging Face Hub: {error}") from error


def headers_of(planner: Planner, origin: ModelHeader | None) -> dict[str, ModelHeader]:
    """Current headers of a planner's model file and of its Length Predictor, if that is a `LengthPredictor`.

    `origin` is the header of the file it was loaded from.
    """
    notes = planner.motion.to_notes() if planner.motion else {}
    header = replace(
        origin or ModelHeader("planner", {}, {}, {}, data_fingerprint="", notes=notes),
        spec=planner.spec.to_json(),
        config=planner.config.to_json(),
        normalizer=planner.normalizer.to_json(),
        planning=planner.options.to_json(),
    )
    predictor = planner.length_predictor
    return {"planner": header} | ({"length": predictor.header()} if isinstance(predictor, LengthPredictor) else {})


def predictor_models(predictor: StepsPredictor | None) -> dict[str, tuple[Tensors, ModelHeader]]:
    """Model files of a planner's Length Predictor: itself, and its route graph or landmarks if present."""
    if predictor is None:
        return {}
    if not isinstance(predictor, LengthPredictor):
        raise VhdError(
            f"a {type(predictor).__name__} cannot be saved; only a vhdiffuser.LengthPredictor can. Set "
            "planner.length_predictor to one, or to None to save the planner alone."
        )
    header = predictor.header()
    models = {"length": (predictor.network.tensors, header)}
    if (routes := predictor.routes) is not None:
        models["route"] = routes.model(predictor.spec, predictor.normalizer, header.data_fingerprint)
    elif (landmarks := predictor.landmarks) is not None:
        models["support"] = landmarks.model(predictor.spec, predictor.normalizer, header.data_fingerprint)
    return models


def save_folder(folder: Path, models: Mapping[str, tuple[Tensors, ModelHeader]]) -> None:
    """Write the folder that `find_pretrained` reads; an existing model card is kept, as the Hub's tools do."""
    write_folder(folder, models)
    if (folder / CARD).exists():
        return
    with atomic_path(folder / CARD) as temporary:
        temporary.write_text(_card(models["planner"][1], "length" in models), encoding="utf-8")


def push_folder(repo_id: str, folder: Path, private: bool, message: str) -> str:
    """Upload a folder to a model repository, created if necessary; returns its URL."""
    if not HUB_ID.fullmatch(repo_id):
        raise DataError(f"'{repo_id}' is not a Hugging Face id: use OWNER/NAME.")
    with needs_extra("hub", "push_to_hub"):
        from huggingface_hub import HfApi
    api = HfApi()
    url = api.create_repo(repo_id, private=private, exist_ok=True)
    api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=message)
    return str(url)


def _card(header: ModelHeader, predicts: bool) -> str:
    """A short model card; `vhd models card` writes a longer one with measured results."""
    name, config = header.spec["name"], header.config
    said = [
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in header.planning.items()
    ]
    with_length = " with its Length Predictor" if predicts else ""
    return "\n".join(
        [
            front_matter(name),
            f"# {name}: diffusion planner",
            "",
            f"A trajectory planner of [VH-Diffuser](https://pypi.org/project/vhdiffuser/){with_length}.",
            "",
            "```python",
            "import vhdiffuser",
            "",
            'planner = vhdiffuser.Planner.from_pretrained("FOLDER or OWNER/NAME")  # local_files_only=False downloads',
            "plan = planner.plan(start, goal)",
            "```",
            "",
            f"States: {', '.join(header.spec['state_names'])}. Plans of {header.spec['L_min']} to "
            f"{header.spec['T_max'] if config['horizon'] is None else config['horizon']} states. "
            f"{header.updates_in_all:,} updates. Plans with {', '.join(said)}. Everything is in `{CONFIG}`.",
            "",
        ]
    )
