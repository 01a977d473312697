"""Planning beside other work, as a ratio measured in one run.

    python benchmarks/busy_machine.py                    four busy processes beside the planner
    python benchmarks/busy_machine.py --busy 8

Plans of maze2d-large with the weights that ship: first one torch thread on the machine as it is (keep it idle), then
as a user would plan, with the threads that torch takes by default, beside processes that do nothing but compute. A
ratio of 2.5 is a fair share of two cores for one thread among five. The target is 3 at most, for one plan
and for 216; beyond it the exit code is 1. (Threads that share one plan and wait for each other made it 70 to 150.)
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

from vhdiffuser.benchmark.instances import draw_instances
from vhdiffuser.envs.make import make_env
from vhdiffuser.planner.load import load_planner
from vhdiffuser.threads import torch_threads

TARGET = 3.0
PAIRS = 216


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


def mean_seconds(call: Callable[[], object], repeats: int) -> float:
    """Mean time of one call, after a warm-up: beside others a short call either has a core or waits for one."""
    call()
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", type=int, default=4, help="busy processes beside the planner (default 4)")
    options = parser.parse_args()
    planner = load_planner("maze2d-large", outside="ignore")
    instances = draw_instances(make_env("maze2d-large"), PAIRS, seed=0)
    starts, goals = np.stack([item.start for item in instances]), np.stack([item.goal for item in instances])
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "one plan": (lambda: planner.plan(starts[0], goals[0], length=384), 150),
        f"{PAIRS} plans": (lambda: planner.plan_batch(starts, goals), 5),
    }
    with torch_threads(1):
        idle = {name: mean_seconds(*call) for name, call in calls.items()}
    with busy(options.busy):
        beside = {name: mean_seconds(*call) for name, call in calls.items()}
    cores, threads = os.cpu_count(), torch.get_num_threads()
    print(f"{cores} cores, torch threads by default {threads}, load before {os.getloadavg()[0]:.1f}")
    print(f"{'':12}{'idle, 1 thread':>16}{f'beside {options.busy} busy':>16}{'ratio':>8}")
    for name in calls:
        print(f"{name:12}{1e3 * idle[name]:13.1f} ms{1e3 * beside[name]:13.1f} ms{beside[name] / idle[name]:8.2f}")
    sys.exit(any(beside[name] > TARGET * idle[name] for name in calls))


if __name__ == "__main__":
    main()
