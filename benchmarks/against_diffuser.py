"""One plan against Diffuser's own sampling, batches, and the Length Predictor: ratios measured in one run.

    python benchmarks/against_diffuser.py                the targets of docs/speed.md
    python benchmarks/against_diffuser.py --steps 2      with 2 reverse steps instead of the planner's

Diffuser's plan of 256 states is 256 forward passes (DDPM, its maze2d setting) of its network at that length: our equal
copy of it in torch, width 32 with multiples 1, 4, 8 and knots of 6 numbers. One thread for both, and both are timed in
turns, so that a slower moment of the machine slows both.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
import torch

import vhdiffuser
from vhdiffuser.diffusion.unet import TemporalUnet

START, GOAL = [1.0, 1.0, 0.0, 0.0], [7.0, 9.0]


def seconds(call: Callable[[], object], repeats: int) -> np.ndarray:
    """Times of single calls, after a warm-up."""
    call()
    times = np.empty(repeats)
    for number in range(repeats):
        begun = time.perf_counter()
        call()
        times[number] = time.perf_counter() - begun
    return times


def single_plans(env: str, steps: int, repeats: int) -> tuple[float, float, float, float]:
    """Seconds on one thread: a plan of 256 states (p50), Diffuser's of the same length, and one of 512 (p50, p99)."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    diffuser = TemporalUnet(6, 32, (1, 4, 8)).eval()
    x, i = torch.randn(1, 256, 6), torch.tensor([100])

    def forward() -> None:
        with torch.inference_mode():
            diffuser(x, i)

    planner = vhdiffuser.load_planner(env, steps=steps, outside="ignore")
    ours, theirs = [], []
    for _ in range(10):
        ours.append(seconds(lambda: planner.plan(START, GOAL, 256), repeats // 10))
        theirs.append(seconds(forward, 4))
    long = seconds(lambda: planner.plan(START, GOAL, 512), repeats)
    whole = 256 * float(np.median(np.concatenate(theirs)))
    return float(np.median(np.concatenate(ours))), whole, *(float(np.quantile(long, share)) for share in (0.5, 0.99))


def batches(env: str, steps: int) -> tuple[float, float]:
    """Plans of 256 states a second, and seconds for the best of 1,000 candidates, with as many threads as cores."""
    use_all_cores()
    planner = vhdiffuser.load_planner(env, steps=steps, outside="ignore")
    starts, goals = np.tile(START, (1000, 1)), np.tile(GOAL, (1000, 1))
    many = float(np.median(seconds(lambda: planner.plan_batch(starts, goals, 256), 3)))
    several = planner.with_options(candidates=1000)
    return 1000 / many, float(np.median(seconds(lambda: several.plan(START, GOAL, 256), 3)))


def length_queries(predictor: vhdiffuser.LengthPredictor) -> float:
    """Queries a second with as many threads as cores: 200,000 different pairs of a random state and a random place."""
    use_all_cores()
    low, high = predictor.normalizer.low, predictor.normalizer.high
    pairs = np.random.default_rng(0).uniform(low, high, (2, 200_000, len(low))).astype(np.float32)
    starts, goals = pairs[0], predictor.spec.goal_of(pairs[1])
    return len(starts) / float(np.median(seconds(lambda: predictor.predict_steps(starts, goals), 3)))


def use_all_cores() -> None:
    """As many threads as cores from here on."""
    os.environ["OMP_NUM_THREADS"] = str(os.cpu_count())
    torch.set_num_threads(os.cpu_count() or 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="maze2d-large", help="environment with shipped weights")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 5], help="reverse steps of our plans")
    parser.add_argument("--repeats", type=int, default=200, help="plans per setting")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, one thread")
    print(f"{'reverse steps':>14}{'L = 256 p50':>14}{'Diffuser':>12}{'ratio':>9}{'L = 512 p50':>14}{'p99':>10}")
    for steps in options.steps:
        plan, whole, p50, p99 = single_plans(options.env, steps, options.repeats)
        print(
            f"{steps:14}{1e3 * plan:11.2f} ms{whole:10.2f} s{whole / plan:8.0f}x{1e3 * p50:11.2f} ms{1e3 * p99:7.2f} ms"
        )
    for steps in options.steps:
        rate, best = batches(options.env, steps)
        print(f"{steps} reverse steps: {rate:.0f} plans of 256 states a second; best of 1,000 in {best:.2f} s")
    queries = length_queries(vhdiffuser.load_planner(options.env, outside="ignore").length_predictor)
    print(f"Length Predictor: {1e-6 * queries:.2f} million queries a second")


if __name__ == "__main__":
    main()
