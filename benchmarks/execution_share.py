"""Where an execution's time goes: the share of planning and of simulation, under both protocols.

    python benchmarks/execution_share.py                                1,000 instances of maze2d-large
    python benchmarks/execution_share.py --n 200 --env maze2d-umaze

The benchmark itself is run, with the weights that ship and into a folder that is thrown away. `simulation` is all
that is not planning: controller, simulators, and the traffic between processes. Shares are of the time of both, by the
clock; a plan `is worth` the control steps that take as long as one plan.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.benchmark.run import run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.control.base import default_controller
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import VhdError
from vhdiffuser.results.summary import Summary


def shares(summary: Summary) -> dict[str, float]:
    """Ratios of one cell."""
    planning, simulation = summary.planning_seconds, summary.simulation_seconds
    plans = summary.n * (1 + summary.average_replans)
    steps = summary.n * summary.average_executed_steps
    return {
        "planning": planning / (planning + simulation),
        "simulation": simulation / (planning + simulation),
        "plans": plans / summary.n,
        "steps": steps / summary.n,
        "worth": (planning / plans) / (simulation / max(steps, 1)),
    }


def peak_memory() -> str:
    """This process at its largest, and its largest worker."""
    own, worker = (resource.getrusage(who).ru_maxrss / 1e6 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return f"{own:.2f} GB, of the largest worker {worker:.2f} GB"


def measure(environment: str, n: int, workers: int) -> None:
    """Run and print."""
    known = get_environment(environment)
    choose, controller = partial(load_method, source="shipped"), default_controller(known.spec, "shipped")
    config = BenchConfig(known, methods=("vhd",), n=n, keep=0, workers=workers)

    def run(config: BenchConfig) -> list[Summary]:
        with tempfile.TemporaryDirectory() as folder:
            return run_benchmark(config, Path(folder), choose, controller)

    run(replace(config, n=2, workers=1))  # torch's first plans are slow, and would count as planning
    begun = time.perf_counter()
    summaries = run(config)
    seconds = time.perf_counter() - begun
    print(f"{environment}, {n} instances: {seconds:.1f} s in all, peak memory {peak_memory()}")
    print(f"{'protocol':10}{'planning':>10}{'simulation':>12}{'plans':>8}{'steps':>8}{'a plan is worth':>20}")
    for summary in summaries:
        row = shares(summary)
        print(
            f"{summary.protocol:10}{row['planning']:10.1%}{row['simulation']:12.1%}{row['plans']:8.2f}"
            f"{row['steps']:8.1f}{row['worth']:14.1f} steps"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="maze2d-large")
    parser.add_argument("--n", type=int, default=1000, help="instances of each protocol")
    parser.add_argument("--workers", type=int, default=0, help="processes that step simulators; 0 is one per core")
    options = parser.parse_args()
    try:
        measure(options.env, options.n, options.workers)
    except VhdError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":  # workers import this file anew
    main()
