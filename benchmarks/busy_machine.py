"""Planning beside other work, as a ratio measured in one run.

    python benchmarks/busy_machine.py                    four busy processes beside the planner
    python benchmarks/busy_machine.py --busy 8

Plans of maze2d-large with the weights that ship: first one torch thread on the machine as it is (keep it idle), then
as a user would plan, with the threads that torch takes by default, beside processes that do nothing but compute. A
ratio of 2.5 is a fair share of two cores for one thread among five. The target is 3 at most in the median
of five rounds, for one plan and for 216; beyond it the exit code is 1. The ratio of CPU times is 1 where nothing
but waiting for a core makes the difference. (Threads that share one plan and wait for each other made it 70 to 150.)
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.planner.load import load_planner
from vhdiffuser.threads import torch_threads

TARGET = 3.0
PAIRS = 216
ROUNDS = 5


def compute_forever() -> None:
    """Keep one core busy."""
    while True:
        sum(range(10_000))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """`count` processes that compute, while the block runs."""
    processes = [multiprocessing.Process(target=compute_forever, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        time.sleep(1.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def mean_seconds(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Mean time of one call and the CPU time it used: beside others a short call either has a core or waits for one."""
    call()
    begun, used = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats, (time.process_time() - used) / repeats


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=4, help="busy processes beside the planner (default 4)")
    options = parser.parse_args()
    planner = load_planner("maze2d-large", outside="ignore")
    instances = draw_instances(get_environment("maze2d-large").make(), PAIRS, seed=0)
    starts, goals = np.stack([item.start for item in instances]), np.stack([item.goal for item in instances])
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "one plan": (lambda: planner.plan(starts[0], goals[0], length=384), 100),
        f"{PAIRS} plans": (lambda: planner.plan_batch(starts, goals), 3),
    }
    idle: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    beside: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            with torch_threads(1):
                idle[name].append(mean_seconds(*call))
            with busy(options.busy):
                beside[name].append(mean_seconds(*call))
    print(f"{os.cpu_count()} cores, torch threads by default {torch.get_num_threads()}, medians of {ROUNDS} rounds")
    print(f"{'':12}{'idle, 1 thread':>16}{f'beside {options.busy} busy':>16}{'ratio':>8}{'CPU time':>10}  rounds")
    missed = False
    for name in calls:
        (alone, cpu_alone), (shared, cpu_shared) = np.median(idle[name], axis=0), np.median(beside[name], axis=0)
        rounds = " ".join(f"{there[0] / here[0]:.2f}" for here, there in zip(idle[name], beside[name], strict=True))
        print(
            f"{name:12}{1e3 * alone:13.1f} ms{1e3 * shared:13.1f} ms{shared / alone:8.2f}"
            f"{cpu_shared / cpu_alone:10.2f}  {rounds}"
        )
        missed |= bool(shared > TARGET * alone)
    sys.exit(missed)


if __name__ == "__main__":
    main()
