"""Validation of requests to a planner, before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers, shown
from vhdiffuser.errors import OutsideDataWarning, VhdError, warn
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray, IntArray

LONGEST = 65_536
"""Maximum number of states of a composed plan."""
Outside = Literal["warn", "refuse", "ignore"]
"""What happens to a start or goal outside the limits of the training data."""
EDGE = 1e-3
"""Normalised distance outside the data's limits that is tolerated."""


class RequestError(VhdError):
    """An invalid start, goal, length or seed."""


def checked_starts(spec: EnvSpec, starts: npt.ArrayLike) -> FloatArray:
    """(B, d) float32, finite."""
    states = as_numbers("a start", starts)
    if states.ndim != 2 or states.shape[1] != spec.state_dim:
        raise RequestError(
            f"a start needs {spec.state_dim} numbers ({', '.join(spec.state_names)}); got shape {states.shape[1:]}."
        )
    _refuse_not_finite("start", states)
    return states


def checked_goals(spec: EnvSpec, goals: npt.ArrayLike, clamp: str, count: int) -> FloatArray:
    """(B, d) float32 target states; dimensions that a goal leaves open are 0 (at rest, or unused)."""
    values = as_numbers("a goal", goals)
    if values.ndim != 2 or values.shape[1] not in (spec.goal_dim, spec.state_dim):
        names = ", ".join(spec.state_names[dim] for dim in spec.goal_dims)
        raise RequestError(
            f"a goal needs {spec.goal_dim} numbers ({names}), or a full state of {spec.state_dim}; got shape "
            f"{values.shape[1:]}."
        )
    if len(values) != count:
        raise RequestError(f"{count} starts but {len(values)} goals: pass one goal per start.")
    _refuse_not_finite("goal", values)
    if values.shape[1] != spec.goal_dim:
        return values
    if clamp == "state" and spec.open_dims:
        names = ", ".join(spec.state_names[dim] for dim in spec.open_dims)
        raise RequestError(
            f"this planner clamps the full last state: pass a goal of {spec.state_dim} numbers, with {names}."
        )
    targets = np.zeros((count, spec.state_dim), np.float32)
    targets[:, list(spec.goal_dims)] = values
    return targets


def check_inside(
    spec: EnvSpec, normalizer: Normalizer, starts: FloatArray, targets: FloatArray, clamp: str, outside: str
) -> None:
    """Warn about or refuse starts and goals outside the limits of the training data."""
    if outside == "ignore":
        return
    goal_dims = range(spec.state_dim) if clamp == "state" else spec.goal_dims
    for kind, states, dims in (("start", starts, range(spec.state_dim)), ("goal", targets, goal_dims)):
        beyond = np.abs(normalizer.normalize(states)) > 1 + EDGE  # (B, d)
        beyond[:, [dim for dim in range(spec.state_dim) if dim not in dims]] = False
        if not beyond.any():
            continue
        number, dim = (int(index) for index in np.argwhere(beyond)[0])
        message = (
            f"{kind} {number}: {spec.state_names[dim]} = {states[number, dim]:.4g} is outside the training "
            f"data's range, {normalizer.low[dim]:.4g} to {normalizer.high[dim]:.4g} "
            f"({int(beyond.any(axis=1).sum())} such {kind}s)."
        )
        if outside == "refuse":
            raise RequestError(message + " Choose one inside, or create the planner with outside='warn'.")
        warn(message + " The plan may be poor.", OutsideDataWarning)


def checked_lengths(
    lengths: Sequence[int] | IntArray | int, count: int, allowed: tuple[int, int], horizon: int | None
) -> IntArray:
    """(B,) int64 within `allowed`, or equal to the planner's training horizon."""
    values = _rows("a length is a whole number of states", lengths)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != count):
        raise RequestError(f"{count} pairs but lengths of shape {values.shape}: pass one length, or one per pair.")
    if values.dtype.kind not in "iu":
        raise RequestError(f"a length must be a whole number of states; got {values.ravel()[:3]}.")
    values = values.astype(np.int64) if values.ndim else np.full(count, values, np.int64)
    shortest, longest = max(allowed[0], 2), allowed[1]
    wrong = (values < shortest) | (values > longest)
    if horizon is not None:
        wrong &= values != horizon
    if wrong.any():
        raise RequestError(
            f"length {int(values[wrong][0])} is out of range: this planner makes plans of {shortest} to "
            f"{longest} states. To allow other lengths, use Planner(..., lengths=(shortest, longest))."
        )
    return values


def checked_seeds(seeds: Sequence[int] | IntArray | int, count: int) -> IntArray:
    """(B,) int64: the given seeds, or `count` consecutive ones from a single integer."""
    values = _rows(f"seeds must be one integer or {count} of them", seeds)
    if values.dtype.kind not in "iu" or values.shape not in ((), (count,)):
        raise RequestError(f"seeds must be one integer or {count} of them; got {shown(seeds)}.")
    if values.size and values.min() < 0:
        raise RequestError(f"a seed must be >= 0; got {int(values.min())}.")
    return values + np.arange(count) if values.ndim == 0 else values.astype(np.int64)


def _rows(says: str, given: object) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError:  # rows of different lengths
        raise RequestError(f"{says}, got {shown(given)}.") from None


def _refuse_not_finite(kind: str, values: FloatArray) -> None:
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise RequestError(f"{kind} {int(bad.argmax())} contains NaN or infinity: {values[bad][0]}.")
