"""How many threads torch computes with: one for a plan or a small batch, many such batches side by side.

Threads that share one small operation wait for each other dozens of times in a forward pass. On an idle machine that
gains little; where another process takes a core, everyone waits for the thread that has none, and a plan takes 70 times
as long. So networks that plan and control run on one thread each, and a large job is divided into batches that never
wait for each other.
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
    """Within the block, torch's operations called from this thread use `count` threads (None: as many as before)."""
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
    """`function` of each batch, in order: each on one thread, as many at once as torch may use threads."""
    import torch

    workers = min(len(batches), torch.get_num_threads())
    with torch_threads(1):
        if workers <= 1:
            return [function(batch) for batch in batches]
        # A thread takes torch's setting over when it first computes, hence new ones each time.
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, batches))
