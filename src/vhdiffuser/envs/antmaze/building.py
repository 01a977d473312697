"""Regenerate OGBench's antmaze data: the directional walker, sent through the maze by OGBench's oracle."""

from __future__ import annotations

from functools import cache, partial

from vhdiffuser.data.build import ChunkMaker
from vhdiffuser.envs.antmaze.simulator import AntPhysics
from vhdiffuser.envs.antmaze.walker import Walker
from vhdiffuser.envs.locomaze.building import build_chunk
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MazeName


def chunk_maker(recipe: DataRecipe, walker: Walker | None = None) -> ChunkMaker:
    """Makes chunks of one dataset; with the shipped walker by default."""
    return partial(build_chunk, recipe, _physics(recipe.maze), walker or _shipped_walker())


@cache
def _physics(maze: MazeName) -> AntPhysics:
    return AntPhysics(maze)


@cache
def _shipped_walker() -> Walker:
    return Walker.load()
