"""Validation of arguments and of values read from files. Each error says what is allowed."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError, VhdError

LARGEST = 1e36
"""Largest magnitude accepted; arithmetic on larger numbers overflows in float32."""
Made = TypeVar("Made")


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Convert a list, tuple or array of numbers to a float32 array; raises `VhdError` for anything else."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":  # text, dates, complex numbers
            raise TypeError
        numbers = given if given.dtype == np.float32 else given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise VhdError(f"{name} must be numbers in a list or an array; got {shown(values)}.") from None
    magnitude = np.abs(numbers)
    if not magnitude.max(initial=0) <= LARGEST and (np.isfinite(numbers) & (magnitude > LARGEST)).any():
        raise VhdError(f"{name} must not exceed {LARGEST:g}; got {shown(values)}.")
    return numbers.astype(np.float32)


def as_whole(name: str, value: Any, least: int = 0) -> int:
    """Return `value` as an int; raises `VhdError` unless it is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise VhdError(f"{name} must be a whole number >= {least}; got {shown(value)}.")
    return int(value)


def as_amount(name: str, value: Any) -> float:
    """Return `value` as a float; raises `VhdError` unless it is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < LARGEST:
        raise VhdError(f"{name} must be a finite number >= 0; got {shown(value)}.")
    return float(value)


def as_path(name: str, value: Any) -> Path:
    """Return `value`, a string or a `Path`, as a `Path`."""
    if not isinstance(value, str | PathLike) or "\0" in str(value) or not str(value):
        raise VhdError(f"{name} must be a path (str or pathlib.Path); got {shown(value)}.")
    return Path(value)


def as_seed(value: Any) -> int:
    """Return `value` as a seed: an int in [0, 2^63)."""
    seed = as_whole("seed", value)
    if seed >= 2**63:
        raise VhdError(f"seed must be below 2^63; got {seed}.")
    return seed


def shown(value: Any) -> str:
    """Shorten a value for display in messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def check_fields(value: Any, error: type[VhdError] = VhdError) -> None:
    """Raise `error` if a dataclass field is NaN or does not match its annotated type. Call it in `__post_init__`.

    numpy scalars are converted to Python numbers. Annotations that are not plain data (functions, protocols) are not
    checked.
    """
    kind: Any = type(value)
    for name, hint in _hints(kind).items():
        given = getattr(value, name)
        if isinstance(given, np.generic):  # e.g. from numpy.linspace
            given = given.item()
            object.__setattr__(value, name, given)
        if not _fits(given, hint):
            raise error(f"{name} must be {_in_words(hint)}; got {shown(given)}.")


def from_fields(cls: type[Made], values: Any, what: str, ignore_unknown: bool = False) -> Made:
    """Build a dataclass from a JSON object (lists become tuples, nested objects become dataclasses) and validate it."""
    if not isinstance(values, dict):
        raise DataError(f"{what} must be a JSON object; got {shown(values)}.")
    made_of: Any = cls
    hints = _hints(made_of)
    if (unknown := [str(name) for name in values if name not in hints]) and not ignore_unknown:
        raise DataError(f"{what} has fields that this version does not know: {', '.join(unknown)[:200]}.")
    needed = [item.name for item in fields(cls) if item.default is MISSING and item.default_factory is MISSING]  # type: ignore[arg-type]
    if missing := [name for name in needed if name not in values]:
        raise DataError(f"{what} lacks {', '.join(missing)}.")
    made = {name: _made(given, hints[name], f"{what}.{name}") for name, given in values.items() if name in hints}
    try:
        return cls(**made)
    except VhdError as error:
        raise DataError(f"{what}: {error}") from error


def _made(given: Any, hint: Any, what: str) -> Any:
    """Convert a JSON value to its annotated type."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for option in options:
        if is_dataclass(option) and isinstance(option, type) and given is not None:
            return from_fields(option, given, what)
        if get_origin(option) is tuple and isinstance(given, list):
            return tuple(given)
    return given


@cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in fields(cls) if item.init}


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return isinstance(value, str | int) and value in get_args(hint)
    if origin is tuple:
        inner = get_args(hint)
        if not isinstance(value, tuple):
            return False
        kinds = inner[:1] * len(value) if inner[1:] == (...,) else inner
        return len(kinds) == len(value) and all(map(_fits, value, kinds))
    if hint in (None, NoneType):
        return value is None
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) < LARGEST and value == value
    if hint in (str, bool, dict) or origin is dict:
        return isinstance(value, dict if origin is dict else hint)
    return not (isinstance(hint, type) and is_dataclass(hint)) or isinstance(value, hint)


def _in_words(hint: Any) -> str:
    plain = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", NoneType: "none"}
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(option) for option in inner)
    if origin is Literal:
        return "one of " + ", ".join(map(str, inner))
    if origin is tuple:
        return f"a tuple, each {_in_words(inner[0])}"
    if hint in plain:
        return plain[hint]
    return getattr(origin or hint, "__name__", str(hint))
