"""Folders of ONNX models with a self-contained `config.json`, written by `vhd export onnx`.

`config.json` holds a digest of itself and of every file; all are verified on reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import sha256
from vhdiffuser.weights.sealed import content_digest, write_sealed

CONFIG, ROUTE = "config.json", "route.safetensors"
FORMAT = 1
"""Version of the folder's layout."""


def is_onnx_folder(folder: Path) -> bool:
    """Whether a folder was written by `vhd export onnx`."""
    return (folder / "planner.onnx").is_file()


def write_config(folder: Path, content: Mapping[str, Any], files: list[Path]) -> Path:
    """Write `config.json` with digests of the files, which must exist already."""
    return write_sealed(folder / CONFIG, {**content, "files": {path.name: sha256(path) for path in files}}, FORMAT)


def read_checked(folder: Path) -> dict[str, Any]:
    """Read the folder's config after verifying all digests."""
    path = folder / CONFIG
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        stated, files = content.pop("sha256"), content["files"]
        made = content["format"]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}). Export the folder again.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: damaged, or not written by `vhd export onnx` ({error!r}). Export it again."
        ) from error
    if made != FORMAT:
        raise DataError(f"{path}: written by another version of vhdiffuser. Export it again.")
    if stated != content_digest(content):
        raise DataError(f"{path}: damaged or edited: it does not match its digest. Export the folder again.")
    for name, digest in files.items():
        if not (folder / name).is_file() or sha256(folder / name) != digest:
            raise DataError(
                f"{folder / name}: missing or damaged: it does not match {CONFIG}. Export the folder again."
            )
    return content
