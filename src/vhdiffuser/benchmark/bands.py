"""HorizonFlow's diagnostic of learned distances: rank correlation on pairs drawn from bands of 50 true steps.

HorizonFlow (2026, A.5) uses 300 pairs of maze2d-large from each of eight bands; the truth is a breadth-first search on
a 4-connected grid at 0.0385 units per step, or 26 steps per cell. Which grid is not stated. `cells` is the maze's own:
pairs are positions of the environment's reset. `fine` has 26 points per cell: pairs are uniform in free space,
including where the data never is. Its truth is an axis-aligned path, in which a diagonal counts as its two legs; even
the exact shortest path cannot rank far pairs by it. `Banded.geodesic` is that shortest path, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from scipy.stats import spearmanr

from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.benchmark.length_eval import FAR_STEPS
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.walls import extent, narrowest, wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.streams import stream
from vhdiffuser.types import FloatArray, IntArray

BANDS = 8
PER_BAND = 300
WIDTH = 50
"""Steps per band; larger mazes use a multiple, so that eight bands span them."""
GridName = Literal["cells", "fine"]
_POINTS = {"cells": 1, "fine": 26}
"""Grid points per side of a cell, which is as wide as the narrowest wall; 26 are 0.0385 units apart in maze2d."""
_RESETS = 1000
"""Number of instances whose starts and goals give the positions of the maze's cells."""
_NEAR = 50
"""Ratios are also summarised above this many true steps; below, accelerating from rest takes longer than the path."""


@dataclass(frozen=True)
class Banded:
    """Pairs of positions, equally many from each band of true steps."""

    starts: FloatArray
    """(n, goal_dim) starts."""
    goals: FloatArray
    """(n, goal_dim) goals."""
    truth: FloatArray
    """(n,) steps on the 4-connected grid."""
    geodesic: FloatArray
    """(n,) steps of the shortest path at the same speed."""
    speed: float
    """Units per step."""
    width: int
    """Steps of a band."""


