"""OGBench's maze datasets: how many episodes, how long, how noisy; and where the published files are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import OGBENCH_HOSTS, read_ogbench
from vhdiffuser.envs.locomaze.maze import MazeName

Kind = Literal["navigate", "stitch", "explore"]
CHUNK = 10_000
"""Transitions that a worker makes at a time: whole episodes of every kind."""


@dataclass(frozen=True)
class DataRecipe:
    """One of OGBench's datasets."""

    maze: MazeName
    kind: Kind
    episode: int
    """Transitions of an episode: one less than its states. OGBench's rows are states, and the last row's action leads
    nowhere."""
    episodes: int
    """Episodes of the published training set; a tenth as many are published for validation."""
    noise: float
    """Standard deviation of the noise on the action."""
    tolerance: float
    """Distance at which a goal counts as reached, in metres."""

    @property
    def transitions(self) -> int:
        """Transitions of the published training set."""
        return self.episode * self.episodes


def data_recipe(maze: MazeName, kind: Kind, noise: float, tolerance: float) -> DataRecipe:
    """OGBench's dataset of that kind: a million transitions, five of `explore`."""
    episode, episodes = {"navigate": (1000, 1000), "stitch": (200, 5000), "explore": (500, 10_000)}[kind]
    if (maze, kind) == ("giant", "navigate"):
        episode, episodes = 2000, 500
    return DataRecipe(maze, kind, episode, episodes, noise, tolerance)


def official_files(name: str) -> OfficialFiles:
    """OGBench's files of a dataset, by its name without the version."""
    return OfficialFiles((f"{name}-v0.npz", f"{name}-v0-val.npz"), OGBENCH_HOSTS, read_ogbench)
