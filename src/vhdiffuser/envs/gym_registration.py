"""Our mazes in Gymnasium's registry, under the namespace `vhdiffuser`."""

from __future__ import annotations

import gymnasium


def register() -> None:
    """Called when `vhdiffuser` is imported; the simulator itself is imported by `gymnasium.make`."""
    for maze, steps in (("umaze", 300), ("medium", 600), ("large", 800)):
        gymnasium.register(
            id=f"vhdiffuser/Maze2d-{maze}-v1",
            entry_point="vhdiffuser.envs.maze2d:Maze2dGym",
            kwargs={"maze": maze},
            max_episode_steps=steps,
        )
