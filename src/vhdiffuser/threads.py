"""Threading: one thread per plan or small batch, and many batches in parallel.

Threads that share one small operation synchronise dozens of times per forward pass. That gains little on an idle
machine; when another process occupies a core, all threads wait for the one without a core, and a plan takes 70 times as
long. So planning and control networks run on one thread each, and large jobs are split into independent batches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Within the block, torch operations called from this thread use `count` threads (None: unchanged)."""
    import torch

    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
