"""What planning and execution give back: `Plan` and `Rollout`, which can be looked at, compared and kept."""

from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.trajectories.rollout import Rollout

__all__ = ["Plan", "Rollout"]
