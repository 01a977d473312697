"""Folders of weights (shipped, exported or from the Hub): one model file per kind, `config.json` and a model card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.reading import read_json
from vhdiffuser.weights.format import FORMAT, ModelHeader, Tensors, save_model

CONFIG, CARD = "config.json", "README.md"


def write_folder(folder: Path, models: Mapping[str, tuple[Tensors, ModelHeader]]) -> None:
    """Write `KIND.safetensors` for each kind, and a `config.json` with the planner's header."""
    for kind, (tensors, header) in models.items():
        save_model(folder / f"{kind}.safetensors", tensors, header)
    from importlib.metadata import version

    content = {
        "library_name": "vhdiffuser",
        "versions": {"vhdiffuser": version("vhdiffuser"), "format": FORMAT},
        **stated_parts({kind: header for kind, (_, header) in models.items()}),
    }
    with atomic_path(folder / CONFIG) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def stated_parts(headers: Mapping[str, ModelHeader]) -> dict[str, Any]:
    """Contents of `config.json`: the planner's header without its history, and the other files."""
    planner = headers["planner"]
    others = {kind: {"config": header.config, "normalizer": header.normalizer} for kind, header in headers.items()}
    return {
        "spec": planner.spec,
        "config": planner.config,
        "planning": planner.planning,
        "normalizer": planner.normalizer,
        "length": others.get("length"),
        **({"dynamics": others["dynamics"]} if "dynamics" in others else {}),
    }


def read_config(folder: Path) -> dict[str, Any] | None:
    """Read the folder's `config.json`; None if there is none, as in folders written up to version 0.2."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    content = read_json(path, "Write the folder again.")
    if content.get("library_name") != "vhdiffuser":
        raise DataError(f"{path}: not the config of a vhdiffuser planner (library_name is not vhdiffuser).")
    return content


def check_config(folder: Path, headers: Mapping[str, ModelHeader]) -> None:
    """Raise `DataError` if `config.json` disagrees with the model files, which take precedence."""
    stated = read_config(folder)
    if stated is None:
        return
    held = json.loads(json.dumps(stated_parts(headers)))
    for part in ("spec", "config", "planning", "normalizer", "length"):
        if not _agrees(stated.get(part), held[part]):
            raise DataError(
                f"{folder / CONFIG}: '{part}' differs from the model files, which are what is used. To change "
                "planning options, use `planner.with_options(...)` and `save_pretrained`."
            )


def _agrees(stated: Any, held: Any) -> bool:
    """Whether two parts are equal, apart from fields that only newer versions write."""
    if isinstance(stated, dict) and isinstance(held, dict):
        return all(key in held and _agrees(value, held[key]) for key, value in stated.items())
    return bool(stated == held)


def front_matter(environment: str) -> str:
    """YAML metadata of the model card for the Hugging Face Hub."""
    tags = ["vhdiffuser", "diffusion", "planning", "trajectory", "robotics", environment]
    lines = ["library_name: vhdiffuser", "license: mit", "pipeline_tag: robotics", "tags:", *(f"- {t}" for t in tags)]
    return "\n".join(["---", *lines, "---", ""])
