"""Ctrl-C, SIGTERM and SIGHUP: the first signal stops cleanly, a second one at once."""

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
"""Signals within this many seconds count as one: `timeout` and some shells send theirs twice."""

Handler = Callable[[int, FrameType | None], None]


def interrupt_on_signals() -> None:
    """Make the first stop signal raise `Interrupted`, and a second one end the process at once.

    Signals ignored by our parent (`nohup`) stay ignored.
    """
    _install(_twice(_raise, end_at_once))


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """A list that receives the first stop signal, so that the current step can finish; a second signal raises
    `Interrupted`.

    Outside the main thread the list stays empty, since signals reach the main thread only.
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


@contextmanager
def held_signals() -> Iterator[None]:
    """Deliver a stop signal only after the block.

    An exception raised while a C extension is imported reaches the caller as an `ImportError`, which reads as if the
    package were not installed.
    """
    noted: list[int] = []
    try:
        before = _install(lambda number, frame: noted.append(number))
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in noted[:1]:
            signal.raise_signal(number)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End this process at once; its worker processes notice and exit as well."""
    if sys.stderr is not None and sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # progress bars hide the cursor
    os._exit(128 + number)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _twice(first: Handler, then: Handler) -> Handler:
    """A handler that calls `first` for the first signal and `then` for all later ones."""
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
