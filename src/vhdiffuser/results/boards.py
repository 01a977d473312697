"""Boards of planners: one per environment, protocol and distribution, from anybody's rows.

Planners are compared only under the same conditions: rule, success region, walls, controller and random streams. Where
rows differ, the conditions that most planners share are the board's, and the others are listed below it, unranked, with
the reason. Each ranked planner is tested against the best one on the instances that both have.
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
"""What must be the same in the configurations of two planners before they are compared."""
_IN_WORDS = {
    "streams": "other random streams, so other instances",
    "instances": "other instances",
    "rule": "another rule of replanning",
    "epsilon": "another tolerance",
    "scale": "another success region",
    "walls": "other walls",
    "goal_dims": "other goals",
    "controller": "another controller",
}
FEWEST = 30
"""Shared instances below which nothing is tested."""


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
    """The method of ours, or the planner's own name."""
    reference: str
    """Where a planner that is not ours came from; empty for ours."""
    rank: int | None
    """Place by SR, from 1; None if it was run under other conditions."""
    differs: str
    """Why it is not ranked; empty if it is."""
    n: int
    """Instances."""
    seeds: tuple[int, ...]
    """Test seeds."""
    success_rate: float
    """SR in 0..1."""
    success_rate_interval: tuple[float, float]
    """Its 95 % Wilson interval."""
    best_success: bool
    """Whether no planner has a significantly higher SR on shared instances."""
    average_executed_steps: float
    """AES."""
    average_executed_steps_interval: tuple[float, float]
    """Its 95 % bootstrap interval."""
    best_steps: bool
    """Whether no planner needs significantly fewer steps on shared instances."""
    shared: int
    """Instances that it shares with the best planner."""
    success_difference: float | None
    """SR minus that of the best planner, on shared instances."""
    p: float | None
    """p of that difference."""
    average_score: float | None
    """Mean of another benchmark's score, under its protocol."""
    planning_seconds: float
    """Mean seconds per plan."""
    average_replans: float
    """Mean number of plans after the first."""
    candidates: int
    """Plans drawn to return one."""
    controller: str
    """Name of the low-level controller."""
    start_gap: float | None
    """Largest distance between the place where a plan was made and its first state (normalised); None in older rows."""
    tolerance: float
    """Epsilon, in the same units."""

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
    """The entries of all boards in these folders, best first; names that are given restrict them.

    Of each folder, the rows directly in it and those in its environments' folders count, not those further down.
    """
    files: list[ResultFile] = []
    for folder in folders:
        paths = sorted([*folder.glob("*.jsonl"), *folder.glob("*/*.jsonl")])
        if not paths:
            raise DataError(f"{folder}: no rows (*.jsonl) in it or its environments' folders. Make some: `vhd bench`.")
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
        raise DataError(f"{', '.join(map(str, folders))}: no rows of these environments, protocols and distribution.")
    return [entry for cells in boards.values() for entry in make_board(cells)]


def make_board(cells: Sequence[Cell]) -> list[Entry]:
    """The entries of cells of one environment, protocol and distribution: the ranked by SR, then the others."""
    first = _common_conditions(cells)
    reasons = {id(cell): _differs(first, cell) for cell in cells}
    ranked = sorted((cell for cell in cells if not reasons[id(cell)]), key=_rate, reverse=True)
    others = sorted((cell for cell in cells if reasons[id(cell)]), key=_rate, reverse=True)
    quickest = _quickest(ranked)
    made = []
    for cell in [*ranked, *others]:
        rank = None if cell in others else 1 + sum(_rate(other) > _rate(cell) for other in ranked)
        made.append(_entry(cell, rank, reasons[id(cell)], ranked[0], quickest))
    return made


def _common_conditions(cells: Sequence[Cell]) -> Cell:
    """A cell of the newest streams, on test seeds if there are such, under the conditions that most of those share."""

    def weight(cell: Cell) -> tuple[int, bool, int, int]:
        return cell.streams, _tested(cell), sum(not _differs(cell, other) for other in cells), len(cell.rows)

    return max(cells, key=weight)


def _differs(first: Cell, cell: Cell) -> str:
    """How the conditions of two cells differ, in words; empty if they are the same."""
    one, other = ({key: item.config.get(key) for key in CONDITIONS} for item in (first, cell))
    one["streams"], other["streams"] = first.streams, cell.streams
    found = [_IN_WORDS[key] for key in CONDITIONS if key in differences(one, other)]
    if _tested(first) != _tested(cell):
        found.append(f"{'test' if _tested(cell) else 'development'} seeds")
    return ", ".join(found)


def _tested(cell: Cell) -> bool:
    return cell.seeds[0] >= FIRST_TEST_SEED


def _rate(cell: Cell) -> tuple[float, float]:
    """SR, and another benchmark's score to tell those of the same SR apart."""
    scores = [row.score for row in cell.rows if row.score is not None]
    return float(np.mean([row.success for row in cell.rows])), float(np.mean(scores)) if scores else 0.0


def _shared(cell: Cell, other: Cell) -> list[tuple[Row, Row]]:
    """Rows of two cells on the same instances."""
    there = {(row.seed, row.instance): row for row in other.rows}
    pairs = [(row, there[row.seed, row.instance]) for row in cell.rows if (row.seed, row.instance) in there]
    if wrong := next((one for one, two in pairs if (one.start, one.goal) != (two.start, two.goal)), None):
        raise DataError(
            f"{cell.files[0].path} and {other.files[0].path}: instance {wrong.instance} of seed {wrong.seed} is not "
            "the same pair in both, under the same streams. One was edited or made by another version: leave it out."
        )
    return pairs


def _quickest(ranked: Sequence[Cell]) -> Cell:
    """The cell with the fewest steps on average; of planners that reach their goals about as often as the best."""
    able = [cell for cell in ranked if _alike(cell, ranked[0])]
    return min(able, key=lambda cell: float(np.mean([row.steps for row in cell.rows])))


def _alike(cell: Cell, best: Cell) -> bool:
    """Whether SR is not significantly below the best's on shared instances."""
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
