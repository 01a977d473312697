"""Push a finished plan out of a forbidden region.

Guidance moves knots, and the curve through them may still cut a region's corner.
"""

from __future__ import annotations

import numpy as np

from vhdiffuser.diffusion.guidance import Cost
from vhdiffuser.types import EnvSpec, FloatArray

_PUSHES = 50
"""Maximum number of gradient steps."""


def pushed_out(states: FloatArray, cost: Cost, spec: EnvSpec, width: float) -> FloatArray:
    """Move (L, d) states at the control rate down the gradient of a cost until it is 0; ends are fixed, velocities
    follow.

    A displacement is spread over about `width` control steps on either side, so the plan stays smooth.
    """
    from scipy.ndimage import gaussian_filter1d  # takes a third of a second to import, needed only with `avoid`

    dims, width = list(spec.goal_dims), max(width, 1.0)
    at = np.arange(len(states))
    free = np.minimum(np.minimum(at, at[::-1]) / width, 1.0)[:, None]  # 0 at both ends, 1 between
    change = np.zeros((len(states), len(dims)))
    for _ in range(_PUSHES):
        places = (states[:, dims] + change).astype(np.float32)[None]  # (1, L, goal_dim)
        if not (cost.values(places) > 0).any():
            break
        slope = cost.slopes(places)[0].astype(np.float64)
        move = gaussian_filter1d(slope, width, axis=0, mode="constant")
        change -= free * move * (np.abs(slope).max() / max(np.abs(move).max(), 1e-12))
    moved = states.astype(np.float64)
    moved[:, dims] += change
    if spec.velocity_dims is not None:
        rate: FloatArray = np.gradient(change, spec.control_dt, axis=0)  # type: ignore[assignment]  # one axis, one array
        moved[:, list(spec.velocity_dims)] += rate
    return moved.astype(np.float32)
