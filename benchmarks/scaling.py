"""How time and memory grow: with plan length, batch, states in the data, instances and workers.

    python benchmarks/scaling.py                          everything
    python benchmarks/scaling.py length batch             some of it

Figures go to results/scaling.json, the plot of all that is there to docs/images/scaling.png.

Every point is a process of its own, so that its peak memory is its own. Times are processor times (best of three),
which other work on the machine lengthens less than wall times; that of workers is elapsed time. The exponent
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
    "workers": [1, 2, 4],
}
TITLES = {
    "length": "states of a plan",
    "batch": "plans of 256 states in a batch",
    "planner data": "states in the data: planner, set-up and 3 updates",
    "length data": "states in the data: Length Predictor, set-up and 3 updates",
    "instances": "instances of maze2d-umaze, single-shot",
    "workers": "workers, 60 instances of antmaze-medium, single-shot",
}
PANELS = {
    "plan length (states)": {"length": "one plan"},
    "batch (plans of 256 states)": {"batch": "one batch"},
    "data (states), training set-up": {"planner data": "planner", "length data": "Length Predictor"},
    "instances, maze2d-umaze": {"instances": "benchmark"},
    "workers, 60 ants": {"workers": "benchmark, elapsed"},
}
"""Labels of the figure's columns, and of the lines in them."""


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


def benched(environment: str, instances: int, workers: int, clock: Callable[[], float]) -> float:
    import vhdiffuser

    planner = vhdiffuser.load_planner(environment, outside="ignore")
    return best(lambda: vhdiffuser.evaluate(planner, n=instances, protocols="ss", workers=workers), clock, 1)


POINTS: dict[str, Callable[[int], float]] = {
    "length": plan_of,
    "batch": batch_of,
    "planner data": lambda states: training("planner", states),
    "length data": lambda states: training("length", states),
    "instances": lambda instances: benched("maze2d-umaze", instances, 1, time.process_time),
    "workers": lambda workers: benched("antmaze-medium", 60, workers, time.perf_counter),
}


def measured(kind: str, size: int) -> tuple[float, float]:
    """Seconds, and the peak memory of its process in GB."""
    command = [sys.executable, __file__, "--point", kind, str(size)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return seconds, memory


def draw(results: dict[str, Any], path: Path) -> None:
    """Time in the upper row, memory in the lower one, against each size."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(2, len(PANELS), figsize=(14, 5.4), sharex="col", layout="constrained")
    for column, (label, lines) in enumerate(PANELS.items()):
        upper, lower = axes[:, column]
        for kind, name in lines.items():
            sizes, seconds, memory = (np.array(values) for values in zip(*results[kind]["rows"], strict=True))
            (line,) = upper.loglog(sizes, seconds, "o-", label=name)
            falls = kind == "workers"
            ideal = seconds[0] * sizes[0] / sizes if falls else seconds[-1] * sizes / sizes[-1]
            upper.loglog(sizes, ideal, ":", color=line.get_color(), label="1 / workers" if falls else "linear")
            lower.plot(sizes, memory, "o-", label=name)
            upper.set_title(f"load {results[kind]['load']:.1f}", fontsize=8)
        lower.set_xscale("log")
        lower.set_xticks(sizes, [f"{size / 1e6:g}M" if size >= 1e5 else f"{size:,}" for size in sizes], fontsize=7)
        lower.set_xlabel(label)
        lower.set_ylim(0, 1.2 * lower.dataLim.ymax)
        upper.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        upper.yaxis.set_major_formatter("{x:g}")
        for axis in (upper, lower):
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.legend(fontsize=7)
    axes[0, 0].set_ylabel("processor time (s)")
    axes[0, -1].set_ylabel("elapsed time (s)")
    axes[1, 0].set_ylabel("peak memory (GB)")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=Path("results/scaling.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/images/scaling.png"))
    options = parser.parse_args()
    if options.point:
        seconds = POINTS[options.point[0]](int(options.point[1]))
        peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(json.dumps([seconds, max(peaks) / 1e6]))
        return
    results = json.loads(options.results.read_text()) if options.results.is_file() else {}
    for kind in options.kinds or SIZES:
        load = os.getloadavg()[0]
        rows = [(size, *measured(kind, size)) for size in SIZES[kind]]
        print(f"\n{TITLES[kind]} (load {load:.1f} on {os.cpu_count()} cores)\n{'':>12}{'s':>10}{'GB':>8}")
        for size, seconds, memory in rows:
            print(f"{size:12,}{seconds:10.3f}{memory:8.2f}")
        grown = [log(b[1] / a[1]) / log(b[0] / a[0]) for a, b in pairwise(rows)]
        print(f"exponent of time at the end {grown[-1]:.2f}", flush=True)
        results[kind] = {"load": load, "rows": rows}
        options.results.write_text(json.dumps(results, indent=1) + "\n")
    if set(SIZES) <= set(results):
        draw(results, options.figure)


if __name__ == "__main__":
    main()
