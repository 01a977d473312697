"""Results files from lists of outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vhdiffuser.results.cells import Cell
from vhdiffuser.results.rows import ResultFile, Row
from vhdiffuser.streams import STREAMS


def results_file(
    hits: Sequence[bool],
    steps: Sequence[int] | None = None,
    *,
    method: str = "vhd",
    protocol: str = "ss",
    environment: str = "maze2d-umaze",
    seed: int = 100,
    distribution: str = "reset",
    streams: int = STREAMS,
    **config: Any,
) -> ResultFile:
    """One row for each of `hits`; a score is its number of steps under a peer's protocol."""
    taken = steps if steps is not None else [10] * len(hits)
    peer = protocol not in ("ss", "rp")
    rows = [
        Row(
            environment, method, protocol, seed, number, [0.1 * number, float(seed)], [1.0], 5, 5, [5], 0, hit, count,
            0.0, 2.0, 3.0, score=float(count) if peer else None,
        )
        for number, (hit, count) in enumerate(zip(hits, taken, strict=True))
    ]  # fmt: skip
    shared: dict[str, Any] = {
        "environment": environment, "method": method, "protocol": protocol, "seed": seed,
        "instances": {"distribution": distribution}, "gamma": 1.3, **config,
    }  # fmt: skip
    if streams > 1:
        shared["streams"] = streams
    return ResultFile(Path(f"{environment}/{method}-{protocol}-{distribution}-{seed}-{streams}.jsonl"), shared, rows)


def toy_cell(hits: Sequence[bool], steps: Sequence[int] | None = None, **names: Any) -> Cell:
    """A cell of one seed."""
    return Cell((results_file(hits, steps, **names),))
