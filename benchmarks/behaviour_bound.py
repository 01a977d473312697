"""How well can the steps of the policy that made the data be ranked from start and goal at all?

    python benchmarks/behaviour_bound.py cube --chunks 20

The same policy takes different times for the same start and goal: it draws targets, durations and noise. No distance
d(s, g) can rank what it does not determine. On fresh data, pairs as in `vhd eval-length --diagnostic behaviour`, two
figures enclose the best rank correlation possible:

- *reached*: that of a regression of the steps on the fresh data itself (mean over the nearest pairs of other episodes),
  so a lower bound;
- *bound*: sqrt(1 - noise), where noise is the part of the variance of ranks that remains between pairs whose starts and
  goals coincide. Two such pairs, from different episodes, differ by twice that variance in the mean; pairs never
  coincide, so the difference is extrapolated to distance 0 by a line. *low* and *high* are its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
from typing import cast

import numpy as np
from scipy.spatial import cKDTree
from scipy.stats import rankdata, spearmanr

from vhdiffuser.benchmark.length_diagnostics import load_predictors
from vhdiffuser.benchmark.length_eval import arrival_pairs
from vhdiffuser.console import progress_bar
from vhdiffuser.data.build import ChunkMaker
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.streams import stream
from vhdiffuser.types import Episodes, FloatArray

NEIGHBOURS = (5, 10, 20, 40)
"""Pairs that a regression averages; the best is reported."""
NEAREST = 0.2
"""Share of the pairs, those with the nearest neighbours, that the line to distance 0 is fitted to."""


def bound(places: FloatArray, steps: FloatArray, others: FloatArray, their_steps: FloatArray) -> dict[str, float]:
    """What (n, 2 p) pairs of places and (m, 2 p) others, of other episodes, say about the best rank correlation."""
    apart, nearest = cKDTree(others).query(places, k=max(NEIGHBOURS))
    means = [their_steps[nearest[:, :k]].mean(axis=1) for k in NEIGHBOURS]
    ranks = rankdata(np.concatenate([steps, their_steps]))
    own, their = ranks[: len(steps)], ranks[len(steps) :][nearest[:, 0]]
    close = apart[:, 0] <= np.quantile(apart[:, 0], NEAREST)
    noise = (own - their)[close] ** 2 / 2
    (_, at_zero), spread = np.polyfit(apart[close, 0], noise, 1, cov=True)
    deviation = float(np.sqrt(spread[1, 1]))
    shares = np.clip((at_zero + deviation * np.array([0.0, 1.96, -1.96])) / own.var(), 0.0, 1.0)
    best, low, high = np.sqrt(1 - shares).tolist()
    return {
        "reached": max(float(spearmanr(mean, steps).statistic) for mean in means),
        "bound": best,
        "bound_low": low,
        "bound_high": high,
        "median_distance": float(np.median(apart[close, 0])),
    }


def main() -> None:
    """Generate data and print one row per window."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env")
    parser.add_argument("--chunks", type=int, default=20, help="chunks of fresh data, half of them to compare with")
    parser.add_argument("--pairs", type=int, default=20_000, help="pairs in each half")
    parser.add_argument("--seed", type=int, default=78)
    options = parser.parse_args()
    environment = get_environment(options.env)
    spec, builder = environment.spec, environment.builder
    assert builder is not None
    (predictor,) = load_predictors(environment, source="shipped").values()
    make, parts = cast(ChunkMaker, builder.make()), []
    with progress_bar(f"fresh data of {environment.name}", "chunks") as progress:
        for chunk in range(options.chunks):
            rng = np.random.default_rng(stream("fresh data", options.seed, chunk))
            parts.append(make(builder.chunk, rng))
            progress(chunk + 1, options.chunks)
    halves = [Episodes.from_parts([part for chunk in parts[half::2] for part in chunk]) for half in (0, 1)]
    for within in (spec.T_max // 16, spec.T_max // 8, spec.T_max // 4):
        found = [
            arrival_pairs(half, spec, predictor.normalizer, within, options.pairs, options.seed + number)
            for number, half in enumerate(halves)
        ]
        scale = predictor.normalizer.select(spec.goal_dims)
        places = [
            np.concatenate([scale.normalize(spec.goal_of(starts)), scale.normalize(goals)], axis=1)
            for starts, goals, _ in found
        ]
        starts, goals, steps = found[0]
        row = {
            "environment": environment.name,
            "within": within,
            "pairs": len(steps),
            "predictor": float(spearmanr(predictor.predict_steps(starts, goals), steps).statistic),
            "straight_line": float(spearmanr(np.linalg.norm(spec.goal_of(starts) - goals, axis=1), steps).statistic),
            **bound(places[0], steps, places[1], found[1][2]),
        }
        print(json.dumps({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}))


if __name__ == "__main__":
    main()
