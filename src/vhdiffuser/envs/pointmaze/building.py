"""Regenerate OGBench's pointmaze data: the point, sent through the maze by OGBench's oracle."""

from __future__ import annotations

from functools import cache, partial

from vhdiffuser.data.build import ChunkMaker
from vhdiffuser.envs.locomaze.building import build_chunk
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.envs.pointmaze.simulator import PointPhysics
from vhdiffuser.types import FloatArray


def chunk_maker(recipe: DataRecipe) -> ChunkMaker:
    """Makes chunks of one dataset."""
    return partial(build_chunk, recipe, _physics(recipe.maze), follow)


def follow(rest: FloatArray, direction: FloatArray) -> FloatArray:
    """The point's policy: its action is the direction."""
    return direction


@cache
def _physics(maze: MazeName) -> PointPhysics:
    return PointPhysics(maze)
