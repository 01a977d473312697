"""Diffuser's temporal U-Net (`vhdiffuser.diffusion.unet`) as an ONNX graph, from the same tensors.

Each convolution is one matrix product over all knots of all trajectories: rows are knots, columns are the channels of
the neighbours covered by the kernel. ONNX Runtime's own 1-D convolution handles one trajectory at a time, which leaves
most of a core idle with a dozen knots each; this graph takes a third to a tenth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from vhdiffuser.runtime.onnx_file import Graph
from vhdiffuser.types import FloatArray

GROUPS = 8
_EPS = 1e-5
"""Epsilon of GroupNorm, as in torch."""

Tensors = Mapping[str, FloatArray]
"""A network's tensors by name, float32."""


def unet_model(tensors: Tensors, about: str = "") -> bytes:
    """Build the ONNX model: `tau` (B, K, d) and diffusion time `level` (1,) -> `predicted` (B, K, d), for any B and
    K."""
    return Unet(tensors).model(about)


class Unet:
    """The graph under construction. Activations are (B, knots, channels)."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors, self.graph = tensors, Graph()
        self.depth = 1 + max(int(key.split(".")[1]) for key in tensors if key.startswith("downs."))
        self.width = tensors["final_conv.1.weight"].shape[0]

    def model(self, about: str) -> bytes:
        """The whole network, level by level."""
        depth = self.depth
        x = self.begin()
        self.time_biases()
        skips = []
        for place in range(depth):
            x = self.residual(x, f"downs.{place}.0", place)
            x = self.residual(x, f"downs.{place}.1", place)
            skips.append(x)
            if place < depth - 1:
                x = self.halved(x, f"downs.{place}.2.conv", place)
        x = self.residual(x, "mid_block1", depth - 1)
        x = self.residual(x, "mid_block2", depth - 1)
        for number, place in enumerate(range(depth - 1, 0, -1)):
            x = self.joined(x, skips.pop(), place)
            x = self.residual(x, f"ups.{number}.0", place)
            x = self.residual(x, f"ups.{number}.1", place)
            x = self.doubled(x, f"ups.{number}.2.conv", place)
        x = self.block(x, "final_conv.0", 0)
        x = self.alone(x, "final_conv.1", 0)
        return self.graph.model(self.end(x), "predicted", ["B", "K", self.width], about)

    def begin(self) -> str:
        """tau, padded with its last knot to a length divisible by two at every level."""
        graph = self.graph
        tau = graph.input("tau", ["B", "K", self.width])
        self.counts = graph.add("Shape", tau, start=1, end=2)  # (1,)
        count = graph.add("Squeeze", self.counts)  # K
        self._index_neighbours(count)
        last = graph.add("Sub", count, graph.constant(1))
        return graph.add("Gather", tau, graph.add("Min", self.knots[0], last), axis=1)

    def end(self, x: str) -> str:
        """Remove the padding."""
        return self.graph.add("Slice", x, self.graph.constant([0]), self.counts, self.graph.constant([1]))

    def _index_neighbours(self, count: str) -> None:
        """Rows of each knot's neighbours, in an array padded by the kernel's reach, for each level."""
        graph, multiple = self.graph, 2 ** (self.depth - 1)
        zero, one, two = graph.constant(0), graph.constant(1), graph.constant(2)
        rounded = graph.add("Add", count, graph.constant(multiple - 1))
        size = graph.add("Div", rounded, graph.constant(multiple))  # knots at the lowest level
        sizes = [size]
        for _ in range(self.depth - 1):
            sizes.insert(0, graph.add("Mul", sizes[0], two))
        self.knots = [graph.add("Range", zero, size, one) for size in sizes]

        def around(knots: str, kernel: int) -> str:
            columns = graph.add("Unsqueeze", knots, graph.constant([1]))
            return graph.add("Add", columns, graph.constant(np.arange(kernel)))  # (knots, kernel)

        self.five = [around(knots, 5) for knots in self.knots]
        self.three = [around(knots, 3) for knots in self.knots]
        self.halving = [around(graph.add("Mul", knots, two), 3) for knots in self.knots[1:]]

    def time_biases(self) -> None:
        """Contribution of the diffusion time to each residual block: one MLP, then the layers of all blocks in one
        product."""
        graph, tensors = self.graph, self.tensors
        time = graph.add("Cast", graph.input("level", [1], "int64"), to=1)
        frequencies = graph.constant(time_frequencies(tensors))
        angles = graph.add("Mul", graph.add("Unsqueeze", time, graph.constant([1])), frequencies)
        t = graph.add("Concat", graph.add("Sin", angles), graph.add("Cos", angles), axis=1)  # (1, dim)
        t = self.mish(self.linear(t, "time_mlp.1"))
        t = self.mish(self.linear(t, "time_mlp.3"))
        names = [key.removesuffix(".time_mlp.1.weight") for key in tensors if key.endswith(".time_mlp.1.weight")]
        weight = np.concatenate([tensors[f"{name}.time_mlp.1.weight"] for name in names]).T
        bias = np.concatenate([tensors[f"{name}.time_mlp.1.bias"] for name in names])
        sizes = [len(tensors[f"{name}.time_mlp.1.bias"]) for name in names]
        together = graph.add("Add", graph.add("MatMul", t, graph.constant(weight)), graph.constant(bias))
        parts = graph.add_all("Split", len(names), together, graph.constant(np.array(sizes)), axis=1)
        self.time_bias = dict(zip(names, parts, strict=True))  # (1, C) each

    def linear(self, x: str, name: str) -> str:
        weight, bias = self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        return self.graph.add(
            "Add", self.graph.add("MatMul", x, self.graph.constant(weight.T)), self.graph.constant(bias)
        )

    def residual(self, x: str, name: str, place: int) -> str:
        """Two convolution blocks with the diffusion time added in between, and a skip connection."""
        y = self.timed_block(self.block(x, f"{name}.blocks.0", place), name, place)
        same = f"{name}.residual_conv.weight" not in self.tensors
        return self.sum(y, x if same else self.alone(x, f"{name}.residual_conv", place))

    def sum(self, x: str, y: str) -> str:
        """x + y."""
        return self.graph.add("Add", x, y)

    def timed_block(self, x: str, name: str, place: int) -> str:
        """Second block of a residual block, applied to x plus the diffusion time's (1, C), the same for each knot."""
        return self.block(self.sum(x, self.time_bias[name]), f"{name}.blocks.1", place)

    def block(self, x: str, name: str, place: int) -> str:
        """Convolution over five knots, GroupNorm, Mish."""
        y = self.product(x, *self._layer(f"{name}.block.0"), self.five[place])
        return self.mish(self.group_norm(y, f"{name}.block.2", place))

    def alone(self, x: str, name: str, place: int) -> str:
        """Pointwise layer."""
        return self.product(x, *self._layer(name), None)

    def halved(self, x: str, name: str, place: int) -> str:
        """Strided convolution over three knots: halves the number of knots."""
        return self.product(x, *self._layer(name), self.halving[place])

    def doubled(self, x: str, name: str, place: int) -> str:
        """Transposed convolution of kernel 4 and stride 2: an even and an odd knot from each knot's neighbours."""
        weight, bias = self._layer(name)  # (I, O, 4), (O,)
        none = np.zeros_like(weight[:, :, 0])
        even = np.stack([weight[:, :, 3], weight[:, :, 1], none], axis=2)  # (I, O, 3): previous, current and next knot
        odd = np.stack([none, weight[:, :, 2], weight[:, :, 0]], axis=2)
        both = np.concatenate([even, odd], axis=1).transpose(1, 0, 2)  # (2 O, I, 3)
        y = self.product(x, both, np.tile(bias, 2), self.three[place])
        return self.graph.add("Reshape", y, self.graph.constant(np.array([0, -1, len(bias)])))

    def joined(self, x: str, skip: str, place: int) -> str:
        """Concatenate channels."""
        return self.graph.add("Concat", x, skip, axis=2)

    def _layer(self, name: str) -> tuple[FloatArray, FloatArray]:
        return self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]

    def product(self, x: str, weight: FloatArray, bias: FloatArray, neighbours: str | None) -> str:
        """(B, n, I) -> (B, m, O) with weight (O, I, kernel)."""
        graph, (O, I, kernel) = self.graph, weight.shape  # noqa: E741
        if neighbours is not None:
            reach = kernel // 2
            x = graph.add("Pad", x, graph.constant(np.array([0, reach, 0, 0, reach, 0])))
            x = graph.add("Gather", x, neighbours, axis=1)  # (B, m, kernel, I)
            x = graph.add("Reshape", x, graph.constant(np.array([0, 0, kernel * I])))
        flat = weight.transpose(2, 1, 0).reshape(kernel * I, O)
        return graph.add("Add", graph.add("MatMul", x, graph.constant(flat)), graph.constant(bias))

    def group_norm(self, x: str, name: str, place: int) -> str:
        """GroupNorm: moments by channel over time, averaged over each group by a constant matrix."""
        graph, gain, shift = self.graph, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"]
        width = len(gain) // GROUPS
        average = graph.constant(np.kron(np.eye(GROUPS), np.full((width, width), 1 / width)).astype(np.float32))
        mean = graph.add("MatMul", graph.add("ReduceMean", x, axes=[1]), average)  # (B, 1, C)
        centred = graph.add("Sub", x, mean)
        squares = graph.add("ReduceMean", graph.add("Mul", centred, centred), axes=[1])
        variance = graph.add("MatMul", squares, average)
        deviation = graph.add("Sqrt", graph.add("Add", variance, graph.constant(np.float32(_EPS))))
        scale = graph.add("Div", graph.constant(gain), deviation)
        return graph.add("Add", graph.add("Mul", centred, scale), graph.constant(shift))

    def mish(self, x: str) -> str:
        """x tanh(log(1 + e^x)) = x - 2x / ((1 + e^x)^2 + 1): one exponential, and correct when it overflows."""
        graph, one = self.graph, self.graph.constant(np.float32(1))
        grown = graph.add("Add", graph.add("Exp", x), one)
        whole = graph.add("Add", graph.add("Mul", grown, grown), one)
        return graph.add("Sub", x, graph.add("Div", graph.add("Mul", x, graph.constant(np.float32(2))), whole))


