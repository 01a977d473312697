"""Regenerate OGBench's pointmaze data: the point, guided through the maze by OGBench's oracle."""

from __future__ import annotations

from functools import cache, partial

from vhdiffuser.data.build import ChunksMaker
from vhdiffuser.envs.locomaze.building import build_chunks
from vhdiffuser.envs.locomaze.datasets import DataRecipe
from vhdiffuser.envs.locomaze.maze import MazeName
from vhdiffuser.envs.pointmaze.simulator import PointPhysics
from vhdiffuser.types import FloatArray


def chunks_maker(recipe: DataRecipe) -> ChunksMaker:
    """Makes chunks of one dataset."""
    return partial(build_chunks, recipe, _physics(recipe.maze), follow)


def follow(rest: FloatArray, direction: FloatArray) -> FloatArray:
    """The point's policy: its action is the direction."""
    return direction


@cache
def _physics(maze: MazeName) -> PointPhysics:
    return PointPhysics(maze)
