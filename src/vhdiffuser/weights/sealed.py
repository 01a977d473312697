"""Small JSON files with a format number and a digest, written atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.reading import read_json


def write_sealed(path: Path, content: Mapping[str, Any], format: int) -> Path:
    """Write an object with its format number and digest."""
    stated = {**content, "format": format}
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({**stated, "sha256": content_digest(stated)}, indent=1) + "\n", "utf-8")
    return path


def read_sealed(path: Path, format: int, mend: str) -> dict[str, Any]:
    """Read an object, verify its digest, and return it without digest and format; `mend` says what to do about a
    damaged file."""
    content = read_json(path, mend)
    stated = content.pop("sha256", None)
    if content.get("format") != format:
        raise DataError(f"{path}: damaged, or written by another version of vhdiffuser. {mend}")
    if stated != content_digest(content):
        raise DataError(f"{path}: damaged or edited: it does not match its digest. {mend}")
    del content["format"]
    return content


def content_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of an object as JSON, independent of the order of keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