def time_frequencies(tensors: Tensors) -> FloatArray:
    """(dim / 2,) frequencies of the diffusion time's sines and cosines."""
    half = tensors["time_mlp.1.weight"].shape[1] // 2
    return np.exp(np.arange(half, dtype=np.float32) * np.float32(-math.log(10000) / (half - 1)))


def unet_shapes(width: int, dim: int, dim_mults: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a U-Net on knots of `width` numbers."""
    widths = [width, *(dim * mult for mult in dim_mults)]
    shapes: dict[str, tuple[int, ...]] = {}

    def layer(name: str, *weight: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = weight, (weight[0],)

    def block(name: str, narrow: int, wide: int) -> None:
        layer(f"{name}.block.0", wide, narrow, 5)
        layer(f"{name}.block.2", wide)

    def residual(name: str, narrow: int, wide: int) -> None:
        block(f"{name}.blocks.0", narrow, wide)
        block(f"{name}.blocks.1", wide, wide)
        layer(f"{name}.time_mlp.1", wide, dim)
        if narrow != wide:
            layer(f"{name}.residual_conv", wide, narrow, 1)

    layer("time_mlp.1", 4 * dim, dim)
    layer("time_mlp.3", dim, 4 * dim)
    for number, (narrow, wide) in enumerate(pairwise(widths)):
        residual(f"downs.{number}.0", narrow, wide)
        residual(f"downs.{number}.1", wide, wide)
        if number < len(dim_mults) - 1:
            layer(f"downs.{number}.2.conv", wide, wide, 3)
    residual("mid_block1", widths[-1], widths[-1])
    residual("mid_block2", widths[-1], widths[-1])
    for number, (narrow, wide) in enumerate(list(pairwise(widths))[:0:-1]):
        residual(f"ups.{number}.0", 2 * wide, narrow)
        residual(f"ups.{number}.1", narrow, narrow)
        layer(f"ups.{number}.2.conv", narrow, narrow, 4)
    block("final_conv.0", widths[1], widths[1])
    layer("final_conv.1", width, widths[1], 1)
    return shapes
