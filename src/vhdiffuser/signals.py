"""Ctrl-C, SIGTERM and SIGHUP: the first stops in good order, a second at once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from vhdiffuser.errors import Interrupted

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_TOGETHER = 0.2
"""Seconds within which two signals count as one: `timeout` and some shells send theirs twice."""

Handler = Callable[[int, FrameType | None], None]


def interrupt_on_signals() -> None:
    """From now on, a signal to stop raises `Interrupted`, and a second one ends the process at once.

    Signals that our parent told us to ignore (`nohup`) stay ignored.
    """
    _install(_twice(_raise, end_at_once))


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """A list that gets the first signal to stop, so that the step under way can finish; a second raises `Interrupted`.

    In any thread but the main one the list stays empty: signals reach the main thread only.
    """
    noted: list[int] = []
    try:
        before = _install(_twice(lambda number, frame: noted.append(number), _raise))
    except ValueError:  # not the main thread
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End this process without another word; its worker processes notice and end too."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # a progress bar hides the cursor
    os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _twice(first: Handler, then: Handler) -> Handler:
    """A handler that calls `first` for the first signal and `then` for later ones."""
    began: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not began:
            began.append(time.monotonic())
            first(number, frame)
        elif time.monotonic() - began[0] > _TOGETHER:
            then(number, frame)

    return handle


def _install(handler: Handler) -> dict[int, Any]:
    before: dict[int, Any] = {}
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    return before
