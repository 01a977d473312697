"""Speed and memory of the planner, as ratios measured in one run.

    python benchmarks/planner_speed.py

Weights are random: speed does not depend on them. `plain` is the same network and batch in fp32, eager,
with an unfused AdamW; `tuned` is what the training loop does on this machine with `--optimizer adamw` (Muon adds a
tenth).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.planner.planner import Planner
from vhdiffuser.training.precision import pick_precision

SPEC = get_spec("maze2d-large")
NORMALIZER = Normalizer(np.array([0.4, 0.44, -5.2, -5.2], np.float32), np.array([7.2, 10.2, 5.2, 5.2], np.float32))


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of one call, after a warm-up."""
    for _ in range(2):
        call()
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def update_ratio(length: int, batch: int) -> None:
    """updates/s of the tuned path over plain fp32 eager."""
    results = {}
    for name in ("plain", "tuned"):
        torch.manual_seed(0)
        network = TemporalUnet(4, 32, (1, 4, 8))
        tuned = name == "tuned"
        model: torch.nn.Module = network
        bf16 = tuned and pick_precision("auto", torch.device("cpu")) == "bf16"
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=tuned, foreach=False if not tuned else None)
        x, i = torch.randn(batch, length, 4), torch.randint(256, (batch,))

        def update(model=model, optimizer=optimizer, bf16=bf16, x=x, i=i) -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = (model(x, i) - x).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        results[name] = 1 / seconds(update, 8)
    print(
        f"update, L = {length}, batch {batch}: plain {results['plain']:.2f}/s, tuned {results['tuned']:.2f}/s, "
        f"ratio {results['tuned'] / results['plain']:.2f}"
    )


def make_planner() -> Planner:
    torch.manual_seed(0)
    config = PlannerConfig()
    return Planner(TemporalUnet(4, config.dim, config.dim_mults), config, SPEC, NORMALIZER, outside="ignore")


def pairs(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    starts = rng.uniform(NORMALIZER.low, NORMALIZER.high, (n, 4)).astype(np.float32)
    goals = rng.uniform(NORMALIZER.low[:2], NORMALIZER.high[:2], (n, 2)).astype(np.float32)
    return starts, goals, rng.integers(SPEC.L_min, SPEC.T_max + 1, n)


def batch_ratio() -> None:
    planner = make_planner()
    starts, goals, lengths = pairs(256)
    together = seconds(lambda: planner.plan_batch(starts, goals, lengths), 3)
    alone = seconds(lambda: [planner.plan(*pair) for pair in zip(starts, goals, lengths, strict=True)], 1)
    print(
        f"256 plans of mixed length: batched {256 / together:.0f}/s, one by one {256 / alone:.0f}/s, "
        f"ratio {alone / together:.2f}"
    )


def sampler_ratio() -> None:
    planner = make_planner()
    starts, goals, _ = pairs(1)
    few = seconds(lambda: planner.plan(starts[0], goals[0], 256), 5)
    whole = planner.with_options(steps=256, sampler="ddpm")
    many = seconds(lambda: whole.plan(starts[0], goals[0], 256), 2)
    print(
        f"one plan, L = 256: {planner.options.sampler}-{planner.options.steps} {1000 * few:.0f} ms, "
        f"ddpm-256 {1000 * many:.0f} ms, ratio {many / few:.1f}"
    )


def planning_memory() -> None:
    planner = make_planner()
    planner.plan_batch(*pairs(1000))
    print(f"peak memory, planning 1000 pairs: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def training_memory() -> None:
    from vhdiffuser.diffusion.task import PlannerTask
    from vhdiffuser.types import Episodes

    rows = 4_000_000
    states = np.random.default_rng(0).uniform(0, 1, (rows, 4)).astype(np.float32)
    episodes = Episodes(states, np.zeros((rows, 2), np.float32), np.arange(50_000, rows + 1, 50_000))
    task = PlannerTask(episodes, SPEC, PlannerConfig(), Normalizer.fit(states), "")
    network = task.make_network()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    generator = torch.Generator()
    for update in range(5):
        loss, _ = task.loss(network, network, generator.manual_seed(update), update)
        loss.backward()
        optimizer.step()
    print(f"peak memory, training on 4M transitions: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        globals()[sys.argv[1]]()
    else:
        for length in (128, 384):
            update_ratio(length, 32)
        batch_ratio()
        sampler_ratio()
        for name in ("planning_memory", "training_memory"):  # each in a process of its own: peaks do not go down
            subprocess.run([sys.executable, __file__, name], check=True)
