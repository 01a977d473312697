"""Diagnostics of `vhd eval-length`: Length Predictors of an environment against the best available truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from vhdiffuser.benchmark import bands, length_eval, support_eval
from vhdiffuser.benchmark.bands import Banded, GridName
from vhdiffuser.benchmark.geodesic import make_geodesic
from vhdiffuser.benchmark.length_eval import PAIRS, PAIRS_SEED, LengthEvaluation
from vhdiffuser.data.build import ChunkMaker
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import VhdError
from vhdiffuser.length.predictor import LengthPredictor
from vhdiffuser.streams import stream
from vhdiffuser.types import Episodes, FloatArray
from vhdiffuser.weights.places import Source, find_model, run_folder

SEED = 20_001
"""Seed of the published diagnostics. Use another one for tuning."""
Predictors = Mapping[str, LengthPredictor]
"""Predictors by the name of their run."""
Rows = list[dict[str, Any]]
"""One or more rows per predictor."""


def load_predictors(
    environment: Environment, runs: Sequence[str] = (), source: Source = "auto", *, routes: bool = False
) -> dict[str, LengthPredictor]:
    """Load the predictors of runs, or the one in use; with the route graph, if requested and available."""
    paths = {run: run_folder(environment.name, run) / "model.safetensors" for run in runs}
    paths = paths or {"length": find_model(environment.name, "length", source)}
    graph = find_model(environment.name, "route", source)
    with_graph = graph if routes and graph.is_file() else None
    return {run: LengthPredictor.load(path, routes=with_graph) for run, path in paths.items()}


@dataclass(frozen=True)
class PairsResult:
    """Predictors on random pairs with known true distances."""

    rows: Rows
    """One per predictor."""
    evaluations: dict[str, LengthEvaluation]
    """Predictions and truth by run."""
    goals: FloatArray
    """(n, goal_dim) goals of the pairs."""
    truth: str
    """Definition of the truth, as an axis label."""


def on_pairs(
    environment: Environment,
    predictors: Predictors,
    n: int = PAIRS,
    seed: int = PAIRS_SEED,
    speed: float | None = None,
) -> PairsResult:
    """Compare with true steps: those of held-out episodes without a simulator, the environment's own shortest steps if
    it knows them, or the shortest distance divided by a stated speed (default: the data's mean speed)."""
    spec, facts = environment.spec, dict[str, Any]()
    if environment.simulator is None:
        episodes = load_dataset(spec.name).episodes.split(environment.held_out)[1]
        starts, goals, truth = length_eval.recorded_pairs(episodes, spec, n, seed)
        facts["truth"], axis = "steps taken by held-out episodes (an upper bound)", "recorded steps"
    elif environment.shortest_steps is not None:
        starts, goals = length_eval.draw_pairs(environment.make(), n, seed)
        truth = np.minimum(environment.shortest_steps(spec.goal_of(starts), goals), spec.T_max)
        facts["truth"], axis = "the environment's own shortest steps", "true steps"
    else:
        speed = speed or length_eval.observed_speed(load_dataset(spec.name).episodes, spec)
        starts, goals = length_eval.draw_pairs(environment.make(), n, seed)
        truth = length_eval.true_steps(spec, make_geodesic(environment), starts, goals, speed)
        facts["speed"], axis = speed, f"true steps (at {speed:.3g} units/step)"
    found = {run: length_eval.evaluate_length(predictor, starts, goals, truth) for run, predictor in predictors.items()}
    rows = [{"environment": spec.name, "run": run, **facts, **result.figures} for run, result in found.items()]
    return PairsResult(rows, found, goals, axis)


def on_bands(
    environment: Environment,
    predictors: Predictors,
    seed: int = SEED,
    grid: GridName = "cells",
    speed: float | None = None,
) -> tuple[Rows, Banded]:
    """Rank correlation on pairs of a maze, equally many from each band of true steps on a grid; returns rows and pairs.

    The default speed is the environment's, or otherwise the one at which the first predictor's median ratio is 1. A
    predictor with a route graph gets a second row, for its quasimetric.
    """
    stated = speed or environment.grid_speed
    first = next(iter(predictors.values()))
    pairs = bands.draw_banded(environment, seed, stated or bands.fitted_speed(first, environment, seed, grid), grid)
    facts = {"environment": environment.name, "seed": seed, "grid": grid, "speed_fitted": stated is None}
    rows = [
        {**facts, "run": run, "quasimetric": quasimetric, **bands.evaluate_bands(predictor, pairs, quasimetric)}
        for run, predictor in predictors.items()
        for quasimetric in ([False] if predictor.landmarks is None else [False, True])
    ]
    return rows, pairs


def on_support(environment: Environment, predictors: Predictors, n: int = PAIRS, seed: int = SEED) -> Rows:
    """How well predictors separate walls from free space, at n positions each."""
    facts = {"environment": environment.name, "seed": seed}
    return [
        {**facts, "run": run, **support_eval.evaluate_support(predictor, environment, n, seed)}
        for run, predictor in predictors.items()
    ]


def on_behaviour(environment: Environment, predictors: Predictors, n: int = PAIRS, seed: int = SEED) -> Rows:
    """Compare with the steps of the policy that generated the data, on fresh data.

    One row for each predictor and window: a sixteenth, an eighth and a quarter of T_max.
    """
    spec, builder = environment.spec, environment.builder
    if builder is None or builder.together is not None:
        raise VhdError(f"{environment.name}: it has no builder that generates fresh data one chunk at a time.")
    make = cast(ChunkMaker, builder.make())
    episodes = Episodes.from_parts(make(builder.chunk, np.random.default_rng(stream("fresh data", seed))))
    rows = []
    for run, predictor in predictors.items():
        for within in (spec.T_max // 16, spec.T_max // 8, spec.T_max // 4):
            starts, goals, steps = length_eval.arrival_pairs(episodes, spec, predictor.normalizer, within, n, seed)
            found = bands.compare(predictor.predict_steps(starts, goals), steps)
            straight = bands.compare(np.linalg.norm(spec.goal_of(starts) - goals, axis=1), steps)
            facts = {"environment": environment.name, "run": run, "seed": seed, "within": within, "pairs": len(steps)}
            rows.append({**facts, **found, "straight_line_spearman": straight["spearman"]})
    return rows
