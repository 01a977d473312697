"""From a predicted distance to the length of a plan (Algorithm 2, line 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import ClippedLengthWarning, VhdError, warn
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


def plan_lengths(
    steps: npt.ArrayLike, spec: EnvSpec, gamma: float | FloatArray, unlimited: npt.NDArray[np.bool_] | bool = False
) -> IntArray:
    """L_hat = clip(gamma (f T_max + 1), L_min, T_max) in states, for predicted distances f T_max of any shape.

    gamma is one margin, or one per distance. T_max does not limit plans that may be composed of pieces (`unlimited`, of
    the same shape).

    Rounded up, since a plan that is too short cannot be followed, while one that is a step too long can. Warns with
    `ClippedLengthWarning` about lengths clipped at T_max.
    """
    if not np.all(np.asarray(gamma) > 0):
        raise VhdError(f"gamma must be > 0 (1 is no margin); got {gamma}.")
    wanted = np.ceil(gamma * (np.asarray(steps, np.float64) + 1))
    longest = np.where(unlimited, np.inf, spec.T_max)
    if clipped := int((wanted > longest).sum()):
        warn(
            f"{spec.name}: {clipped} of {wanted.size} predicted lengths clipped at T_max = {spec.T_max} states (margin "
            f"{np.max(gamma):g}). Such a plan may be too short to follow: use a smaller margin, or replan on the way.",
            ClippedLengthWarning,
        )
    return np.clip(wanted, spec.L_min, longest).astype(np.int64)