class AxisGrid:
    """The free space of a maze as a 4-connected grid."""

    def __init__(self, walls: FloatArray, spacing: float, clearance: float) -> None:
        """`clearance` is the minimum distance of free positions from walls."""
        self.spacing = spacing
        low, high = extent(walls)
        axes = [np.arange(a + spacing / 2, b, spacing) for a, b in zip(low, high, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        free = wall_distance(walls, points) >= clearance - 1e-6
        number = np.full(free.shape, -1)
        number[free] = np.arange(free.sum())
        self.places: FloatArray = points[free]
        """(n, 2) free positions."""
        down, right = free[1:] & free[:-1], free[:, 1:] & free[:, :-1]
        first = np.concatenate([number[:-1][down], number[:, :-1][right]])
        second = np.concatenate([number[1:][down], number[:, 1:][right]])
        edges = csr_matrix((np.ones(len(first)), (first, second)), shape=(len(self.places),) * 2)
        self._edges = (edges + edges.T).tocsr()

    def moves(self, goal: int) -> IntArray:
        """(n,) minimum number of moves from each position to a goal; -1 if there is no path."""
        moves = dijkstra(self._edges, indices=goal, unweighted=True)
        return np.where(np.isfinite(moves), moves, -1).astype(int)


def draw_banded(
    environment: Environment, seed: int, speed: float, grid: GridName = "cells", per_band: int = PER_BAND
) -> Banded:
    """Draw `per_band` random pairs of free positions from each band that the maze has (at most eight), of at least 50
    steps."""
    geometry = environment.geometry
    if not geometry.is_maze:
        raise VhdError(f"{environment.name} has no walls: the diagnostic by bands needs a maze.")
    clearance = geometry.radius if geometry.clearance is None else geometry.clearance
    nodes = AxisGrid(geometry.walls, narrowest(geometry.walls) / _POINTS[grid], clearance)
    places, node_of = nodes.places, np.arange(len(nodes.places))
    if grid == "cells":
        instances = draw_instances(environment.instance_source(), _RESETS, seed)
        ends = [(environment.spec.place_of(instance.start), instance.goal) for instance in instances]
        places = np.concatenate(ends)
        node_of = cKDTree(nodes.places).query(places)[1]
    rng = np.random.default_rng(stream("banded pairs", seed))
    steps_per_move = nodes.spacing / speed
    corner = int(nodes.moves(0).argmax())  # two sweeps find a longest path, or nearly so
    longest = nodes.moves(corner)[node_of].max() * steps_per_move
    width = WIDTH * max(1, int(longest / BANDS / WIDTH))
    if longest < width:
        raise VhdError(f"{environment.name}: no path has {WIDTH} steps at {speed:g} units per step. Use another speed.")
    # Whole numbers of moves: if a move takes many steps, some band may have no pair.
    possible = np.arange(1, round(longest / steps_per_move) + 1) * steps_per_move // width
    found: dict[int, list[tuple[int, int, float]]] = {int(n): [] for n in np.unique(possible[possible < BANDS])}
    while min(map(len, found.values())) < per_band:
        goal = int(rng.integers(len(places)))
        moves = nodes.moves(int(node_of[goal]))[node_of]
        steps = moves * steps_per_move
        for number, band in found.items():
            inside = np.flatnonzero((moves > 0) & (steps >= width * number) & (steps < width * (number + 1)))
            if len(inside) and len(band) < per_band:
                start = int(rng.choice(inside))
                band.append((start, goal, float(steps[start])))
    pairs = [pair for band in found.values() for pair in band]
    starts, goals = places[[start for start, _, _ in pairs]], places[[goal for _, goal, _ in pairs]]
    geodesic = make_geodesic(environment)
    assert geodesic is not None
    shortest = geodesic.distance(starts, goals) / speed
    return Banded(starts, goals, np.array([steps for _, _, steps in pairs]), shortest, speed, width)


def fitted_speed(predictor: LengthPredictor, environment: Environment, seed: int, grid: GridName = "cells") -> float:
    """Speed in units per step at which the median ratio of predicted to true steps is 1, from a few pairs."""
    some = draw_banded(environment, seed, _rough_speed(environment), grid, per_band=40)
    predicted = _steps(predictor, some.starts, some.goals)
    return float(np.median(some.truth * some.speed / predicted))


def _rough_speed(environment: Environment) -> float:
    """Speed at which the maze's longest side takes T_max steps."""
    low, high = extent(environment.geometry.walls)
    return float((high - low).max() / environment.spec.T_max)


def evaluate_bands(
    predictor: LengthPredictor, pairs: Banded, quasimetric: bool = False, seed: int = 0
) -> dict[str, float | int | None]:
    """All figures of the diagnostic, for `predict_steps` or `quasimetric_steps`. `seed` draws the relays."""
    relays = pairs.starts[np.random.default_rng(seed).permutation(len(pairs.starts))]
    ways = ((pairs.starts, pairs.goals), (pairs.goals, pairs.starts), (pairs.starts, relays), (relays, pairs.goals))
    steps, back, first, second = (_steps(predictor, *ends, quasimetric) for ends in ways)
    by_relay = first + second
    figures: dict[str, float | int | None] = {"pairs": len(steps), "speed": pairs.speed, "band_steps": pairs.width}
    for name, truth in {"": pairs.truth, "geodesic_": pairs.geodesic}.items():
        figures |= {f"{name}{key}": value for key, value in compare(steps, truth).items()}
    figures |= {f"shortest_path_{key}": value for key, value in compare(pairs.geodesic, pairs.truth).items()}
    return figures | {
        "triangle_violations": float((steps > by_relay * (1 + 1e-5) + 1e-3).mean()),
        "triangle_violations_over_a_step": float((steps > by_relay + 1).mean()),
        "asymmetry": float(np.abs(steps - back).mean() / ((steps + back) / 2).mean()),
    }


def compare(steps: FloatArray, truth: FloatArray) -> dict[str, float | None]:
    """Compare (n,) steps with (n,) true ones: rank correlation, coefficient of variation of the ratio, errors relative
    to the mean truth."""
    far, ratio = truth >= FAR_STEPS, steps / truth
    apart = truth >= _NEAR
    scaled = steps * truth.sum() / steps.sum()
    return {
        "spearman": float(spearmanr(steps, truth).statistic),
        "spearman_far": float(spearmanr(steps[far], truth[far]).statistic) if far.sum() >= 30 else None,
        "ratio_cv": float(ratio.std() / ratio.mean()),
        "ratio_cv_from_50": float(ratio[apart].std() / ratio[apart].mean()),
        "mean_abs_error": float(np.abs(steps - truth).mean() / truth.mean()),
        "mean_abs_error_scaled": float(np.abs(scaled - truth).mean() / truth.mean()),
    }


def predicted_steps(predictor: LengthPredictor, pairs: Banded) -> FloatArray:
    """(n,) predicted steps of the pairs."""
    return _steps(predictor, pairs.starts, pairs.goals)


def _steps(predictor: LengthPredictor, starts: FloatArray, goals: FloatArray, quasimetric: bool = False) -> FloatArray:
    """Predicted steps from rest at one position to another."""
    states = np.zeros((len(starts), predictor.spec.state_dim), np.float32)
    states[:, list(predictor.spec.goal_dims)] = starts
    predict = predictor.quasimetric_steps if quasimetric else predictor.predict_steps
    return predict(states, goals).astype(np.float64)
