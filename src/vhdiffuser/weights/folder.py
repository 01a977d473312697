"""A folder of weights, as shipped, exported or on the Hub: one model file per kind, `config.json` and a card."""

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
    """Write `KIND.safetensors` for each kind, and a `config.json` that repeats the planner's header."""
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
    """What `config.json` says about the models: the planner's header without its history, and the other files."""
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
    """The folder's `config.json`, or None if it has none, as in folders written up to version 0.2."""
    path = folder / CONFIG
    if not path.is_file():
        return None
    content = read_json(path, "Write the folder again.")
    if content.get("library_name") != "vhdiffuser":
        raise DataError(f"{path}: not the config of a vhdiffuser planner (its library_name is not vhdiffuser).")
    return content


def check_config(folder: Path, headers: Mapping[str, ModelHeader]) -> None:
    """Raise `DataError` if `config.json` disagrees with the model files, which are what is used."""
    stated = read_config(folder)
    if stated is None:
        return
    held = json.loads(json.dumps(stated_parts(headers)))
    for part in ("spec", "config", "planning", "normalizer", "length"):
        if not _agrees(stated.get(part), held[part]):
            raise DataError(
                f"{folder / CONFIG}: its '{part}' differs from that of the model files beside it, which are used. To "
                "plan with other options use `planner.with_options(...)`, and `save_pretrained` to keep them."
            )


def _agrees(stated: Any, held: Any) -> bool:
    """Whether two parts are the same but for fields that a newer version knows and the folder's does not name."""
    if isinstance(stated, dict) and isinstance(held, dict):
        return all(key in held and _agrees(value, held[key]) for key, value in stated.items())
    return bool(stated == held)


def front_matter(environment: str) -> str:
    """The card's YAML metadata for the Hugging Face Hub."""
    tags = ["vhdiffuser", "diffusion", "planning", "trajectory", "robotics", environment]
    lines = ["library_name: vhdiffuser", "license: mit", "pipeline_tag: robotics", "tags:", *(f"- {t}" for t in tags)]
    return "\n".join(["---", *lines, "---", ""])
