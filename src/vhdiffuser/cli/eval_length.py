"""`vhd eval-length`: evaluate a Length Predictor against true distances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import tyro

from vhdiffuser.console import err, out, print_json
from vhdiffuser.data.build import ChunkMaker
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.streams import stream
from vhdiffuser.types import Episodes, FloatArray
from vhdiffuser.weights.places import Source, find_model, run_folder

DIAGNOSTIC_SEED = 20_001
"""Seed of the published diagnostics. Tune on another one."""


@dataclass(frozen=True)
class EvalLength:
    """Evaluate a Length Predictor on random pairs that training never saw; draw scatter, calibration and fields.

    The truth is the geodesic distance on a fine grid of the maze (the straight line for the arm), divided
    by a stated speed. Two diagnostics need neither data nor simulator: `bands` ranks pairs of a maze, evenly many from
    each band of 50 true steps (4-connected grid, 0.0385 units a step in maze2d), and counts triangle violations;
    `support` measures how well the predictor tells walls from free space. `behaviour` needs the simulator: it makes
    fresh data and compares with the steps in which the data's own policy arrives. Examples:

        vhd eval-length maze2d-large
        vhd eval-length maze2d-large --runs length length-paper --out out/length
        vhd eval-length maze2d-large --diagnostic bands --weights shipped --out out/length
        vhd eval-length maze2d-large --diagnostic support
        vhd eval-length cube --diagnostic behaviour
    """

    env: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    runs: tuple[str, ...] = ()
    """Runs to compare (default: the predictor in use)."""
    diagnostic: Literal["pairs", "bands", "support", "behaviour"] = "pairs"
    """What to measure: random pairs against true distances, pairs in bands of true steps, walls against free space, or
    the steps of the policy that made the data."""
    grid: Literal["cells", "fine"] = "cells"
    """Grid of `bands`: the maze's cells, with places of the environment's reset; or 26 points a cell, with places all
    over free space."""
    pairs: int = 2000
    """Random pairs; of `support`, places of each kind (`bands` always has 300 pairs a band)."""
    seed: int | None = None
    """Seed of the pairs (default: the one reserved for reporting)."""
    speed: float | None = None
    """Stated speed in units per control step (default: the data's mean speed; of `bands`: 0.0385 in maze2d, elsewhere
    that at which the median ratio of predicted to true steps is 1)."""
    goals: int = 3
    """Goals whose distance fields are drawn."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Path | None = None
    """Folder for the pictures (default: none are drawn)."""
    json: bool = False
    """Print a JSON list with one object per run."""
    quiet: bool = False
    """No remarks."""

    def run(self) -> None:
        """Evaluate, print, draw."""
        from vhdiffuser.benchmark import length_eval
        from vhdiffuser.benchmark.geodesic import make_geodesic
        from vhdiffuser.envs.datasets import load_dataset
        from vhdiffuser.length.predictor import LengthPredictor

        environment = get_environment(self.env)
        if self.diagnostic != "pairs":
            self._diagnose(environment)
            return
        spec, geodesic = environment.spec, make_geodesic(environment)
        seed = length_eval.PAIRS_SEED if self.seed is None else self.seed
        facts: dict[str, Any] = {}
        if environment.simulator is None:
            episodes = load_dataset(spec.name).episodes.split(environment.held_out)[1]
            starts, goals, truth = length_eval.recorded_pairs(episodes, spec, self.pairs, seed)
            facts["truth"] = "steps that held-out episodes took (an upper bound)"
        elif environment.shortest_steps is not None:
            starts, goals = length_eval.draw_pairs(environment.make(), self.pairs, seed)
            truth = np.minimum(environment.shortest_steps(spec.goal_of(starts), goals), spec.T_max)
            facts["truth"] = "the environment's own shortest steps"
        else:
            speed = self.speed or length_eval.observed_speed(load_dataset(spec.name).episodes, spec)
            starts, goals = length_eval.draw_pairs(environment.make(), self.pairs, seed)
            truth = length_eval.true_steps(spec, geodesic, starts, goals, speed)
            facts["speed"] = speed
        paths = {name: run_folder(spec.name, name) / "model.safetensors" for name in self.runs}
        paths = paths or {"length": find_model(spec.name, "length", self.weights)}
        predictors = {name: LengthPredictor.load(path) for name, path in paths.items()}
        results = {
            name: length_eval.evaluate_length(predictor, starts, goals, truth) for name, predictor in predictors.items()
        }
        rows = [{"environment": spec.name, "run": name, **facts, **r.figures} for name, r in results.items()]
        self._print(rows)
        if self.out is not None:
            self._draw(predictors, results, geodesic, goals, facts)

    def _print(self, rows: list[dict[str, Any]]) -> None:
        if self.json:
            print_json(rows)
            return
        for key in rows[0]:
            out.print(f"{key:36}" + "".join(f"{_text(row[key]):>18}" for row in rows))

    def _diagnose(self, environment: Environment) -> None:
        """`bands` or `support`, with the route graph if there is one: as a planner uses the predictor."""
        from vhdiffuser.benchmark import bands, support_eval
        from vhdiffuser.length.predictor import LengthPredictor
        from vhdiffuser.report.length_figures import scatter

        name, seed = environment.name, DIAGNOSTIC_SEED if self.seed is None else self.seed
        route = find_model(name, "route", self.weights)
        paths = {run: run_folder(name, run) / "model.safetensors" for run in self.runs}
        paths = paths or {"length": find_model(name, "length", self.weights)}
        predictors = {
            run: LengthPredictor.load(path, routes=route if route.is_file() else None) for run, path in paths.items()
        }
        if self.diagnostic == "support":
            found = {
                run: support_eval.evaluate_support(p, environment, self.pairs, seed) for run, p in predictors.items()
            }
            self._print([{"environment": name, "run": run, "seed": seed, **row} for run, row in found.items()])
            return
        if self.diagnostic == "behaviour":
            self._print([row for run, p in predictors.items() for row in self._behaviour(environment, run, p, seed)])
            return
        fitted = self.speed is None and environment.grid_speed is None
        first = next(iter(predictors.values()))
        speed = self.speed or environment.grid_speed or bands.fitted_speed(first, environment, seed, self.grid)
        pairs = bands.draw_banded(environment, seed, speed, self.grid)
        facts = {"environment": name, "seed": seed, "grid": self.grid, "speed_fitted": fitted}
        rows = [
            {**facts, "run": run, "quasimetric": bound, **bands.evaluate_bands(predictor, pairs, bound)}
            for run, predictor in predictors.items()
            for bound in ([False] if predictor.landmarks is None else [False, True])
        ]
        self._print(rows)
        if self.out is not None:
            predicted = {run: bands.predicted_steps(p, pairs) for run, p in predictors.items()}
            axis = f"steps on the grid ({speed:.3g} units/step)"
            path = scatter(pairs.truth, predicted, self.out / "bands.png", self.env, axis)
            if not self.quiet:
                err.print(f"wrote {path}")

    def _behaviour(self, environment: Environment, run: str, predictor: Any, seed: int) -> list[dict[str, Any]]:
        """One row for each window: a sixteenth, an eighth and a quarter of T_max."""
        from vhdiffuser.benchmark.bands import compare
        from vhdiffuser.benchmark.length_eval import arrival_pairs

        spec, builder = environment.spec, environment.builder
        if builder is None or builder.together is not None:
            raise VhdError(f"{environment.name}: no builder makes fresh data of it, one chunk at a time.")
        make = cast(ChunkMaker, builder.make())
        episodes = Episodes.from_parts(make(builder.chunk, np.random.default_rng(stream("fresh data", seed))))
        rows = []
        for within in (spec.T_max // 16, spec.T_max // 8, spec.T_max // 4):
            starts, goals, steps = arrival_pairs(episodes, spec, predictor.normalizer, within, self.pairs, seed)
            found = compare(predictor.predict_steps(starts, goals), steps)
            straight = compare(np.linalg.norm(spec.goal_of(starts) - goals, axis=1), steps)
            facts = {"environment": environment.name, "run": run, "seed": seed, "within": within, "pairs": len(steps)}
            rows.append({**facts, **found, "straight_line_spearman": straight["spearman"]})
        return rows

    def _draw(
        self,
        predictors: dict[str, Any],
        results: dict[str, Any],
        geodesic: Any,
        goals: FloatArray,
        facts: dict[str, Any],
    ) -> None:
        from vhdiffuser.benchmark.length_eval import calibration, distance_field
        from vhdiffuser.report import length_figures

        assert self.out is not None
        first = next(iter(results.values()))
        predicted = {name: result.predicted for name, result in results.items()}
        curves = {name: calibration(result.truth, result.predicted) for name, result in results.items()}
        written = [
            length_figures.scatter(first.truth, predicted, self.out / "scatter.png", self.env, _axis(facts)),
            length_figures.calibration_curve(curves, self.out / "calibration.png", self.env),
        ]
        if geodesic is not None:
            fields = [
                (name, goal, distance_field(predictor, geodesic, goal))
                for name, predictor in predictors.items()
                for goal in goals[: self.goals]
            ]
            walls, path = get_environment(self.env).geometry.walls, self.out / "fields.png"
            written.append(length_figures.distance_fields(geodesic.x, geodesic.y, fields, walls, path, self.env))
        if not self.quiet:
            for path in written:
                err.print(f"wrote {path}")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _axis(facts: dict[str, Any]) -> str:
    if "speed" in facts:
        return f"true steps (at {facts['speed']:.3g} units/step)"
    return "recorded steps" if facts["truth"].startswith("steps that") else "true steps"
