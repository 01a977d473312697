"""Leaderboards: one per environment, protocol and distribution, from the rows of any planner.

Planners are compared only under equal conditions: rule, success region, walls, controller and random streams. If rows
differ, the conditions that most planners share define the board; the others are listed below it, unranked, with the
reason. Each ranked planner is tested against the best one on the instances they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.errors import DataError
from vhdiffuser.results.cells import FIRST_TEST_SEED, Cell, published
from vhdiffuser.results.checks import missing_facts
from vhdiffuser.results.configs import FOREIGN, differences
from vhdiffuser.results.paired import LEVEL, mcnemar, paired_bootstrap
from vhdiffuser.results.rows import ResultFile, Row, read_results

CONDITIONS = ("streams", "instances", "rule", "epsilon", "scale", "walls", "goal_dims", "controller")
"""Configuration keys that must be equal for two planners to be compared."""
_IN_WORDS = {
    "streams": "different random streams and instances",
    "instances": "different instances",
    "rule": "different replanning rule",
    "epsilon": "different tolerance",
    "scale": "different success region",
    "walls": "different walls",
    "goal_dims": "different goals",
    "controller": "different controller",
}
FEWEST = 30
"""Minimum number of shared instances for a test."""


@dataclass(frozen=True)
class Entry:
    """One planner on one board."""

    environment: str
    """Environment."""
    protocol: str
    """Protocol."""
    distribution: str
    """How its instances were drawn."""
    planner: str
    """Name of our method, or of a third-party planner."""
    reference: str
    """Where a third-party planner came from; empty for ours."""
    rank: int | None
    """Rank by SR, starting at 1; None if it was run under other conditions."""
    differs: str
    """Why it is not ranked; empty if it is."""
    n: int
    """Number of instances."""
    seeds: tuple[int, ...]
    """Test seeds."""
    success_rate: float
    """SR in 0..1."""
    success_rate_interval: tuple[float, float]
    """95 % Wilson interval of SR."""
    best_success: bool
    """Whether no planner has a significantly higher SR on shared instances."""
    average_executed_steps: float
    """AES."""
    average_executed_steps_interval: tuple[float, float]
    """95 % bootstrap interval of AES."""
    best_steps: bool
    """Whether no planner needs significantly fewer steps on shared instances."""
    shared: int
    """Number of instances shared with the best planner."""
    success_difference: float | None
    """SR minus the best planner's, on shared instances."""
    p: float | None
    """p value of that difference."""
    average_score: float | None
    """Mean score of another benchmark, under its protocol."""
    planning_seconds: float
    """Mean planning time per plan, in seconds."""
    average_replans: float
    """Mean number of plans after the first."""
    candidates: int
    """Plans sampled per returned plan."""
    controller: str
    """Name of the low-level controller."""
    start_gap: float | None
    """Largest normalised distance between a plan's first state and the state it was made at; None in older rows."""
    tolerance: float
    """Epsilon (normalised)."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict."""
        return asdict(self)

    @property
    def board(self) -> tuple[str, str, str]:
        """(environment, protocol, distribution)."""
        return self.environment, self.protocol, self.distribution


def read_boards(
    folders: Sequence[Path],
    environments: Sequence[str] = (),
    protocols: Sequence[str] = (),
    distribution: str = "reset",
) -> list[Entry]:
    """Read all boards in these folders, best planner first, restricted to the given names if any.

    In each folder, rows directly in it and in its environments' subfolders count, not those further down.
    """
    files: list[ResultFile] = []
    for folder in folders:
        paths = sorted([*folder.glob("*.jsonl"), *folder.glob("*/*.jsonl")])
        if not paths:
            raise DataError(
                f"{folder}: no rows (*.jsonl) in it or its environments' subfolders. Create some with `vhd bench`."
            )
        files += [read_results(path) for path in paths]
    for item in files:
        if lacks := missing_facts(item.config):
            raise DataError(f"{item.path}: its first line lacks {', '.join(lacks)}. Run `vhd bench` again.")
    cells, _ = published(files)
    boards: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        environment, _, protocol, drawn = cell.key
        wanted = (not environments or environment in environments) and (not protocols or protocol in protocols)
        if wanted and drawn == distribution:
            boards.setdefault((environment, protocol, drawn), []).append(cell)
    if not boards:
        raise DataError(f"{', '.join(map(str, folders))}: no rows with these environments, protocols and distribution.")
    return [entry for cells in boards.values() for entry in make_board(cells)]


def make_board(cells: Sequence[Cell]) -> list[Entry]:
    """Entries for cells of one environment, protocol and distribution: first those ranked by SR, then the others.

    Of those with the same SR, the quickest comes first.
    """
    first = _common_conditions(cells)
    reasons = {id(cell): _differs(first, cell) for cell in cells}
    ranked = sorted((cell for cell in cells if not reasons[id(cell)]), key=_order)
    others = sorted((cell for cell in cells if reasons[id(cell)]), key=_order)
    quickest = _quickest(ranked)
    made = []
    for cell in [*ranked, *others]:
        rank = None if cell in others else 1 + sum(_rate(other) > _rate(cell) for other in ranked)
        made.append(_entry(cell, rank, reasons[id(cell)], ranked[0], quickest))
    return made


