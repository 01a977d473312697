"""Paired tests: is one method better than another on the same instances?

SR: McNemar's exact test on the instances where only one of the two succeeds. AES: a paired bootstrap of the mean
difference in steps. Both are two-sided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from vhdiffuser.results.cells import Cell

LEVEL = 0.05
"""Significance level."""
_RESAMPLES = 4000


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """p value of McNemar's exact test: under the null hypothesis, each of a discordant pair is equally likely to
    succeed."""
    one, two = np.asarray(first, bool), np.asarray(second, bool)
    only_first, only_second = int((one & ~two).sum()), int((two & ~one).sum())
    discordant = only_first + only_second
    tail = sum(comb(discordant, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / 2**discordant)


def paired_bootstrap(first: Sequence[float], second: Sequence[float], resamples: int = _RESAMPLES) -> float:
    """p value of a paired bootstrap: twice the fraction of resampled mean differences on the rarer side of 0.

    Deterministic; never below 2 / (resamples + 1).
    """
    difference = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    rng, n = np.random.default_rng(0), len(difference)
    # One resample at a time: all of them at once may not fit in memory.
    means = np.array([difference[rng.integers(n, size=n)].mean() for _ in range(resamples)])
    rarer = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (rarer + 1) / (resamples + 1))


def unpaired(cells: Sequence[Cell]) -> str | None:
    """Why cells cannot be compared instance by instance; None if they can."""
    first = cells[0]
    for name in ("streams", "seeds"):
        if len({getattr(cell, name) for cell in cells}) > 1:
            return f"different {name}"
    keys = _ends(first)
    return "different instances" if any(_ends(cell) != keys for cell in cells[1:]) else None


def _ends(cell: Cell) -> dict[tuple[int, int], tuple[list[float], list[float]]]:
    return {(row.seed, row.instance): (row.start, row.goal) for row in cell.rows}


def best_success(cells: Mapping[str, Cell]) -> set[str]:
    """The method with the highest SR and all that are not significantly worse. `cells` must be paired."""
    hits = {name: [row.success for row in cell.rows] for name, cell in cells.items()}
    best = max(hits, key=lambda name: sum(hits[name]))
    return {best, *(name for name, own in hits.items() if mcnemar(hits[best], own) >= LEVEL)}


def best_steps(cells: Mapping[str, Cell]) -> set[str]:
    """The method with the lowest AES and all that are not significantly worse. `cells` must be paired."""
    steps = {name: [row.steps for row in cell.rows] for name, cell in cells.items()}
    best = min(steps, key=lambda name: sum(steps[name]))
    return {best, *(name for name, own in steps.items() if paired_bootstrap(steps[best], own) >= LEVEL)}
