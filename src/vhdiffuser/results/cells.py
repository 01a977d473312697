"""Cells of a results table: the files of one method, protocol and distribution, pooled over test seeds.

Seeds 0 to 99 are for development; published figures use seeds 100 and above, on which nothing is tuned (docs/seeds.md).
Files are pooled only if they are equal in everything but the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from vhdiffuser.errors import DataError
from vhdiffuser.results.configs import differences
from vhdiffuser.results.paths import PAIRS, result_path
from vhdiffuser.results.rows import ResultFile, Row, read_results
from vhdiffuser.results.summary import Summary, summarize_cell

FIRST_TEST_SEED = 100
"""Smaller seeds are for development."""


@dataclass(frozen=True)
class Cell:
    """The rows behind one table cell: one or more seeds, equal in everything else."""

    files: tuple[ResultFile, ...]
    """One file per seed, sorted by seed."""

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the first seed; the others differ only in the seed."""
        return self.files[0].config

    @property
    def key(self) -> tuple[str, str, str, str]:
        """(environment, method, protocol, distribution)."""
        environment, method, protocol = (self.config[name] for name in ("environment", "method", "protocol"))
        return environment, method, protocol, self.files[0].distribution

    @property
    def streams(self) -> int:
        """Version of the random streams."""
        return self.files[0].streams

    @property
    def seeds(self) -> tuple[int, ...]:
        """Test seeds."""
        return tuple(item.config["seed"] for item in self.files)

    @property
    def rows(self) -> list[Row]:
        """All rows, sorted by seed and instance."""
        return sorted((row for item in self.files for row in item.rows), key=lambda row: (row.seed, row.instance))

    def summary(self) -> Summary:
        """SR, AES and the rest over all rows."""
        return summarize_cell(self.rows, self.config)


def pool(files: Sequence[ResultFile]) -> list[Cell]:
    """Group files into cells by environment, method, protocol, distribution and streams, in order of first appearance.

    Raises `DataError` if files of one cell differ in anything but the seed, or share a seed. Test seeds are not pooled
    with development seeds, nor streams of different versions.
    """
    groups: dict[tuple[Any, ...], list[ResultFile]] = {}
    for item in files:
        if item.rows:
            names = (item.config[name] for name in ("environment", "method", "protocol"))
            tested = item.config["seed"] >= FIRST_TEST_SEED
            groups.setdefault((*names, item.distribution, item.streams, tested), []).append(item)
    return [_cell(group) for group in groups.values()]


def published(files: Sequence[ResultFile]) -> tuple[list[Cell], list[ResultFile]]:
    """The cells to print, and the files left out.

    Current streams take precedence over old ones, and test seeds over development seeds.
    """
    chosen: dict[tuple[str, str, str, str], Cell] = {}
    for cell in pool(files):
        known = chosen.get(cell.key)
        if known is None or _rank(cell) > _rank(known):
            chosen[cell.key] = cell
    printed = {id(item) for cell in chosen.values() for item in cell.files}
    return list(chosen.values()), [item for item in files if item.rows and id(item) not in printed]


def read_cell(folder: Path, environment: str, method: str, protocol: str, distribution: str = "reset") -> Cell:
    """The published cell with these keys in `folder`, read from its own files only."""
    files = [
        item
        for path in sorted((folder / environment).glob(f"{method}-{protocol}*.jsonl"))
        for item in [read_results(path)]
        if (item.config["method"], item.config["protocol"], item.distribution) == (method, protocol, distribution)
    ]
    cells, _ = published(files)
    if not cells:
        path = result_path(folder, environment, method, protocol, FIRST_TEST_SEED, distribution)
        raise DataError(
            f"{folder / environment}: no rows of {method} under {protocol} ({path.name}, or another seed). "
            f"Create them with `vhd bench {environment} --methods {method} --protocols {protocol}`."
        )
    return cells[0]


def _rank(cell: Cell) -> tuple[int, bool]:
    return cell.streams, cell.seeds[0] >= FIRST_TEST_SEED


def _cell(files: Sequence[ResultFile]) -> Cell:
    ordered = sorted(files, key=lambda item: item.config["seed"])
    first = ordered[0]
    for before, item in pairwise(ordered):
        mend = "Move one of them to another folder, or delete it."
        if before.config["seed"] == item.config["seed"]:
            raise DataError(
                f"{before.path} and {item.path} both contain seed {item.config['seed']} and would count twice. {mend}"
            )
        if differ := differences(first.config, item.config, but=("seed",)):
            details = "; ".join(f"{key}: {one} and {other}" for key, (one, other) in differ.items())
            raise DataError(
                f"{first.path} and {item.path} are two seeds of one cell, but differ in more than the seed, so "
                f"they are not pooled ({details}). {mend}"
            )
        if item.distribution == PAIRS:
            raise DataError(
                f"{first.path} and {item.path} contain the same pairs under two seeds and would count twice. {mend}"
            )
    return Cell(tuple(ordered))
