"""`vhd eval-length`: evaluate a Length Predictor against true distances."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vhdiffuser.cli.options import Omittable, Several
from vhdiffuser.console import err, out, print_json
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.weights.places import Source

if TYPE_CHECKING:
    from vhdiffuser.benchmark.bands import Banded
    from vhdiffuser.benchmark.length_diagnostics import PairsResult, Predictors


@dataclass(frozen=True)
class EvalLength:
    """Evaluate a Length Predictor on random pairs unseen in training; draw scatter plots, calibration and distance
    fields.

    The truth is the geodesic distance on a fine grid of the maze (the straight line for the arm), divided by a stated
    speed. Two diagnostics need neither data nor simulator: `bands` ranks pairs of a maze, equally many from each band
    of 50 true steps (4-connected grid, 0.0385 units per step in maze2d), and counts triangle violations; `support`
    measures how well the predictor separates walls from free space. `behaviour` needs the simulator: it generates fresh
    data and compares with the steps of the data's own policy. Examples:

        vhd eval-length maze2d-large
        vhd eval-length maze2d-large --runs length length-paper --out out/length
        vhd eval-length maze2d-large --diagnostic bands --weights shipped --out out/length
        vhd eval-length maze2d-large --diagnostic support
        vhd eval-length cube --diagnostic behaviour
    """

    env: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="ENV")]]
    """Environment: see `vhd envs`."""
    runs: Several[str] = ()
    """Runs to compare (default: the predictor in use)."""
    diagnostic: Literal["pairs", "bands", "support", "behaviour"] = "pairs"
    """What to measure: random pairs against true distances, pairs in bands of true steps, walls against free space, or
    steps of the policy that generated the data."""
    grid: Literal["cells", "fine"] = "cells"
    """Grid of `bands`: the maze's cells, with positions from the environment's reset; or 26 points per cell, with
    positions anywhere in free space."""
    pairs: int = 2000
    """Random pairs; for `support`, positions of each kind (`bands` always uses 300 pairs per band)."""
    seed: Omittable[int] = None
    """Seed of the pairs (default: the one reserved for reporting)."""
    speed: Omittable[float] = None
    """Stated speed in units per control step (default: the data's mean speed; for `bands`, 0.0385 in maze2d, otherwise
    the one at which the median ratio of predicted to true steps is 1)."""
    goals: int = 3
    """Number of goals with distance fields."""
    weights: Source = "auto"
    """Models to use: trained (by you), shipped, auto (trained if available), or a folder of weights."""
    out: Omittable[Path] = None
    """Folder for the figures (default: none are drawn)."""
    json: bool = False
    """Print a JSON list with one object per run."""
    quiet: bool = False
    """No messages."""

    def run(self) -> None:
        """Evaluate, print, draw."""
        from vhdiffuser.benchmark import length_diagnostics as diagnostics

        environment = get_environment(self.env)
        predictors = diagnostics.load_predictors(
            environment, self.runs, self.weights, routes=self.diagnostic != "pairs"
        )
        seed = diagnostics.SEED if self.seed is None else self.seed
        if self.diagnostic == "pairs":
            seed = diagnostics.PAIRS_SEED if self.seed is None else self.seed
            result = diagnostics.on_pairs(environment, predictors, self.pairs, seed, self.speed)
            self._print(result.rows)
            if self.out is not None:
                self._draw(self.out, predictors, result)
        elif self.diagnostic == "support":
            self._print(diagnostics.on_support(environment, predictors, self.pairs, seed))
        elif self.diagnostic == "behaviour":
            self._print(diagnostics.on_behaviour(environment, predictors, self.pairs, seed))
        else:
            rows, banded = diagnostics.on_bands(environment, predictors, seed, self.grid, self.speed)
            self._print(rows)
            if self.out is not None:
                self._draw_bands(self.out, predictors, banded)

    def _print(self, rows: list[dict[str, Any]]) -> None:
        if self.json:
            print_json(rows)
            return
        for key in rows[0]:
            out.print(f"{key:36}" + "".join(f"{_text(row[key]):>18}" for row in rows))

    def _draw_bands(self, folder: Path, predictors: Predictors, banded: Banded) -> None:
        from vhdiffuser.benchmark.bands import predicted_steps
        from vhdiffuser.report.length_figures import scatter

        predicted = {run: predicted_steps(predictor, banded) for run, predictor in predictors.items()}
        axis = f"steps on the grid ({banded.speed:.3g} units/step)"
        self._tell([scatter(banded.truth, predicted, folder / "bands.png", self.env, axis)])

    def _draw(self, folder: Path, predictors: Predictors, result: PairsResult) -> None:
        from vhdiffuser.benchmark.geodesic import make_geodesic
        from vhdiffuser.benchmark.length_eval import calibration, distance_field
        from vhdiffuser.report import length_figures

        environment, found = get_environment(self.env), result.evaluations
        first, geodesic = next(iter(found.values())), make_geodesic(environment)
        predicted = {name: item.predicted for name, item in found.items()}
        curves = {name: calibration(item.truth, item.predicted) for name, item in found.items()}
        written = [
            length_figures.scatter(first.truth, predicted, folder / "scatter.png", self.env, result.truth),
            length_figures.calibration_curve(curves, folder / "calibration.png", self.env),
        ]
        if geodesic is not None:
            fields = [
                (name, goal, distance_field(predictor, geodesic, goal))
                for name, predictor in predictors.items()
                for goal in result.goals[: self.goals]
            ]
            walls, path = environment.geometry.walls, folder / "fields.png"
            written.append(length_figures.distance_fields(geodesic.x, geodesic.y, fields, walls, path, self.env))
        self._tell(written)

    def _tell(self, written: list[Path]) -> None:
        for path in () if self.quiet else written:
            err.print(f"wrote {path}")


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
