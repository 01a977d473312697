"""Threading: one thread per plan or small batch, and many batches in parallel.

Threads that share one small operation synchronise dozens of times per forward pass. That gains little on an idle
machine; when another process occupies a core, all threads wait for the one without a core, and a plan takes 70 times as
long. So planning and control networks run on one thread each, and large jobs are split into independent batches.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Within the block, torch operations called from this thread use `count` threads (None: as before)."""
    import torch

    before = torch.get_num_threads()
    try:
        _use_threads(count or before)
        yield
    finally:
        _use_threads(before)


def _use_threads(count: int) -> None:
    import torch

    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def use_faster_threads(compute: Callable[[int], object], repeats: int = 3) -> int:
    """Let torch use one thread or as many as now, whichever computes faster; returns the number.

    Calls compute(0) to compute(repeats - 1) with both. Several threads must gain a tenth: when other processes occupy
    the cores, threads that wait for each other take up to ten times as long as one, which needs a single core.
    """
    import torch

    most = torch.get_num_threads()
    if most == 1:
        return 1
    seconds = {}
    for count in (most, 1):
        _use_threads(count)
        compute(0)
        begun = time.perf_counter()
        for number in range(repeats):
            compute(number)
        seconds[count] = time.perf_counter() - begun
    chosen = most if seconds[most] < 0.9 * seconds[1] else 1
    _use_threads(chosen)
    return chosen


def batches_in_parallel(function: Callable[[Item], Result], batches: Sequence[Item]) -> list[Result]:
    """Apply `function` to each batch and return the results in order: one thread per batch, `planning_threads` at a
    time."""
    workers = min(len(batches), planning_threads())
    with torch_threads(1) if sys.modules.get("torch") else nullcontext():
        if workers <= 1:
            return [function(batch) for batch in batches]
        # A thread adopts torch's setting on its first computation, so threads are not reused.
        with ThreadPoolExecutor(workers) as pool:
            contexts = [copy_context() for _ in batches]  # for `vhdiffuser.cancel`
            return list(pool.map(lambda context, batch: context.run(function, batch), contexts, batches))


def planning_threads() -> int:
    """Number of threads for planning: torch's setting if torch is loaded, otherwise OMP_NUM_THREADS or one per core."""
    if torch := sys.modules.get("torch"):
        return torch.get_num_threads()
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
