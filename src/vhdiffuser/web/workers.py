"""Workers: threads, or processes that do not slow each other down.

Python runs one thread at a time, so a long plan in one thread delays all others. Worker processes have their own
interpreters, and those for slow work run at lower priority (niceness).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from ctypes import c_byte
from multiprocessing.connection import wait
from typing import Any, Protocol

from vhdiffuser.web.library import Library
from vhdiffuser.web.work import Answer, Work, answer


class Cancellable(Protocol):
    """A request as seen by its work."""

    @property
    def ended(self) -> bool:
        """Whether the request has been cancelled."""
        ...

    @property
    def seconds_left(self) -> float:
        """Seconds left in the request's time limit."""
        ...

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for cancellation."""
        ...


class Workers(Protocol):
    """Interface of a lane's workers."""

    count: int

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start a job; a worker must be free."""
        ...

    def close(self) -> None:
        """Stop all workers without waiting."""
        ...


class ThreadWorkers:
    """Workers in threads of this process."""

    def __init__(self, library: Library, count: int) -> None:
        self.count, self._library = count, library
        self._pool = ThreadPoolExecutor(count, "vhd-worker")

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start a job."""
        return self._pool.submit(answer, self._library, work, lambda: token.ended, token.seconds_left)

    def close(self) -> None:
        """Stop all workers without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessWorkers:
    """Workers in forked processes. Create them before starting threads."""

    def __init__(self, library: Library, count: int, niceness: int = 0) -> None:
        self.count, self._library, self._niceness = count, library, niceness
        self._flags = multiprocessing.RawArray(c_byte, count)
        """Cancellation flag of each worker's current job."""
        self._owners: list[Cancellable | None] = [None] * count
        self._free = list(range(count))
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("fork")
        made = (self._library, self._flags, self._niceness, os.getpid())
        pool = ProcessPoolExecutor(self.count, context, initializer=_prepare, initargs=made)
        pool.submit(os.getpid).result()  # forks all workers now
        return pool

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start a job; replaces the workers if one has died."""
        slot = self._free.pop()
        self._owners[slot], self._flags[slot] = token, token.ended

        def cancel() -> None:
            if self._owners[slot] is token:  # not a later job in the same slot
                self._flags[slot] = True

        def release(_: Future[Answer]) -> None:
            self._owners[slot] = None
            self._free.append(slot)

        token.when_ended(cancel)
        try:
            future = self._pool.submit(_answer, work, slot, token.seconds_left)
        except BrokenProcessPool:
            self._pool = self._start()
            future = self._pool.submit(_answer, work, slot, token.seconds_left)
        future.add_done_callback(release)
        return future

    def close(self) -> None:
        """Stop all workers without waiting."""
        for slot in range(self.count):
            self._flags[slot] = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def can_fork() -> bool:
    """Whether worker processes are available on this system."""
    return "fork" in multiprocessing.get_all_start_methods()


_own: dict[str, Any] = {}
"""Library and flags of this worker process."""


def _prepare(library: Library, flags: Any, niceness: int, parent: int) -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes of the terminal; the parent stops its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # one plan is too small for two threads
    _own.update(library=library, flags=flags)
    with suppress(OSError, AttributeError):
        os.nice(niceness)


def _end_with_parent() -> None:
    """Exit when the parent process has ended for any reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _answer(work: Work, slot: int, seconds: float) -> Answer:
    flags = _own["flags"]
    return answer(_own["library"], work, lambda: bool(flags[slot]), seconds)
