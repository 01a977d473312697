"""Every figure of docs/speed.md's first table in one run: measured, target, met or missed.

    python benchmarks/speed.py                  all but the training, about five minutes on an idle machine
    python benchmarks/speed.py plans start      some of it
    python benchmarks/speed.py training         maze2d-large from nothing: data, both networks, 1,000 instances

Each group is a process of its own. Run it on an idle machine: the load is printed at the beginning of every group.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

Figure = tuple[str, float, float, str, bool]
"""What, measured, target, unit, whether less is better."""

PLANNING = ("numpy", "numpy.libs", "safetensors")
"""What planning needs besides this package."""
FASTER = ("onnxruntime", "flatbuffers", "google", "packaging")
"""ONNX Runtime and what it needs."""


def plans() -> Iterator[Figure]:
    """Single plans against Diffuser, batches, candidates."""
    from against_diffuser import batches, single_plans

    for steps in (1, 5):
        plan, whole, p50, p99 = single_plans("maze2d-large", steps, 200)
        yield f"plan of 512 states, {steps} reverse steps, one thread, p50", 1e3 * p50, 3, "ms", True
        yield f"plan of 512 states, {steps} reverse steps, one thread, p99", 1e3 * p99, 6, "ms", True
        yield f"plan of 256 states, {steps} reverse steps, against Diffuser", whole / plan, 1000, "x", False
        rate, best = batches("maze2d-large", steps)
        yield f"plans of 256 states, {steps} reverse steps, all cores", rate, 2000, "/s", False
        yield f"best of 1,000 candidates, {steps} reverse steps", best, 0.5, "s", True


def length() -> Iterator[Figure]:
    """Queries of the Length Predictor, and of the small one fitted to it."""
    from against_diffuser import length_queries

    import vhdiffuser

    for title, fast in (("length queries (200,000 different pairs)", False), ("the same, fast=True", True)):
        predictor = vhdiffuser.load_length_predictor("maze2d-large", fast=fast)
        yield title, 1e-6 * length_queries(predictor), 1, "million/s", False


def start() -> Iterator[Figure]:
    """From import to the first plan."""
    from first_plan import CASES, first_plan

    for environment, kind, target in (*CASES, ("maze2d-large", "torch", 1.5)):
        *_, total, _ = first_plan(environment, kind)
        yield f"import to first plan, {environment}, {kind}", total, target, "s", True


def replanning() -> Iterator[Figure]:
    """A plan at every control step of 10 ms."""
    from replanning import soak

    import vhdiffuser
    from vhdiffuser.envs.registry import get_environment

    environment = get_environment("maze2d-large")
    period, budget = environment.spec.control_dt, environment.step_budget
    every, _, reached, steps = soak(environment.name, vhdiffuser.replan_every(1, budget=budget), 10_000, 1)
    _, _, _, others = soak(environment.name, vhdiffuser.replan_on_deviation(budget=budget), 10_000, 1)
    yield f"deadline misses in {len(every):,} steps at 100 Hz", int((every > period).sum()), 0, "", True
    yield "largest latency", 1e3 * every.max(), 1e3 * period, "ms", True
    yield "goals reached, replanning at every step", 100 * sum(reached) / len(reached), 100, "%", False
    both = min(len(steps), len(others))
    mean, deviation = sum(steps[:both]) / both, sum(others[:both]) / both
    yield f"steps on the same {both} instances (target: on deviation)", mean, deviation, "", True


def simulation() -> Iterator[Figure]:
    """Benchmarks of 1,000 instances under both protocols, from nothing but the weights; physics of ants."""
    from simulation_speed import Options, physics

    from vhdiffuser.envs.registry import get_environment

    for name, target in (("maze2d-large", 10), ("antmaze-medium", 60)):
        yield f"1,000 instances of {name}, ss and rp", timed_benchmark(name)[0], target, "s", True
    alone, together = physics(get_environment("antmaze-medium"), Options())
    yield "ants stepped together against one by one, one thread", alone / together, 3, "x", False


def timed_benchmark(name: str, weights: str = "shipped") -> tuple[float, dict[str, int]]:
    """Seconds of `vhd bench` with 1,000 instances and both protocols, and how many of them succeed."""
    from vhdiffuser.results.rows import read_results

    with tempfile.TemporaryDirectory() as folder:
        command = ["vhd", "bench", name, "--methods", "vhd", "--weights", weights, "--seeds", "0", "--keep", "0"]
        command += [] if weights == "shipped" else ["--gamma", "1.25"]  # just trained, so not calibrated
        seconds = timed([*command, "--n", "1000", "--protocols", "ss", "rp", "--out", folder, "--quiet"])
        files = {protocol: next(Path(folder).rglob(f"vhd-{protocol}*.jsonl")) for protocol in ("ss", "rp")}
        rows = {protocol: read_results(path).rows for protocol, path in files.items()}
        return seconds, {protocol: sum(row.success for row in rows[protocol]) for protocol in rows}


def memory() -> Iterator[Figure]:
    """Training on ten million states, and what an installation for planning weighs."""
    from scaling import measured

    for task in ("planner", "length"):
        yield f"training on 10M states, {task}", measured(f"{task} data", 10_000_000)[1], 3, "GB", True
    import numpy

    import vhdiffuser

    site = Path(numpy.__file__).parents[1]
    small = [*(site / name for name in PLANNING), Path(vhdiffuser.__file__).parent]
    for what, folders in (("", small), (", with ONNX Runtime", [*small, *(site / name for name in FASTER)])):
        files = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
        yield f"installed for planning{what}", sum(path.stat().st_size for path in files) / 1e6, 150, "MB", True


def training() -> Iterator[Figure]:
    """maze2d-large from nothing, in an empty home: both networks at once, on a thread each.

    Plans are composed of pieces of 64 states, so crops of 96 suffice.
    """
    from vhdiffuser.results.summary import wilson_interval

    of_length = ["vhd", "train", "length", "maze2d-large", "--threads", "1", "--quiet"]
    of_planner = ["vhd", "train", "planner", "maze2d-large", "--threads", "1", "--quiet"]
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor() as pool:
        os.environ["VHD_HOME"] = home
        data = timed(["vhd", "data", "get", "maze2d-large", "--source", "build", "--quiet"])
        length, planner = pool.map(timed, (of_length, [*of_planner, "--longest", "96", "--updates", "5000"]))
        instances, trained = timed_benchmark("maze2d-large", "trained")
    _, shipped = timed_benchmark("maze2d-large")
    parts = {"data": data, "Length Predictor": length, "planner, beside it": planner, "1,000 instances": instances}
    for name, seconds in parts.items():
        yield f"maze2d-large from nothing: {name}", seconds / 60, 10, "min", True
    yield "maze2d-large from nothing, in all", (data + max(length, planner) + instances) / 60, 10, "min", True
    for protocol, successes in trained.items():
        least, _ = wilson_interval(shipped[protocol], 1000)
        yield (
            f"{protocol} success (target: within the shipped planner's interval)",
            successes / 10,
            100 * least,
            "%",
            False,
        )


def timed(command: list[str]) -> float:
    """Seconds of one of our commands."""
    begun = time.perf_counter()
    program = str(Path(sys.executable).with_name(command[0]))
    subprocess.run([program, *command[1:]], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "plans": plans,
    "length": length,
    "start": start,
    "replanning": replanning,
    "simulation": simulation,
    "memory": memory,
    "training": training,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)} (default: all but training)")
    parser.add_argument("--one", choices=GROUPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        for figure in GROUPS[options.one]():
            print(json.dumps(figure), flush=True)
        return
    for group in options.groups or [name for name in GROUPS if name != "training"]:
        print(f"{group} (load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores)", flush=True)
        process = subprocess.Popen([sys.executable, __file__, "--one", group], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            what, value, target, unit, less = json.loads(line)
            met = value <= target if less else value >= target
            print(f"  {what:<68}{value:10.2f} {unit:<10}{target:8.1f} {'met' if met else 'missed'}", flush=True)
        if process.wait():
            sys.exit(f"{group} failed.")


if __name__ == "__main__":
    main()
