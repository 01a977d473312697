"""Cancellation of long computations: they call `check_cancelled` regularly, and their caller installs the check.

The check belongs to the current context (`contextvars`), so concurrent computations have separate checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Within the block, computations call `check` every few milliseconds; it cancels them by raising."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def check_cancelled() -> None:
    """Raise if the caller has cancelled this computation."""
    check = _check.get()
    if check is not None:
        check()
