"""How much sooner a U-Net's gradient is there with `vhdiffuser.diffusion.fast_layers` than with torch's own layers.

    python benchmarks/training_layers.py

One thread, float32, mini-batches of the recipes' sizes; processor times, medians of ten gradients in turns. Both keep
freed memory, as training does; a last column gives torch's layers without that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from unittest.mock import patch

import numpy as np
import torch

from vhdiffuser.diffusion import fast_layers
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.training.memory import keep_freed_memory

CASES = {
    "recipe paper, 32 crops of 128 states": ((1, 4, 8), 32, 128),
    "recipe default, 128 crops of 24 knots": ((1, 2, 4), 128, 24),
}


def seconds(mults: tuple[int, ...], batch: int, length: int, fast: bool, repeats: int) -> list[float]:
    """Processor times of gradients."""
    torch.manual_seed(0)
    network = TemporalUnet(4, 32, mults)
    x, diffusion_time = torch.randn(batch, length, 4), torch.arange(batch)
    times = []
    with patch.object(fast_layers, "_trains_on_cpu", fast_layers._trains_on_cpu if fast else lambda x: False):
        for _ in range(1 + repeats):
            begun = time.process_time()
            network(x, diffusion_time).square().mean().backward()
            times.append(time.process_time() - begun)
    return times[1:]


def main() -> None:
    """Measure and print; with the name of a case, only torch's layers, returning memory at once."""
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        print(np.median(seconds(*CASES[sys.argv[1]], False, 10)))
        return
    keep_freed_memory()
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; a gradient in ms")
    print(f"{'':40}{'fast':>8}{'torch':>8}{'ratio':>8}{'torch, memory returned':>26}")
    for name, (mults, batch, length) in CASES.items():
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(5):
            for fast, own in times.items():
                own += seconds(mults, batch, length, fast, 2)
        fast_one, plain = (1e3 * float(np.median(times[fast])) for fast in (True, False))
        returned = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        print(f"{name:40}{fast_one:8.0f}{plain:8.0f}{plain / fast_one:8.2f}{1e3 * float(returned.stdout):26.0f}")


if __name__ == "__main__":
    main()
