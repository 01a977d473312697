"""Robot logs in CSV files: one row per control step, one named column per quantity.

The first row holds the names. Some names have a meaning:

    episode          identifies the episode of a row; without it, the file is one episode
    time (or t)      seconds; rows must be evenly spaced
    action...        actions: every column whose name starts with it; row t leads from row t to row t+1

All other columns form the observation, in their order.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vhdiffuser.errors import DataError
from vhdiffuser.types import Episodes, FloatArray, IntArray

_CLOCKS = ("time", "t")
_UNEVEN = 0.05
"""Largest relative deviation of a time step from the median."""


@dataclass(frozen=True)
class Log:
    """The contents of a CSV log."""

    episodes: Episodes
    """Observations and actions."""
    names: tuple[str, ...]
    """Names of the observation columns."""
    control_dt: float | None
    """Seconds between rows, if there is a time column."""


def read_csv(path: Path) -> Log:
    """Read a CSV log. Raises `DataError` with the offending line."""
    header, rows = _rows(path)
    clock = next((name for name in _CLOCKS if name in header), None)
    actions = [name for name in header if name.startswith("action")]
    names = tuple(name for name in header if name not in ("episode", clock, *actions))
    if not names:
        raise DataError(f"{path}: no observations: every column is an episode, a time or an action.")
    ends = _ends(path, [row[header.index("episode")] for row in rows] if "episode" in header else [""] * len(rows))
    numbers = {name: _numbers(path, name, rows, header.index(name)) for name in header if name != "episode"}
    states = np.stack([numbers[name] for name in names], axis=1)
    acted = np.stack([numbers[name] for name in actions], axis=1) if actions else np.zeros((len(rows), 0))
    acted[ends - 1] = 0  # belongs to no transition
    dt = None if clock is None else _time_step(path, clock, numbers[clock], ends)
    return Log(Episodes(states.astype(np.float32), acted.astype(np.float32), ends), names, dt)


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """The column names and the rows of text."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file.") from error
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise DataError(f"{path}: not a CSV file with a header row ({error}).") from error
    if any(_is_number(cell) for cell in header):
        raise DataError(
            f"{path}: the first row contains numbers. Add a header row with column names, such as x,y,vx,vy."
        )
    if len(set(header)) < len(header) or "" in header:
        raise DataError(
            f"{path}: column names in the header row must be unique and not empty; got {', '.join(header)}."
        )
    if not rows:
        raise DataError(f"{path}: no rows below the header.")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise DataError(f"{path}, row {number}: {len(row)} cells, but {len(header)} columns.")
    return header, rows


def _numbers(path: Path, name: str, rows: list[list[str]], column: int) -> FloatArray:
    """(N,) numbers of one column."""
    try:
        values = np.array([float(row[column]) for row in rows])
    except ValueError:
        values = np.array([float(row[column]) if _is_number(row[column]) else np.nan for row in rows])
    if not np.isfinite(values).all():
        row = int((~np.isfinite(values)).argmax())
        raise DataError(f"{path}, row {row + 2}: {name} must be a finite number; got '{rows[row][column]}'.")
    return values


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _ends(path: Path, labels: list[str]) -> IntArray:
    """(E,) index one past each episode's last row."""
    ends = [row for row in range(1, len(labels)) if labels[row] != labels[row - 1]] + [len(labels)]
    seen: set[str] = set()
    for end in ends:
        if (label := labels[end - 1]) in seen:
            raise DataError(
                f"{path}: the rows of episode '{label}' are not contiguous. Sort the rows by episode, then by time."
            )
        seen.add(label)
    return np.array(ends, np.int64)


def _time_step(path: Path, clock: str, times: FloatArray, ends: IntArray) -> float:
    """Seconds between rows; raises `DataError` if they are not evenly spaced."""
    rows = np.setdiff1d(np.arange(len(times) - 1), ends - 1)
    steps = times[rows + 1] - times[rows]
    dt = float(np.median(steps)) if len(steps) else 0.0
    if not dt > 0:
        raise DataError(f"{path}: {clock} must increase from row to row within an episode.")
    if (uneven := np.abs(steps - dt) > _UNEVEN * dt).any():
        row = int(rows[uneven.argmax()])
        raise DataError(
            f"{path}, row {row + 3}: {times[row + 1] - times[row]:.4g} s after the previous row, but the median "
            f"step is {dt:.4g} s. Rows must be evenly spaced: resample them "
            "(docs/tutorials/2-log-to-closed-loop.md)."
        )
    return float(f"{dt:.6g}")
