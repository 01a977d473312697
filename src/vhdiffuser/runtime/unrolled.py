"""The U-Net unrolled for a small fixed number of knots: each convolution over time becomes one dense matrix.

With 8 knots (then 4, then 2) most of a kernel of five lies beyond the ends. A dense matrix over all knots
then has fewer multiplications than the convolution and needs no gathering: a batch of short windows takes two thirds of
the time of the general graph (`vhdiffuser.runtime.unet`), with the same output. Everything that depends only on the
diffusion time is computed once per level, as biases.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from vhdiffuser.runtime.network import OnnxNetwork
from vhdiffuser.runtime.unet import GROUPS, Tensors, Unet, time_frequencies, unet_model
from vhdiffuser.types import FloatArray, IntArray

SHORT = (4, 8)
"""Numbers of knots for which the unrolled network is faster."""


class UnetNetwork(OnnxNetwork):
    """The U-Net for any number of knots; unrolled networks for few knots are built on first use."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__(partial(unet_model, tensors), tensors)
        self._multiple = 2 ** max(int(key.split(".")[1]) for key in tensors if key.startswith("downs."))
        self._unrolled: dict[int, UnrolledNetwork] = {}

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """tau (B, K, d) and the level -> (B, K, d)."""
        (knots,) = (item.shape[1] for item in inputs if not isinstance(item, int))
        if knots not in SHORT or knots % self._multiple:
            return super().__call__(*inputs)
        return self._for(knots)(*inputs)

    def warm_up(self) -> None:
        """Build the graphs for all numbers of knots now rather than on first use."""
        width = self.tensors["final_conv.1.bias"].size
        for knots in (*SHORT, 2 * max(SHORT)):
            if knots % self._multiple == 0:
                self(np.zeros((1, knots, width), np.float32), 0)

    def _for(self, knots: int) -> UnrolledNetwork:
        with self._lock:
            if knots not in self._unrolled:
                self._unrolled[knots] = UnrolledNetwork(self.tensors, knots)
        return self._unrolled[knots]

    def __reduce__(self) -> tuple[type[UnetNetwork], tuple[dict[str, FloatArray]]]:  # type: ignore[override]
        return UnetNetwork, (self.tensors,)


class UnrolledNetwork(OnnxNetwork):
    """The U-Net for a fixed number of knots, divisible by two as often as the network halves it."""

    def __init__(self, tensors: Tensors, knots: int) -> None:
        graph = _Unrolled(tensors, knots)
        super().__init__(graph.model(""), tensors)
        self._shares, self._knots = graph.shares, knots
        self._biases: dict[int, dict[str, FloatArray]] = {}

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """tau (B, knots, d) and the level -> (B, knots, d)."""
        tau, level = inputs
        assert isinstance(level, int)
        if level not in self._biases:
            self._biases[level] = self._biases_at(level)
        return self._session.run(None, {"tau": tau, **self._biases[level]})[0]

    def _biases_at(self, level: int) -> dict[str, FloatArray]:
        """Bias of each residual block's second layer, including the contribution of the diffusion time."""
        tensors = self.tensors
        angles = np.float32(level) * time_frequencies(tensors)
        t = np.concatenate([np.sin(angles), np.cos(angles)])
        for name in ("time_mlp.1", "time_mlp.3"):
            t = tensors[f"{name}.weight"] @ t + tensors[f"{name}.bias"]
            t = t * np.tanh(np.logaddexp(np.float32(0), t))
        biases = {}
        for name, (share, bias) in self._shares.items():
            time = tensors[f"{name}.time_mlp.1.weight"] @ t + tensors[f"{name}.time_mlp.1.bias"]  # (C,)
            biases[name] = (bias + time @ share)[None]
        return biases

    def __reduce__(self) -> tuple[type[UnrolledNetwork], tuple[dict[str, FloatArray], int]]:  # type: ignore[override]
        return UnrolledNetwork, (self.tensors, self._knots)


