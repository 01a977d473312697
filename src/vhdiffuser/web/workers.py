"""Workers: threads of this process, or processes of their own, which no other worker slows down.

Python runs one thread at a time, so a long plan in a thread slows all others. A worker process has its own interpreter,
and those for slow work give way to the others (niceness).
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
from vhdiffuser.web.limits import Limits
from vhdiffuser.web.work import Answer, Work, answer


class Cancellable(Protocol):
    """A request, as its work sees it."""

    @property
    def ended(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    @property
    def seconds_left(self) -> float:
        """Seconds that it may still take."""
        ...

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call this when it is cancelled."""
        ...


class Workers(Protocol):
    """What a lane needs of its workers."""

    count: int

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start the work; there is a free worker."""
        ...

    def close(self) -> None:
        """End them, without waiting."""
        ...


MakeWorkers = Callable[[str, Limits], Workers]
"""(lane, limits) -> its workers."""


class ThreadWorkers:
    """Workers in this process."""

    def __init__(self, library: Library, count: int) -> None:
        self.count, self._library = count, library
        self._pool = ThreadPoolExecutor(count, "vhd-worker")

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start the work."""
        return self._pool.submit(answer, self._library, work, lambda: token.ended, token.seconds_left)

    def close(self) -> None:
        """End them, without waiting."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessWorkers:
    """Workers in processes, forked from this one: make them before it starts threads."""

    def __init__(self, library: Library, count: int, niceness: int = 0) -> None:
        self.count, self._library, self._niceness = count, library, niceness
        self._flags = multiprocessing.RawArray(c_byte, count)
        """For each worker's current work, whether it is cancelled."""
        self._owners: list[Cancellable | None] = [None] * count
        self._free = list(range(count))
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("fork")
        made = (self._library, self._flags, self._niceness, os.getpid())
        pool = ProcessPoolExecutor(self.count, context, initializer=_prepare, initargs=made)
        pool.submit(os.getpid).result()  # forks all of them now
        return pool

    def submit(self, work: Work, token: Cancellable) -> Future[Answer]:
        """Start the work; workers are replaced if one has died."""
        slot = self._free.pop()
        self._owners[slot], self._flags[slot] = token, token.ended

        def cancel() -> None:
            if self._owners[slot] is token:  # not another's work, that came after
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
        """End them, without waiting."""
        for slot in range(self.count):
            self._flags[slot] = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def can_fork() -> bool:
    """Whether workers can be processes here."""
    return "fork" in multiprocessing.get_all_start_methods()


_own: dict[str, Any] = {}
"""A worker process's library and flags."""


def _prepare(library: Library, flags: Any, niceness: int, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal: the parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = "1"  # one plan is too small for two threads
    _own.update(library=library, flags=flags)
    with suppress(OSError, AttributeError):
        os.nice(niceness)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that was."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _answer(work: Work, slot: int, seconds: float) -> Answer:
    flags = _own["flags"]
    return answer(_own["library"], work, lambda: bool(flags[slot]), seconds)
