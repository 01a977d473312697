"""What callers hand in, checked once and for all: numbers, whole numbers, seeds. Each refusal says what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import VhdError


def as_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """A float32 array of what a caller gave as numbers: a list, a tuple, an array."""
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
    """A seed: a whole number that 64 bits hold, and not negative."""
    seed = as_whole("seed", value)
    if seed >= 2**63:
        raise VhdError(f"seed must be below 2^63, got {seed}.")
    return seed


def shown(value: Any) -> str:
    """A value as messages show it."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
