"""How well a predictor's support separates walls from free space. It is learned from states alone, without a map."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.length.predictor import OFF_SUPPORT, LengthPredictor
from vhdiffuser.streams import stream
from vhdiffuser.types import FloatArray

PLACES = 2000
"""Number of positions drawn in walls, and as many in free space."""


def draw_places(
    environment: Environment, low: FloatArray, high: FloatArray, n: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(n, 2) positions in walls and (n, 2) in free space, uniform within the data's limits."""
    geometry, rng = environment.geometry, np.random.default_rng(stream("support", seed))
    if not geometry.is_maze:
        raise VhdError(f"{environment.name} has no walls.")
    walls, free = np.zeros((0, 2)), np.zeros((0, 2))
    while min(len(walls), len(free)) < n:
        points = rng.uniform(low, high, (4 * n, 2))
        distance = wall_distance(geometry.walls, points)
        walls = np.concatenate([walls, points[distance == 0]])
        free = np.concatenate([free, points[distance >= geometry.radius]])
    return walls[:n], free[:n]


def auroc(higher: FloatArray, lower: FloatArray) -> float:
    """Probability that one of the first (n,) scores exceeds one of the second (m,); ties count half."""
    n, m = len(higher), len(lower)
    ranks = rankdata(np.concatenate([higher, lower]))[:n]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


def evaluate_support(
    predictor: LengthPredictor, environment: Environment, n: int = PLACES, seed: int = 0
) -> dict[str, float]:
    """AUROC, fractions flagged and reachable, mean spread: walls against free space, both within the data's limits."""
    spec, normalizer = predictor.spec, predictor.normalizer.select(predictor.spec.goal_dims)
    walls, free = draw_places(environment, normalizer.low, normalizer.high, n, seed)
    on_walls, on_free = predictor.support(walls), predictor.support(free)
    starts = np.zeros((n, spec.state_dim), np.float32)
    # Start at positions that the data certainly covers: its landmarks.
    assert predictor.landmarks is not None
    chosen = np.random.default_rng(stream("support starts", seed)).integers(len(predictor.landmarks.places), size=n)
    starts[:, list(spec.goal_dims)] = normalizer.unnormalize(predictor.landmarks.places[chosen])
    spread = {name: predictor.predict_spread(starts, places)[1] for name, places in (("walls", walls), ("free", free))}
    return {
        "places": n,
        "auroc": auroc(on_free, on_walls),
        "flagged_walls": float((on_walls < OFF_SUPPORT).mean()),
        "flagged_free": float((on_free < OFF_SUPPORT).mean()),
        "reachable_walls": float(predictor.reachable(starts, walls).mean()),
        "reachable_free": float(predictor.reachable(starts, free).mean()),
        "spread_walls": float(spread["walls"].mean()),
        "spread_free": float(spread["free"].mean()),
    }
