"""Gymnasium ids of environments with a simulator, such as `vhdiffuser/Maze2d-large-v1`."""

from __future__ import annotations

from vhdiffuser.envs.environment import Environment


def gym_id(environment: Environment) -> str:
    """The Gymnasium id of an environment."""
    return f"vhdiffuser/{environment.name[:1].upper()}{environment.name[1:]}-v1"


def register_id(environment: Environment) -> None:
    """Register an environment with Gymnasium; `gymnasium.make` and `make_vec` create its simulator."""
    import gymnasium

    steps = environment.episode_steps or environment.step_budget
    gymnasium.registry.pop(gym_id(environment), None)  # replacing an environment replaces its id
    gymnasium.register(
        id=gym_id(environment),
        entry_point="vhdiffuser.envs.gym_task:make_task",
        kwargs={"environment": environment.name},  # a name: Gymnasium copies its arguments and serialises them as JSON
        max_episode_steps=steps,
    )
