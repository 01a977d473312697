"""Plans that wait at their goal: their last states stand there, so that a robot which is late still arrives in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vhdiffuser.trajectories import Plan
from vhdiffuser.types import IntArray


def moving_lengths(lengths: IntArray, wait: int, shortest: int) -> IntArray:
    """(B,) lengths of plans without the states that wait; at least `shortest`, where plans have so many."""
    return np.maximum(lengths - wait, np.minimum(lengths, shortest))


def waiting(plans: Sequence[Plan], lengths: IntArray) -> list[Plan]:
    """Plans that stand at their last position until they have lengths (B,)."""
    return [_waiting(plan, int(length)) for plan, length in zip(plans, lengths, strict=True)]


def _waiting(plan: Plan, length: int) -> Plan:
    if plan.length >= length:
        return plan
    assert plan.spec is not None  # planners know theirs
    still = np.repeat(plan.states[-1:], length - plan.length, axis=0)
    still[:, list(plan.spec.velocity_dims or ())] = 0.0
    return replace(plan, states=np.concatenate([plan.states, still]))
