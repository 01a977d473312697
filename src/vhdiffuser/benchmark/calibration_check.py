"""Validation of a calibration: realised failures and steps on fresh instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.benchmark.calibrate import Ticks, executed_rows, predicted_pairs
from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.envs.environment import Environment
from vhdiffuser.errors import VhdError
from vhdiffuser.length.pairs import Pairs
from vhdiffuser.planner.calibrated import applicable, planner_digests
from vhdiffuser.planner.planner import Planner
from vhdiffuser.results.rows import Row
from vhdiffuser.results.summary import wilson_interval
from vhdiffuser.types import BoolArray, FloatArray

RISKS = (0.2, 0.1, 0.05, 0.01)
SEED = 205
"""Seed of the fresh instances, unless another is given; docs/seeds.md lists those that were looked at."""
BANDS = ("near", "middle", "far")
"""Thirds of the instances by predicted distance."""


def check_calibration(
    planner: Planner,
    environment: Environment,
    folder: Path,
    n: int = 1000,
    seed: int = SEED,
    *,
    distribution: str = "reset",
    models: Mapping[str, str] | None = None,
    risks: Sequence[float] = RISKS,
    controller: Controller | None = None,
    workers: int = 1,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One result per risk, and one for the gamma saved with the planner, all on the same n instances of a seed and a
    distribution.

    Each contains the promised and the realised failure rate (with its 95 % binomial interval), overall and by distance
    band, the fraction of arrivals within their 10 to 90 % interval (with its own 95 % interval), and the executed
    steps. Rows are written to `folder/risk-RISK` and `folder/gamma-GAMMA`; existing rows are reused. `models` are the
    digests of the model files recorded in rows (default: of the networks).
    """
    calibration = applicable(planner)
    protocol = calibration.made.get("protocol")
    if protocol is None:
        raise VhdError(
            f"{environment.name}: calibrated from recorded episodes; only calibrations from executions can be checked."
        )
    chosen = [planner.with_options(risk=risk) for risk in risks]
    chosen.append(planner.with_options(gamma=(planner.saved_options or planner.options).gamma))
    controller = default_controller(environment.spec) if controller is None else controller
    config = BenchConfig(environment, ("vhd",), (protocol,), n, (seed,), distribution, keep=0, workers=workers)
    steps, places = predicted_pairs(planner, environment, n, seed, distribution)
    results, ticks = [], Ticks(n * len(chosen), on_done)
    for own in chosen:
        options, used = own.options, dict(planner_digests(planner) if models is None else models)
        used.pop("calibration", None)
        if options.risk is not None:
            used["calibration"] = calibration.lengths_digest
        where = folder / (f"gamma-{options.gamma:g}" if options.risk is None else f"risk-{options.risk:g}")
        rows = executed_rows(PlannerChoice.of(own, used), config, where, controller, ticks)
        results.append({"risk": options.risk, "gamma": options.gamma, **_figures(own, steps, places, rows)})
    return results


def _figures(planner: Planner, steps: FloatArray, places: FloatArray, rows: Sequence[Row]) -> dict[str, Any]:
    pairs = Pairs.of(applicable(planner), steps, places)
    lengths = np.array([row.planned_length for row in rows])
    taken = np.array([row.steps for row in rows])
    arrived = np.array([row.success for row in rows]) & (taken <= lengths)
    promised = 1 - pairs.probability(lengths)
    low, high = pairs.interval(lengths).T
    inside = np.clip(np.minimum(taken, high) - np.maximum(taken - 1, low), 0.0, 1.0)
    edges = np.quantile(steps, [1 / 3, 2 / 3])
    band = np.digitize(steps, edges)
    everything = np.ones(len(rows), bool)
    return {
        "n": len(rows),
        **_share(everything, arrived, promised, inside),
        "average_executed_steps": float(taken.mean()),
        "mean_length": float(lengths.mean()),
        "bands": {
            name: {"steps": [float(steps[band == b].min()), float(steps[band == b].max())],
                   **_share(band == b, arrived, promised, inside)}
            for b, name in enumerate(BANDS)
        },
        "reliability": _reliability(arrived, promised),
    }  # fmt: skip


def _share(of: BoolArray, arrived: BoolArray, promised: FloatArray, inside: FloatArray) -> dict[str, Any]:
    failures, n = int((~arrived[of]).sum()), int(of.sum())
    came = of & arrived
    return {
        "promised_failure": float(promised[of].mean()),
        "failure": failures / n,
        "failure_interval": list(wilson_interval(failures, n)),
        "interval_coverage": float(inside[came].mean()) if came.any() else None,
        "coverage_interval": list(mean_interval(inside[came])) if came.any() else None,
    }


def mean_interval(values: FloatArray) -> tuple[float, float]:
    """95 % interval of the mean of (n,) shares, by their standard deviation."""
    mean, off = float(values.mean()), 1.96 * float(values.std()) / len(values) ** 0.5
    return max(mean - off, 0.0), min(mean + off, 1.0)


def _reliability(arrived: BoolArray, promised: FloatArray, bins: int = 4) -> list[list[float]]:
    """[promised failure, realised failure, instances] in bins with equal numbers of instances, by promise."""
    parts = np.array_split(np.argsort(promised, kind="stable"), bins)
    return [[float(promised[part].mean()), float((~arrived[part]).mean()), len(part)] for part in parts if len(part)]
