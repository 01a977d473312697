"""How time and memory grow: with plan length, batch, states in the data, instances and workers.

    python benchmarks/scaling.py                          everything, and the figure docs/images/scaling.svg
    python benchmarks/scaling.py length batch             some of it, without the figure

Every point is a process of its own, so that its peak memory is its own. Times are processor times (best of three),
which other work on the machine lengthens less than wall times; those of several workers are wall times. The exponent
is that of the last doubling or so: 1 is linear. Data is synthetic: a bouncing point in a box.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np

START, GOAL = [1.0, 1.0, 0.0, 0.0], [7.0, 9.0]
SIZES = {
    "length": [256, 512, 1024, 2048, 4096, 8192],
    "batch": [1, 4, 16, 64, 256, 1024],
    "planner data": [100_000, 1_000_000, 3_000_000, 10_000_000],
    "length data": [100_000, 1_000_000, 3_000_000, 10_000_000],
    "instances": [50, 100, 200, 400],
    "workers": [1, 2],
}
TITLES = {
    "length": "states of a plan",
    "batch": "plans of 256 states",
    "planner data": "states in the data: planner, set-up and 3 updates",
    "length data": "states in the data: Length Predictor, set-up and 3 updates",
    "instances": "instances of maze2d-umaze, single-shot",
    "workers": "workers, 200 instances",
}


def best(call: Callable[[], object], clock: Callable[[], float] = time.process_time, repeats: int = 3) -> float:
    """The shortest time of several calls, after a warm-up."""
    call()
    times = []
    for _ in range(repeats):
        begun = clock()
        call()
        times.append(clock() - begun)
    return min(times)


def plan_of(states: int) -> float:
    import vhdiffuser

    planner = vhdiffuser.load_planner("maze2d-large", outside="ignore")
    return best(lambda: planner.plan(START, GOAL, states))


def batch_of(plans: int) -> float:
    import vhdiffuser

    planner = vhdiffuser.load_planner("maze2d-large", outside="ignore")
    rng = np.random.default_rng(0)
    low, high = planner.normalizer.low, planner.normalizer.high
    starts, goals = rng.uniform(low, high, (plans, 4)), rng.uniform(low[:2], high[:2], (plans, 2))
    return best(lambda: planner.plan_batch(starts, goals, 256))


def training(task: str, states: int) -> float:
    """Processor time to set up a training task and make three updates."""
    import torch

    from vhdiffuser.diffusion.task import PlannerTask
    from vhdiffuser.envs.registry import get_spec
    from vhdiffuser.length.task import LengthTask
    from vhdiffuser.normalizer import Normalizer
    from vhdiffuser.recipes.recipe import get_recipe
    from vhdiffuser.types import Episodes

    spec, recipe = get_spec("maze2d-large"), get_recipe("maze2d-large")
    episodes = Episodes(*bouncing(states), np.arange(50_000, states + 1, 50_000))
    begun = time.process_time()
    normalizer = Normalizer.fit(episodes.observations)
    made: Any = (
        PlannerTask(episodes, spec, recipe.planner, normalizer, "")
        if task == "planner"
        else LengthTask(episodes, spec, recipe.length, normalizer, "")
    )
    network = made.make_network()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    generator = torch.Generator()
    for update in range(3):
        loss, _ = made.loss(network, network, generator.manual_seed(update), update)
        loss.backward()
        optimizer.step()
    return time.process_time() - begun


def bouncing(states: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 4) places and velocities of a point in the unit box, and (N, 2) actions."""
    at = np.arange(states, dtype=np.float32)
    observations = np.empty((states, 4), np.float32)
    for dim, speed in enumerate((0.00317, 0.00411)):
        phase = np.mod(at * np.float32(speed), 2)
        observations[:, dim] = np.where(phase < 1, phase, 2 - phase)
        observations[:, 2 + dim] = np.where(phase < 1, speed, -speed)
    return observations, np.zeros((states, 2), np.float32)


def benched(instances: int, workers: int, clock: Callable[[], float]) -> float:
    import vhdiffuser

    planner = vhdiffuser.load_planner("maze2d-umaze", outside="ignore")
    return best(lambda: vhdiffuser.evaluate(planner, n=instances, protocols="ss", workers=workers), clock, 1)


POINTS: dict[str, Callable[[int], float]] = {
    "length": plan_of,
    "batch": batch_of,
    "planner data": lambda states: training("planner", states),
    "length data": lambda states: training("length", states),
    "instances": lambda instances: benched(instances, 1, time.process_time),
    "workers": lambda workers: benched(200, workers, time.perf_counter),
}


def measured(kind: str, size: int) -> tuple[float, float]:
    """Seconds, and the peak memory of its process in GB."""
    command = [sys.executable, __file__, "--point", kind, str(size)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, memory


def draw(results: dict[str, list[tuple[int, float, float]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for ax, (kind, rows) in zip(axes.flat, results.items(), strict=False):
        sizes, seconds, memory = (np.array(column) for column in zip(*rows, strict=True))
        ax.loglog(sizes, seconds, "o-", label="s")
        ax.loglog(sizes, memory, "s--", label="GB")
        ax.loglog(sizes, seconds[-1] * sizes / sizes[-1], ":", color="grey", label="linear")
        ax.set_xlabel(TITLES[kind], fontsize=8)
        ax.legend(fontsize=7)
    figure.savefig(path)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--figure", type=Path, default=Path("docs/images/scaling.svg"))
    options = parser.parse_args()
    if options.point:
        seconds = POINTS[options.point[0]](int(options.point[1]))
        print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6]))
        return
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    results: dict[str, list[tuple[int, float, float]]] = {}
    for kind in options.kinds or SIZES:
        results[kind] = [(size, *measured(kind, size)) for size in SIZES[kind]]
        print(f"\n{TITLES[kind]}\n{'':>12}{'s':>10}{'GB':>8}")
        for size, seconds, memory in results[kind]:
            print(f"{size:12,}{seconds:10.3f}{memory:8.2f}")
        grown = [log(b[1] / a[1]) / log(b[0] / a[0]) for a, b in pairwise(results[kind])]
        print(f"exponent of time at the end {grown[-1]:.2f}", flush=True)
    if not options.kinds:
        draw(results, options.figure)


if __name__ == "__main__":
    main()
