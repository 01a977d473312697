"""Cancellation of long computations: they call `check_cancelled` regularly, and whoever may cancel them sets the check.

The check belongs to the current context (`contextvars`): computations at the same time have checks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Within the block, computations call `check` every few milliseconds; it raises to cancel them."""
    before = _check.set(check)
    try:
        yield
    finally:
        _check.reset(before)


def check_cancelled() -> None:
    """Raise if whoever started this computation has cancelled it."""
    check = _check.get()
    if check is not None:
        check()