def _common_conditions(cells: Sequence[Cell]) -> Cell:
    """A cell with the newest streams, on test seeds if there are any, under the conditions most of these share."""

    def weight(cell: Cell) -> tuple[int, bool, int, int]:
        return cell.streams, _tested(cell), sum(not _differs(cell, other) for other in cells), len(cell.rows)

    return max(cells, key=weight)


def _differs(first: Cell, cell: Cell) -> str:
    """How the conditions of two cells differ, in words; empty if they are equal."""
    one, other = ({key: item.config.get(key) for key in CONDITIONS} for item in (first, cell))
    one["streams"], other["streams"] = first.streams, cell.streams
    found = [_IN_WORDS[key] for key in CONDITIONS if key in differences(one, other)]
    if _tested(first) != _tested(cell):
        found.append(f"{'test' if _tested(cell) else 'development'} seeds")
    return ", ".join(found)


def _tested(cell: Cell) -> bool:
    return cell.seeds[0] >= FIRST_TEST_SEED


def _rate(cell: Cell) -> tuple[float, float]:
    """SR, with another benchmark's score as tie-breaker."""
    scores = [row.score for row in cell.rows if row.score is not None]
    return float(np.mean([row.success for row in cell.rows])), float(np.mean(scores)) if scores else 0.0


def _order(cell: Cell) -> tuple[float, float, float]:
    """The best first; of those with the same SR and score, the quickest."""
    success, score = _rate(cell)
    return -success, -score, _mean_steps(cell)


def _mean_steps(cell: Cell) -> float:
    return float(np.mean([row.steps for row in cell.rows]))


def _shared(cell: Cell, other: Cell) -> list[tuple[Row, Row]]:
    """Rows of two cells on shared instances."""
    there = {(row.seed, row.instance): row for row in other.rows}
    pairs = [(row, there[row.seed, row.instance]) for row in cell.rows if (row.seed, row.instance) in there]
    if wrong := next((one for one, two in pairs if (one.start, one.goal) != (two.start, two.goal)), None):
        raise DataError(
            f"{cell.files[0].path} and {other.files[0].path}: instance {wrong.instance} of seed {wrong.seed} is "
            "a different pair in each, though the streams are the same. One file was edited or made by another "
            "version: leave it out."
        )
    return pairs


def _quickest(ranked: Sequence[Cell]) -> Cell:
    """The cell with the lowest AES among planners whose SR is close to the best."""
    able = [cell for cell in ranked if _alike(cell, ranked[0])]
    return min(able, key=_mean_steps)


def _alike(cell: Cell, best: Cell) -> bool:
    """Whether SR is not significantly below the best on shared instances."""
    pairs = _shared(cell, best)
    if len(pairs) < FEWEST:
        return cell is best
    return mcnemar([one.success for one, _ in pairs], [two.success for _, two in pairs]) >= LEVEL


def _as_quick(cell: Cell, quickest: Cell) -> bool:
    """Whether AES is not significantly above the quickest planner's on shared instances."""
    pairs = _shared(cell, quickest)
    if cell is quickest or len(pairs) < FEWEST:
        return cell is quickest
    return paired_bootstrap([one.steps for one, _ in pairs], [two.steps for _, two in pairs]) >= LEVEL


def _entry(cell: Cell, rank: int | None, reason: str, best: Cell, quickest: Cell) -> Entry:
    config, summary = cell.config, cell.summary()
    pairs = _shared(cell, best) if rank is not None else []
    tested = len(pairs) >= FEWEST
    ours, theirs = [one.success for one, _ in pairs], [two.success for _, two in pairs]
    able = rank is not None and _alike(cell, best)
    gaps = [row.start_gap for row in cell.rows if row.start_gap is not None]
    plans = sum(row.replans + 1 for row in cell.rows)
    return Entry(
        environment=summary.environment,
        protocol=summary.protocol,
        distribution=summary.distribution,
        planner=summary.method,
        reference=str(config[FOREIGN].get("reference", "")) if FOREIGN in config else "",
        rank=rank,
        differs=reason,
        n=summary.n,
        seeds=summary.seeds,
        success_rate=summary.success_rate,
        success_rate_interval=summary.success_rate_interval,
        best_success=able,
        average_executed_steps=summary.average_executed_steps,
        average_executed_steps_interval=summary.average_executed_steps_interval,
        best_steps=able and _as_quick(cell, quickest),
        shared=len(pairs),
        success_difference=float(np.mean(ours) - np.mean(theirs)) if tested and cell is not best else None,
        p=mcnemar(ours, theirs) if tested and cell is not best else None,
        average_score=summary.average_score,
        planning_seconds=summary.planning_seconds / plans,
        average_replans=summary.average_replans,
        candidates=config["candidates"],
        controller=str(config["controller"].get("name", "?")),
        start_gap=max(gaps) if gaps else None,
        tolerance=float(config["epsilon"]),
    )
