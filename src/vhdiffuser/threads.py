"""Thread use of torch: one thread per plan or small batch, and many such batches in parallel.

Threads that share one small operation synchronise dozens of times per forward pass. On an idle machine that gains
little; when another process occupies a core, all of them wait for the thread without one, and a plan takes 70 times
as long. So planning and control networks run on one thread each, and large jobs are split into independent batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Within the block, torch operations called from this thread use `count` threads (None: no change)."""
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
    """Apply `function` to each batch, in order: one thread per batch, as many at once as torch may use threads."""
    import torch

    workers = min(len(batches), torch.get_num_threads())
    with torch_threads(1):
        if workers <= 1:
            return [function(batch) for batch in batches]
        # A thread adopts torch's setting when it first computes, hence new threads each time.
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, batches))
