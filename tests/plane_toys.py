"""Toy environments in the plane: position and velocity, goals are positions."""

from __future__ import annotations

from vhdiffuser.types import EnvSpec


def plane(name: str, T_max: int) -> EnvSpec:
    """A body at (x, y) with velocity (vx, vy), moved by two forces."""
    return EnvSpec(
        name=name,
        observation_dim=4,
        action_dim=2,
        state_dims=(0, 1, 2, 3),
        state_names=("x", "y", "vx", "vy"),
        goal_dims=(0, 1),
        velocity_dims=(2, 3),
        control_dt=0.1,
        epsilon=0.05,
        T_max=T_max,
        L_min=8,
    )
