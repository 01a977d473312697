"""Results of planning and execution, `Plan` and `Rollout`, with plots, films and files."""

from vhdiffuser.trajectories.plan import Plan
from vhdiffuser.trajectories.rollout import Rollout

__all__ = ["Plan", "Rollout"]
