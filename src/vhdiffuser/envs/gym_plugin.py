"""Gymnasium's plugin hook: `gymnasium.make("vhdiffuser/Maze2d-large-v1")` works wherever we are installed."""

from __future__ import annotations

import gymnasium


def register() -> None:
    """Called by Gymnasium when it is imported; the simulator itself is imported by `gymnasium.make`."""
    for maze, steps in (("umaze", 300), ("medium", 600), ("large", 800)):
        gymnasium.register(
            id=f"vhdiffuser/Maze2d-{maze}-v1",
            entry_point="vhdiffuser.envs.maze2d:Maze2dGym",
            kwargs={"maze": maze},
            max_episode_steps=steps,
        )
