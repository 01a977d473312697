"""References to user code: `my_file.py:name` and `package.module:name`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from vhdiffuser.envs.checked import foreign_code
from vhdiffuser.errors import VhdError


def load_attribute(kind: str, reference: str) -> Any:
    """The object that `file.py:attribute` or `package.module:attribute` refers to; `kind` names it in messages."""
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute:
        raise VhdError(f"{kind} '{reference}': write file.py:name or package.module:name.")
    try:
        with foreign_code(f"{kind} '{reference}': importing {place}"):
            module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except VhdError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
        raise VhdError(
            f"{kind} '{reference}': {error.__cause__}. Write file.py:function or package.module:function; a package "
            "must be installed or lie in the current folder."
        ) from None
    if not hasattr(module, attribute):
        raise VhdError(f"{kind} '{reference}': {place} has no '{attribute}'.")
    return getattr(module, attribute)


def _import_module(name: str) -> Any:
    """Import a module that is installed, or else lies in the current folder, where a console script does not look."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def _import_file(path: Path) -> Any:
    """Import a file as a module; worker processes can import it as well, since they share our search path."""
    if not path.is_file():
        raise VhdError(f"{path}: no such file.")
    folder, name = str(path.resolve().parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = import_module(name)
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise VhdError(f"{path}: a module named '{name}' is already loaded. Rename the file.")
    return module
