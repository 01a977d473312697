"""Regenerate OGBench's antmaze data: the directional walker, guided through the maze by OGBench's oracle."""

from __future__ import annotations

from functools import cache, partial

from vhdiffuser.data.build import ChunksMaker
from vhdiffuser.envs.antmaze.simulator import AntPhysics
from vhdiffuser.envs.antmaze.walker import Walker
from vhdiffuser.envs.locomaze.building import build_chunks
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MazeName


def chunks_maker(recipe: DataRecipe, walker: Walker | None = None) -> ChunksMaker:
    """Makes chunks of one dataset, by default with the shipped walker."""
    return partial(build_chunks, recipe, _physics(recipe.maze), (walker or _shipped_walker()).one_by_one)


@cache
def _physics(maze: MazeName) -> AntPhysics:
    return AntPhysics(maze)


@cache
def _shipped_walker() -> Walker:
    return Walker.load()
