"""Console output of commands and benchmark scripts: progress on stderr, results on stdout."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a reader that has gone (head, less) to the command, as for `print`; rich would exit with 1."""
        raise BrokenPipeError


# No markup: brackets in names and units ("x [m]") are literal.
out = _Console(highlight=False, soft_wrap=True, markup=False)
err = _Console(stderr=True, highlight=False, markup=False)


def print_json(value: Any) -> None:
    """Print one JSON value on stdout."""
    print(json.dumps(value, indent=2))


@contextmanager
def progress_bar(title: str, unit: str, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """A progress bar with the remaining time: call it with (done, total), and `note=` for text beside it."""
    if quiet:  # rich before 14.3 ends even a disabled bar with an empty line
        yield lambda done, total, note="": None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.completed:,.0f}/{task.fields[of]} " + unit),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=err, transient=False) as bar:
        task = bar.add_task(title, total=None, note="", of="?")

        def advance(done: float, total: float, note: str = "") -> None:
            bar.update(task, completed=done, total=total or None, note=note, of=f"{total:,.0f}" if total else "?")

        yield advance
