"""SR and AES with intervals, from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from vhdiffuser.results.rows import Row, distribution_of, streams_of

_Z95 = 1.959963984540054
_RESAMPLES = 2000


@dataclass(frozen=True)
class Summary:
    """One cell of the table. Intervals are 95 %."""

    environment: str
    """Environment."""
    method: str
    """Method."""
    protocol: str
    """Protocol."""
    distribution: str
    """How the instances were drawn: `reset`, `uniform`, or `pairs` for the user's own."""
    streams: int
    """Version of the random streams of instances and plans."""
    seeds: tuple[int, ...]
    """Test seeds, pooled."""
    n: int
    """Number of instances over all seeds."""
    success_rate: float
    """SR in 0..1."""
    success_rate_interval: tuple[float, float]
    """Wilson interval of SR."""
    success_rate_by_seed: tuple[float, ...]
    """SR of each of `seeds`, in order."""
    average_executed_steps: float
    """AES: mean control steps over all instances, failures included."""
    average_executed_steps_interval: tuple[float, float]
    """Percentile bootstrap interval of AES."""
    planning_seconds: float
    """Total planning time, in seconds."""
    simulation_seconds: float
    """Total time in controllers and simulators, in seconds."""
    average_replans: float
    """Mean number of plans after the first."""
    spl: float | None = None
    """SPL: success weighted by path length (Anderson et al. 2018), if the shortest and the executed paths are known."""
    average_score: float | None = None
    """Mean score of another benchmark, under its protocol."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)


def wilson_interval(successes: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson score interval of a proportion; (0, 1) for n = 0."""
    if n == 0:
        return 0.0, 1.0
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))


def bootstrap_interval(values: Sequence[float], resamples: int = _RESAMPLES) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean; deterministic."""
    data = np.asarray(values, np.float64)
    rng = np.random.default_rng(0)
    # Row by row: all resamples at once may not fit in memory.
    means = np.array([data[rng.integers(len(data), size=len(data))].mean() for _ in range(resamples)])
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def success_by_path_length(rows: Sequence[Row]) -> float | None:
    """SPL: mean over instances of success * shortest / max(executed, shortest) path; None if a path is unknown.

    An instance that starts in the goal region has no path to compare and counts as its success.
    """
    shares = []
    for row in rows:
        if row.geodesic is None or row.path is None:
            return None
        longer = max(row.path, row.geodesic)
        shares.append(row.success * (row.geodesic / longer if longer > 0 else 1.0))
    return float(np.mean(shares)) if shares else None


def summarize_cell(rows: Sequence[Row], config: Mapping[str, Any]) -> Summary:
    """Summarise rows of one environment, method, protocol and distribution, over one or more seeds."""
    first, n = rows[0], len(rows)
    successes = sum(row.success for row in rows)
    steps = [row.steps for row in sorted(rows, key=lambda row: (row.seed, row.instance))]
    scores = [row.score for row in rows if row.score is not None]
    seeds = sorted({row.seed for row in rows})
    return Summary(
        environment=first.environment,
        method=first.method,
        protocol=first.protocol,
        distribution=distribution_of(config),
        streams=streams_of(config),
        seeds=tuple(seeds),
        n=n,
        success_rate=successes / n,
        success_rate_interval=wilson_interval(successes, n),
        success_rate_by_seed=tuple(float(np.mean([row.success for row in rows if row.seed == seed])) for seed in seeds),
        average_executed_steps=float(np.mean(steps)),
        average_executed_steps_interval=bootstrap_interval(steps),
        planning_seconds=float(sum(row.planning_seconds for row in rows)),
        simulation_seconds=float(sum(row.control_seconds for row in rows)),
        average_replans=float(np.mean([row.replans for row in rows])),
        spl=success_by_path_length(rows),
        average_score=float(np.mean(scores)) if scores else None,
    )
