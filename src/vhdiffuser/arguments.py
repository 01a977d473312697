"""Validation of callers' arguments: numbers, whole numbers, seeds. Each error says what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import VhdError


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Numbers in a list, tuple or array, as a float32 array."""
    try:
        return np.asarray(values, np.float32)
    except (TypeError, ValueError):
        raise VhdError(f"{name} must be numbers, in a list or an array; got {shown(values)}.") from None


def as_whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise VhdError(f"{name} must be a whole number of {least} or more, got {shown(value)}.")
    return int(value)


def as_seed(value: Any) -> int:
    """A seed: a non-negative integer below 2^63."""
    seed = as_whole("seed", value)
    if seed >= 2**63:
        raise VhdError(f"seed must be below 2^63, got {seed}.")
    return seed


def shown(value: Any) -> str:
    """A value as shown in messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
