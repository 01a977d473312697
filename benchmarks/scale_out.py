"""Efficiency of two workers against one on this machine, and what a task costs besides its work. Prints JSON.

    python benchmarks/scale_out.py data       building data in 1 and 2 processes
    python benchmarks/scale_out.py ray-1      a benchmark's shards on Ray with 1 core; empty tasks (ray-2: with 2)
    python benchmarks/scale_out.py local      the same shards without Ray; a process for each task
    python benchmarks/scale_out.py train      2 mini-batches per update in 1 and 2 processes
    python benchmarks/scale_out.py together   a training on 1 and 2 threads, and two trainings at a time on 1 each

Two cores are needed, and nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.benchmark.run import Cluster, run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.cluster import LocalPool, run_on_ray
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.data.build import BuildConfig, build
from vhdiffuser.data.store import save_dataset
from vhdiffuser.envs.registry import get_environment

ENV = "maze2d-umaze"


def seconds_of(call: Any) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def compared(one: float, two: float) -> dict[str, float]:
    return {"1 worker, s": round(one, 2), "2 workers, s": round(two, 2), "efficiency": round(one / two / 2, 2)}


def nothing() -> None:
    pass


def controller() -> Controller:
    return default_controller(get_environment(ENV).spec)


def measure_data() -> dict[str, Any]:
    environment = get_environment(ENV)
    taken = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as home:
            os.environ["VHD_HOME"] = home
            config = BuildConfig(1_200_000, workers=workers)
            taken.append(
                seconds_of(lambda config=config: build(environment.spec, environment.builder, config, print_no))
            )
    return {"1,200,000 transitions of umaze": compared(*taken)}


def print_no(done: int, total: int) -> None:
    """No progress."""


def measure_ray(cpus: int) -> dict[str, Any]:
    """Shards of a benchmark, once the workers have started and loaded the weights; empty tasks."""
    import ray

    ray.init(address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    config = BenchConfig(get_environment(ENV), ("vhd",), ("ss",), n=800, keep=0, shard=50)
    there = Cluster("auto", load_method, controller)
    with tempfile.TemporaryDirectory() as folder:
        taken = []
        for name in ("cold", "warm"):
            begun = time.perf_counter()
            run_benchmark(config, Path(folder) / name, load_method, controller(), cluster=there)
            taken.append(time.perf_counter() - begun)
    empty = seconds_of(lambda: list(run_on_ray(nothing, [()] * 300, "auto"))) / 300
    return {
        f"800 instances of umaze in shards of 50, Ray with {cpus} core(s), s": round(taken[1], 2),
        "the same at first, with workers to start, s": round(taken[0], 2),
        "an empty task, ms": round(1000 * empty, 2),
    }


def measure_local() -> dict[str, Any]:
    """The same without Ray, and a process for each task."""
    config = BenchConfig(get_environment(ENV), ("vhd",), ("ss",), n=800, keep=0, shard=50, workers=1)
    with tempfile.TemporaryDirectory() as folder:
        local = seconds_of(lambda: run_benchmark(config, Path(folder), load_method, controller()))
    pool = LocalPool(1)
    started = seconds_of(lambda: [pool.result(pool.wait([pool.submit(nothing, ())])[0]) for _ in range(3)]) / 3
    return {
        "800 instances of umaze in shards of 50, 1 worker, s": round(local, 2),
        "an empty task in a process of its own, s": round(started, 2),
    }


def home_with_data(folder: str) -> None:
    """Make the folder a VHD_HOME with a small dataset."""
    os.environ["VHD_HOME"] = folder
    environment = get_environment(ENV)
    save_dataset(build(environment.spec, environment.builder, BuildConfig(50_000), print_no))


def training(name: str, options: list[str], launch: list[str] | None = None) -> subprocess.Popen[bytes]:
    """Start a short training of a planner, which says on stderr if it fails."""
    vhd = str(Path(sys.executable).with_name("vhd"))
    shared = ["--updates", "60", "--batch-size", "128", "--quiet", "--json", "--device", "cpu", "--log-every", "10"]
    command = [*(launch or []), vhd, "train", "planner", ENV, "--name", name, *shared, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def updates_per_second(home: str, name: str) -> float:
    """Rate of a finished training, without its start."""
    lines = (Path(home) / "runs" / ENV / name / "log.jsonl").read_text().splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[-1])
    return (last["update"] - first["update"]) / (last["seconds"] - first["seconds"])


def measure_train() -> dict[str, Any]:
    """Updates of a planner with an effective batch of 256: in one process, and shared by two."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with tempfile.TemporaryDirectory() as home:
        home_with_data(home)
        rates = []
        for count, start in ((1, []), (2, launch)):
            options = ["--threads", "1", "--accumulate", str(2 // count)]
            training(f"on-{count}", options, start).wait()
            rates.append(updates_per_second(home, f"on-{count}"))
    return {
        "updates of 2 x 128 crops per second, 1 process": round(rates[0], 2),
        "2 processes": round(rates[1], 2),
        "efficiency": round(rates[1] / rates[0] / 2, 2),
    }


def measure_together() -> dict[str, Any]:
    """Updates of 128 crops per second: one training on one and on two threads, and two trainings at a time."""
    with tempfile.TemporaryDirectory() as home:
        home_with_data(home)
        alone = []
        for threads in (1, 2):
            training(f"threads-{threads}", ["--threads", str(threads)]).wait()
            alone.append(updates_per_second(home, f"threads-{threads}"))
        names = ["first", "second"]
        for process in [training(name, ["--threads", "1"]) for name in names]:
            process.wait()
        both = sum(updates_per_second(home, name) for name in names)
    rates = {"1 training on 1 thread": alone[0], "1 on 2 threads": alone[1], "2 on 1 thread each, sum": both}
    return {f"updates of 128 crops per second, {title}": round(rate, 2) for title, rate in rates.items()}


def main() -> None:
    measures = {
        "data": measure_data,
        "ray-1": lambda: measure_ray(1),
        "ray-2": lambda: measure_ray(2),
        "local": measure_local,
        "train": measure_train,
        "together": measure_together,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=measures)
    print(json.dumps(measures[parser.parse_args().what](), indent=2))


if __name__ == "__main__":
    main()
