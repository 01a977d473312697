"""Worker processes: single-threaded, and never outliving the process that started them.

A worker ignores Ctrl-C, since its parent ends it, and exits within a second after its parent, however that ended.
Workers still run their `with` and `finally` blocks, so no temporary file is left.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from vhdiffuser.errors import DataError, VhdError

_PATIENCE = 1.0
"""Seconds for a terminated worker to run its cleanup."""


@dataclass(frozen=True)
class Worker:
    """A worker process and the parent's end of its pipe."""

    process: Any
    pipe: Connection


def available_cores() -> int:
    """Number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_worker(serve: Callable[[Connection], None]) -> Worker:
    """Start a process that runs `serve`, an importable function, with the other end of a pipe."""
    # "spawn", since a forked child would inherit thread pools of torch and MuJoCo in an undefined state.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(serve, theirs), daemon=True)
    with _one_thread_each():
        process.start()
    theirs.close()
    return Worker(process, ours)


def end_workers(workers: Sequence[Worker]) -> None:
    """Terminate workers at once."""
    for worker in workers:
        worker.pipe.close()
        worker.process.terminate()
    until = time.monotonic() + _PATIENCE
    for worker in workers:
        worker.process.join(max(0.0, until - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def run_in_workers(
    function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], count: int
) -> Iterator[tuple[int, Any]]:
    """Call `function(*job)` for each job in `count` processes; yields (index of the job, result) as jobs finish."""
    waiting = deque(enumerate(jobs))
    workers: list[Worker] = []
    busy: dict[Connection, int] = {}
    try:
        for number, job in (waiting.popleft() for _ in range(min(count, len(jobs)))):
            workers.append(start_worker(_answer))
            _send(workers[-1].pipe, (function, job))
            busy[workers[-1].pipe] = number
        while busy:
            ready: Any = wait(list(busy))
            for pipe in ready:
                number, result = busy.pop(pipe), _receive(pipe)
                if waiting:
                    following, job = waiting.popleft()
                    _send(pipe, (function, job))
                    busy[pipe] = following
                yield number, result
    finally:
        end_workers(workers)


def failure(error: Exception, what: str) -> VhdError:
    """Convert a worker's exception into one that the parent can raise."""
    if isinstance(error, VhdError):
        return DataError(str(error)) if isinstance(error, DataError) else VhdError(str(error))
    return VhdError(f"{what} failed: {error!r}")


def _send(pipe: Connection, value: Any) -> None:
    with suppress(OSError):  # the worker has ended; `_receive` reports it
        pipe.send(value)


def _receive(pipe: Connection) -> Any:
    try:
        answer = pipe.recv()
    except (EOFError, OSError) as error:
        raise VhdError(
            "a worker process ended unexpectedly: out of memory, or a script that starts processes without "
            '`if __name__ == "__main__":`. Finished work is kept; run it again, with fewer workers if memory is short.'
        ) from error
    if isinstance(answer, VhdError):
        raise answer
    return answer


def _answer(pipe: Connection) -> None:
    """Main loop of the processes of `run_in_workers`."""
    while True:
        function, job = pipe.recv()
        try:
            answer = function(*job)
        except Exception as error:
            answer = failure(error, "a worker process")
        pipe.send(answer)


def _work(serve: Callable[[Connection], None], pipe: Connection) -> None:
    """Main function of a worker process."""
    for name in ("SIGINT", "SIGHUP"):  # signals reach every process of the terminal; the parent handles them
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_watch_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent closed the pipe or has exited
        serve(pipe)
    signal.signal(signal.SIGTERM, _stay)  # it is exiting already; `_leave` would only interrupt that


def _leave(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, _stay)
    raise SystemExit(0)


def _stay(number: int, frame: object) -> None:
    """Nothing. With SIG_IGN, Python reports a signal that arrives while it changes the handler on stderr."""


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit each child process to one thread: many multi-threaded workers slow each other down."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
