"""Which engine computes the U-Net fastest on one thread of a CPU: a forward pass in ms, by batch and knots.

    python benchmarks/engines.py

Columns: torch; ONNX Runtime with our graph (every convolution one matrix product over the whole batch); with the
unrolled graph, where it is used. The planner takes the last of these (`vhdiffuser.runtime.unrolled.UnetNetwork`).
"""

from __future__ import annotations

import os
import time

import numpy as np
import torch

import vhdiffuser
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.runtime.network import OnnxNetwork
from vhdiffuser.runtime.unet import unet_model
from vhdiffuser.runtime.unrolled import SHORT, UnrolledNetwork
from vhdiffuser.torch_network import TorchNetwork, state_dict

SIZES = ((1, 8), (15, 8), (64, 8), (200, 8), (1, 12), (1, 36), (8, 20), (64, 20), (200, 20))


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    tensors = vhdiffuser.load_planner("maze2d-large").network.tensors
    module = TemporalUnet(4)
    module.load_state_dict(state_dict(tensors))
    engines = {"torch": TorchNetwork(module), "graph": OnnxNetwork(unet_model(tensors))}
    unrolled = {knots: UnrolledNetwork(tensors, knots) for knots in SHORT}
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, one thread; forward pass in ms")
    print(f"{'batch x knots':>14}{'torch':>9}{'graph':>9}{'unrolled':>10}{'ratio':>8}{'difference':>12}")
    for batch, knots in SIZES:
        tau = np.random.default_rng(0).normal(size=(batch, knots, 4)).astype(np.float32)
        own = {**engines, **({"unrolled": unrolled[knots]} if knots in unrolled else {})}
        times: dict[str, list[float]] = {name: [] for name in own}
        for _ in range(20):  # in turns, so that a slower moment slows all
            for name, engine in own.items():
                engine(tau, 100)
                begun = time.perf_counter()
                engine(tau, 100)
                times[name].append(1e3 * (time.perf_counter() - begun))
        ms = {name: float(np.median(values)) for name, values in times.items()}
        outputs = [engine(tau, 100) for engine in own.values()]
        difference = max(float(np.abs(output - outputs[0]).max()) for output in outputs)
        last = f"{ms['unrolled']:10.2f}" if "unrolled" in ms else f"{'':10}"
        ratio = ms["torch"] / min(ms.values())
        print(f"{batch:>8} x {knots:<3}{ms['torch']:9.2f}{ms['graph']:9.2f}{last}{ratio:8.1f}{difference:12.1e}")


if __name__ == "__main__":
    main()
