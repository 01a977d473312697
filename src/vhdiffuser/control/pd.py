"""PD tracking of a plan, for environments whose state has positions and velocities (maze2d).

In maze2d one step at full action changes the velocity by 0.237, so k_d near 1 / 0.237 = 4.2 reaches the next planned
velocity in one step, which amounts to feed-forward of the planned acceleration.

The defaults come from 14 pairs of gains on maze2d-large, tried on 30 (some on 40) paths of 120 steps from regenerated
data: a cubic through every fourth state, with noise N(0, 0.01) or N(0, 0.03) on positions and five times that on
velocities. Mean tracking error in thousandths (normalised) and fraction of paths that ended within epsilon:

    k_p/k_d      noise 0.01       noise 0.03
    12.5/1.2    12.7    97 %     24    80 %
    20/4         8.4   100 %     25    83 %
    30/4.2       8.6   100 %     23    80 %
    8/4.2        8.7   100 %     33    48 %
    100/8        9.8   100 %     23    80 %
    400/4       24.5    73 %     38    43 %

These are too few paths to separate 20/4 from its neighbours (20/3 to 40/4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vhdiffuser.arguments import check_fields
from vhdiffuser.control.base import Controller, reference_states
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import VhdError
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray


@dataclass(frozen=True)
class PDConfig:
    """Gains of the PD law."""

    position_gain: float = 20.0
    """k_p: action per unit of position error."""
    velocity_gain: float = 4.0
    """k_d: action per unit/s of velocity error."""

    @classmethod
    def of(cls, environment: Environment) -> PDConfig:
        """The environment's gains, or the defaults."""
        return cls() if environment.pd_gains is None else cls(*environment.pd_gains)

    def __post_init__(self) -> None:
        check_fields(self)
        if not (np.isfinite(self.position_gain) and np.isfinite(self.velocity_gain)):
            raise VhdError(f"PD gains must be finite; got {self.position_gain} and {self.velocity_gain}.")
        if self.position_gain < 0 or self.velocity_gain < 0:
            raise VhdError(f"PD gains must not be negative; got {self.position_gain} and {self.velocity_gain}.")


class PDController(Controller):
    """a_t = clip(k_p (p_{t+1} - p) + k_d (v_{t+1} - v), -1, 1), where (p, v)_{t+1} is the plan's next state."""

    def __init__(self, spec: EnvSpec, config: PDConfig | None = None) -> None:
        if spec.velocity_dims is None:
            raise VhdError(f"{spec.name}: PD tracking needs velocities in the planning state, but it has none.")
        if len(spec.goal_dims) != spec.action_dim:
            raise VhdError(
                f"{spec.name}: PD tracking needs one action per goal dimension; got {spec.action_dim} actions "
                f"and {len(spec.goal_dims)} dimensions."
            )
        self.spec = spec
        self.config = config or PDConfig()
        self._positions, self._velocities = list(spec.goal_dims), list(spec.velocity_dims)

    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, o), B plans, (B,) -> (B, m)."""
        states = self.spec.planning_state(observations)  # (B, d)
        reference = reference_states(plans, indices)  # (B, d)
        ended = np.array([plan.length - 1 for plan in plans]) <= np.asarray(indices)
        # Past the end of the plan its last state is held, so the reference velocity is zero.
        velocity = np.where(ended[:, None], 0.0, reference[:, self._velocities])
        action = self.config.position_gain * (reference - states)[:, self._positions]
        action += self.config.velocity_gain * (velocity - states[:, self._velocities])
        return np.clip(action, -1.0, 1.0).astype(np.float32)

    def describe(self) -> dict[str, Any]:
        """Name and gains."""
        return {"name": "pd", **asdict(self.config)}