class _Unrolled(Unet):
    """Activations are (B, knots * channels), ordered by (group, knot, channel), so that each group is contiguous."""

    def __init__(self, tensors: Tensors, knots: int) -> None:
        super().__init__(tensors)
        self.count = knots
        self.order: dict[str, IntArray] = {}  # for each activation, the index knot * channels + channel of each entry
        self.shares: dict[str, tuple[FloatArray, FloatArray]] = {}
        """For each residual block: (C, n) map from what is added to all knots to its second layer's outputs, and their
        bias."""

    def begin(self) -> str:
        graph, size = self.graph, self.count * self.width
        tau = graph.input("tau", ["B", self.count, self.width])
        return self._known(graph.add("Reshape", tau, graph.constant(np.array([0, size]))), np.arange(size))

    def end(self, x: str) -> str:
        back = np.argsort(self.order[x])
        flat = self.graph.add("Gather", x, self.graph.constant(back), axis=1)
        return self.graph.add("Reshape", flat, self.graph.constant(np.array([0, self.count, self.width])))

    def sum(self, x: str, y: str) -> str:
        return self._known(super().sum(x, y), self.order[x])

    def time_biases(self) -> None:
        """Inputs of the graph, created with their blocks."""

    def timed_block(self, x: str, name: str, place: int) -> str:
        weight, bias = self._layer(f"{name}.blocks.1.block.0")
        n, C = self._knots(place), len(bias)
        order = _grouped(n, C)
        share = self._matrix(weight, n, reach=2).sum(axis=0).reshape(C, n * C)[:, order]
        self.shares[name] = share, np.tile(bias, n)[order]
        return self.block(x, f"{name}.blocks.1", place, self.graph.input(name, [1, n * C]))

    def block(self, x: str, name: str, place: int, bias: str | None = None) -> str:
        weight, own = self._layer(f"{name}.block.0")
        y = self._product(x, self._matrix(weight, self._knots(place), reach=2), own, bias)
        y = self.mish(self.group_norm(y, f"{name}.block.2", place))
        return self._known(y, _grouped(self._knots(place), len(self.tensors[f"{name}.block.0.bias"])))

    def alone(self, x: str, name: str, place: int) -> str:
        return self._dense(x, *self._layer(name), self._knots(place), reach=0)

    def halved(self, x: str, name: str, place: int) -> str:
        return self._dense(x, *self._layer(name), self._knots(place), reach=1, stride=2)

    def doubled(self, x: str, name: str, place: int) -> str:
        weight, bias = self._layer(name)  # (I, O, 4), (O,)
        n, (I, O, kernel) = self._knots(place), weight.shape  # noqa: E741
        dense = np.zeros((n, I, 2 * n, O), np.float32)
        for knot in range(n):
            for tap in range(kernel):
                if 0 <= (to := 2 * knot + tap - 1) < 2 * n:
                    dense[knot, :, to] = weight[:, :, tap]
        return self._product(x, dense, bias)

    def joined(self, x: str, skip: str, place: int) -> str:
        channels = len(self.order[x]) // self._knots(place)
        index = [
            order // channels * 2 * channels + order % channels + first
            for order, first in ((self.order[x], 0), (self.order[skip], channels))
        ]
        return self._known(self.graph.add("Concat", x, skip, axis=1), np.concatenate(index))

    def group_norm(self, x: str, name: str, place: int) -> str:
        graph, (gain, shift) = self.graph, self._layer(name)
        order = _grouped(self._knots(place), len(gain)) % len(gain)
        size = len(order) // GROUPS
        y = graph.add("Reshape", x, graph.constant(np.array([0, GROUPS, size])))
        ones, none = graph.constant(np.ones(size, np.float32)), graph.constant(np.zeros(size, np.float32))
        y = graph.add("LayerNormalization", y, ones, none, axis=-1, epsilon=1e-5)
        y = graph.add("Reshape", y, graph.constant(np.array([0, len(order)])))
        return graph.add("Add", graph.add("Mul", y, graph.constant(gain[order])), graph.constant(shift[order]))

    def _knots(self, place: int) -> int:
        return self.count >> place

    def _dense(self, x: str, weight: FloatArray, bias: FloatArray, n: int, reach: int, stride: int = 1) -> str:
        return self._product(x, self._matrix(weight, n, reach, stride), bias)

    @staticmethod
    def _matrix(weight: FloatArray, n: int, reach: int, stride: int = 1) -> FloatArray:
        """A convolution with weight (O, I, kernel) as a matrix (n, I, n / stride, O) between all knots."""
        O, I, kernel = weight.shape  # noqa: E741
        dense = np.zeros((n, I, n // stride, O), np.float32)
        for to in range(n // stride):
            for tap in range(kernel):
                if 0 <= (knot := to * stride + tap - reach) < n:
                    dense[knot, :, to] = weight[:, :, tap].T
        return dense

    def _product(self, x: str, dense: FloatArray, bias: FloatArray, given: str | None = None) -> str:
        """x times dense (n, I, m, O), each in its activation's order, plus a bias (O,) or a given one."""
        n, I, m, O = dense.shape  # noqa: E741
        order = _grouped(m, O) if O % GROUPS == 0 else np.arange(m * O)
        matrix = dense.reshape(n * I, m * O)[np.ix_(self.order[x], order)]
        added = given or self.graph.constant(np.tile(bias, m)[order])
        return self._known(self.graph.add("Gemm", x, self.graph.constant(matrix), added), order)

    def _known(self, x: str, order: IntArray) -> str:
        self.order[x] = order
        return x


def _grouped(knots: int, channels: int) -> IntArray:
    """Index knot * channels + channel in the order (group, knot, channel)."""
    return np.arange(knots * channels).reshape(knots, GROUPS, -1).transpose(1, 0, 2).ravel()
