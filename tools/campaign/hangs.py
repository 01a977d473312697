"""An input that never ends, on a machine of any load."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

WAITING = 20
"""A process that waits may take this many times longer than one that works: others may have the cores."""


@contextmanager
def ended_if_it_hangs(seconds: float) -> Iterator[None]:
    """End this process, which is noticed, if the block works for that many seconds of CPU time, or waits for longer."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
