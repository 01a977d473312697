"""Which engine computes the U-Net fastest on one thread of a CPU: a forward pass in ms, by batch and knots.

    python benchmarks/engines.py

Columns: torch; ONNX Runtime with our graph (every convolution one matrix product over the whole batch), and with the
unrolled graph, where it is used; numpy with the faster of the two graphs, as where ONNX Runtime is not installed. The
planner takes the unrolled graph where there is one (`vhdiffuser.runtime.unrolled.UnetNetwork`). Times are processor
times, medians of 20 calls in turns.
"""

from __future__ import annotations

import os
import time

import numpy as np
import torch

import vhdiffuser
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.runtime.network import Network, OnnxNetwork
from vhdiffuser.runtime.numpy_session import NumpySession
from vhdiffuser.runtime.unet import unet_model
from vhdiffuser.runtime.unrolled import SHORT, UnrolledNetwork
from vhdiffuser.torch_network import TorchNetwork, state_dict
from vhdiffuser.types import FloatArray

SIZES = ((1, 8), (15, 8), (64, 8), (200, 8), (1, 12), (1, 36), (8, 20), (64, 20), (200, 20))
NAMES = ("torch", "graph", "unrolled", "numpy")


def engines(tensors: dict[str, FloatArray], knots: int) -> dict[str, Network]:
    """Engines for so many knots, by name."""
    module = TemporalUnet(4)
    module.load_state_dict(state_dict(tensors))
    made: dict[str, Network] = {"torch": TorchNetwork(module), "graph": OnnxNetwork(unet_model(tensors))}
    if knots in SHORT:
        made["unrolled"] = UnrolledNetwork(tensors, knots)
    in_numpy = UnrolledNetwork(tensors, knots) if knots in SHORT else OnnxNetwork(unet_model(tensors))
    vars(in_numpy)["_session"] = NumpySession(in_numpy.model)
    return made | {"numpy": in_numpy}


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    tensors = vhdiffuser.load_planner("maze2d-large").network.tensors
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores, one thread; forward pass in ms")
    print(f"{'batch x knots':>14}" + "".join(f"{name:>10}" for name in NAMES) + f"{'difference':>12}")
    for batch, knots in SIZES:
        tau = np.random.default_rng(0).normal(size=(batch, knots, 4)).astype(np.float32)
        own = engines(tensors, knots)
        times: dict[str, list[float]] = {name: [] for name in own}
        for _ in range(20):  # in turns, so that a slower moment slows all
            for name, engine in own.items():
                engine(tau, 100)
                begun = time.process_time()
                engine(tau, 100)
                times[name].append(1e3 * (time.process_time() - begun))
        columns = [f"{np.median(times[name]):10.2f}" if name in own else f"{'':10}" for name in NAMES]
        outputs = [engine(tau, 100) for engine in own.values()]
        difference = max(float(np.abs(output - outputs[0]).max()) for output in outputs)
        print(f"{batch:>8} x {knots:<4}" + "".join(columns) + f"{difference:12.1e}")


if __name__ == "__main__":
    main()
