"""The results of planning and execution, `Plan` and `Rollout`: to plot, compare and save."""

from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.trajectories.rollout import Rollout

__all__ = ["Plan", "Rollout"]
