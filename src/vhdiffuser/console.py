"""Console output of commands and benchmark scripts: progress on stderr, results on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave handling of closed pipes (head, less) to the command, as `print` does; rich would exit with 1."""
        raise BrokenPipeError


# No markup: brackets in names and units ("x [m]") are literal.
out = _Console(highlight=False, soft_wrap=True, markup=False)
err = _Console(stderr=True, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress_bars(quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Progress bars with the remaining time, one per title.

    Call it with (title, done, total, unit), and `note=` for text beside the bar.
    """
    if quiet:  # rich before 14.3 ends even a disabled bar with an empty line
        yield lambda title, done, total, unit, note="": None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.completed:,.0f}/{task.fields[of]} {task.fields[unit]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=err, transient=False) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(title: str, done: float, total: float, unit: str, note: str = "") -> None:
            if title not in tasks:
                tasks[title] = bars.add_task(title, total=None, note="", of="?", unit=unit)
            of = f"{total:,.0f}" if total else "?"
            bars.update(tasks[title], completed=done, total=total or None, note=note, of=of)

        yield advance


@contextmanager
def progress_bar(title: str, unit: str, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """One progress bar, shown from the start: call it with (done, total), and `note=` for text beside it."""
    with progress_bars(quiet) as advance:
        advance(title, 0, 0, unit)
        yield lambda done, total, note="": advance(title, done, total, unit, note)
