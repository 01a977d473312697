"""Whether an ant lies on its back. Nothing ends its episode then, and it does not get up again."""

from __future__ import annotations

import numpy as np

from vhdiffuser.types import EnvSpec, FloatArray


def fallen(spec: EnvSpec, observations: FloatArray) -> np.ndarray:
    """(..., o) -> (...,) whether the torso's own up points down; never, for whoever cannot fall.

    Observations 3 to 6 are the torso's unit quaternion (w, x, y, z), of which the up axis has the
    height 1 - 2 (x^2 + y^2).
    """
    if spec.family != "antmaze":
        return np.zeros(observations.shape[:-1], bool)
    return 1 - 2 * np.square(observations[..., 4:6]).sum(axis=-1) < 0
