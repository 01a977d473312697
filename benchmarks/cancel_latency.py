"""How soon a worker of `vhd serve` is free after its work was cancelled, for every kind of work that lasts.

Work is cancelled at several moments; the longest computing time from there to the end is printed as JSON, in
milliseconds. It is the time on the clock where nothing else runs. To it comes the time until the server notices that a
client has left (40 ms at most).

    python benchmarks/cancel_latency.py
    python benchmarks/cancel_latency.py --environments maze2d-large
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
import warnings

os.environ["OMP_NUM_THREADS"] = "1"  # as the server's workers

from vhdiffuser.web.library import Library
from vhdiffuser.web.requests import ExecuteRequest, FieldRequest, PlanRequest
from vhdiffuser.web.work import Work, answer

MOMENTS = (0.03, 0.1, 0.2, 0.4, 0.8)
"""Seconds after which work is cancelled."""


def works(environment: str, ends: dict, T_max: int) -> dict[str, Work]:
    """Work that takes longer than a moment."""
    pair = {"environment": environment, "start": ends["start"], "goal": ends["goal"]}
    ddpm = PlanRequest(**pair, sampler="ddpm", steps=256, length=T_max)
    run = ExecuteRequest(**pair, protocol="rp")
    field = FieldRequest(**pair, points=160)
    return {
        "DDPM-256 of T_max states": Work("plan", environment, ddpm, T_max),
        "execution": Work("execute", environment, run),
        "FH-H3 of a comparison": Work("method", environment, run, "fh-h3"),
        "field of 160 points": Work("field", environment, field),
    }


def longest_ms(library: Library, work: Work) -> float | None:
    """Milliseconds from cancelling to the end, the longest of all moments at which it was still under way."""
    found = []
    for moment in MOMENTS:
        cancelled: list[float] = []
        timer = threading.Timer(moment, lambda at=cancelled: at.append(time.process_time()))
        timer.start()
        made = answer(library, work, lambda at=cancelled: bool(at), 60)
        end = time.process_time()
        timer.cancel()
        if made.refusal is not None and made.refusal[1] == "stale":
            found.append(1000 * (end - cancelled[0]))
    return round(max(found), 1) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("maze2d-large", "maze2d-umaze", "antmaze-medium", "cube")
    parser.add_argument("--environments", nargs="+", default=names)
    chosen = parser.parse_args().environments
    warnings.simplefilter("ignore")
    library = Library.of_weights("shipped")
    figures = {}
    for name in chosen:
        loaded = library.get(name)
        ends = json.loads(answer(library, Work("instance", name, None, 1), lambda: False, 60).text)
        known = works(name, ends, loaded.spec.T_max)
        figures[name] = {what: longest_ms(library, work) for what, work in known.items()}
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
