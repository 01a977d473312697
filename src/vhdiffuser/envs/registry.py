"""The five environments of the paper: one row each. Where the paper is silent, the choice is ours and stated."""

from __future__ import annotations

from vhdiffuser.errors import UnknownNameError
from vhdiffuser.types import EnvSpec

_MAZE2D_INSTANCES = (
    "start and goal at random free cells +- 0.1, start velocity 0.1 N(0, 1): D4RL's own reset; "
    "or uniform over free space, at rest"
)


def _maze2d(name: str, epsilon: float, horizons: tuple[int, int, int], T_max: int, budget: int, size: int) -> EnvSpec:
    return EnvSpec(
        name=name,
        family="maze2d",
        observation_dim=4,
        action_dim=2,
        state_dims=(0, 1, 2, 3),
        state_names=("x", "y", "vx", "vy"),
        goal_dims=(0, 1),
        velocity_dims=(2, 3),
        control_dt=0.01,
        epsilon=epsilon,
        horizons=horizons,
        T_max=T_max,
        L_min=16,
        controller="pd",
        step_budget=budget,
        transitions=size,
        instances=_MAZE2D_INSTANCES,
    )


SPECS: dict[str, EnvSpec] = {
    spec.name: spec
    for spec in (
        _maze2d("maze2d-umaze", 0.04, (64, 128, 192), T_max=256, budget=600, size=1_000_000),
        _maze2d("maze2d-medium", 0.03, (192, 288, 384), T_max=512, budget=1200, size=2_000_000),
        _maze2d("maze2d-large", 0.03, (256, 384, 512), T_max=640, budget=1500, size=4_000_000),
        EnvSpec(
            name="antmaze-medium",
            family="antmaze",
            observation_dim=29,
            action_dim=8,
            state_dims=(0, 1),
            state_names=("x", "y"),
            goal_dims=(0, 1),
            velocity_dims=None,
            control_dt=0.1,
            epsilon=0.05,
            horizons=(256, 384, 512),
            T_max=640,
            L_min=16,
            controller="inverse_dynamics",
            step_budget=2000,
            transitions=1_000_000,
            instances="the ant reset in a random free cell +- 1, goal in a random free cell +- 1 (OGBench's noise)",
        ),
        EnvSpec(
            name="cube",
            family="cube",
            observation_dim=28,
            action_dim=5,
            state_dims=(12, 13, 14),
            state_names=("x", "y", "z"),
            goal_dims=(0, 1, 2),
            velocity_dims=None,
            control_dt=0.05,
            epsilon=0.03,
            horizons=(32, 64, 128),
            T_max=128,
            L_min=8,
            controller="inverse_dynamics",
            step_budget=400,
            transitions=1_000_000,
            instances="effector start and goal uniform in the workspace; the start is reached before the clock starts",
        ),
    )
}


def get_spec(name: str) -> EnvSpec:
    """The registered environment of that name."""
    try:
        return SPECS[name]
    except KeyError:
        raise UnknownNameError("environment", name, list(SPECS)) from None
