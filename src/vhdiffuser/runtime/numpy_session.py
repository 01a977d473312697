"""Our ONNX graphs evaluated with numpy alone, for computers without ONNX Runtime.

Planning then takes about twice the time, but the installation is 70 MB smaller (docs/speed.md). Only the operators that
our own graphs use are known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from vhdiffuser.errors import DataError
from vhdiffuser.types import FloatArray

Array = Any
"""Float or integer arrays, as the operator takes them."""


class Input(NamedTuple):
    """An input of a graph."""

    name: str


class Node(NamedTuple):
    """One operation of a graph."""

    operate: Callable[..., Array]
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    spent: list[str]
    """Values that no later operation needs."""


class NumpySession:
    """What we use of ONNX Runtime's `InferenceSession`, in numpy."""

    def __init__(self, model: bytes) -> None:
        try:
            (graph,) = [value for tag, value in _fields(memoryview(model)) if tag == 7]
            nodes, self._constants, self._inputs, (self._output,) = _read(graph)
        except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
            raise DataError(f"not an ONNX model written by vhdiffuser ({error!r}).") from error
        self._nodes = self._with_spent(nodes)

    def get_inputs(self) -> list[Input]:
        """Inputs, in order."""
        return self._inputs

    def run(self, outputs: None, feeds: dict[str, Array]) -> list[FloatArray]:
        """The graph's output for named inputs."""
        values = {**self._constants, **feeds}
        with np.errstate(over="ignore"):  # of Mish's exponential, which is right all the same
            for operate, inputs, results, attributes, spent in self._nodes:
                made = operate(*[values[name] for name in inputs], **attributes)
                if len(results) == 1:
                    values[results[0]] = made
                else:
                    values.update(zip(results, made, strict=True))
                for name in spent:
                    del values[name]
        return [values[self._output]]

    def _with_spent(self, nodes: list[Node]) -> list[Node]:
        """The nodes whose results are used, each with the values that can be freed after it: less memory, so more of it
        in the cache."""
        wanted, needed = {self._output, *self._constants}, []
        for node in reversed(nodes):
            if wanted.isdisjoint(node.outputs):
                continue
            spent = sorted(set(node.inputs) - wanted)
            wanted.update(spent)
            needed.append(node._replace(spent=spent))
        return needed[::-1]


def _gemm(x: Array, weight: Array, bias: Array) -> Array:
    y = x @ weight
    y += bias
    return y


def _layer_norm(x: Array, gain: Array, shift: Array, axis: int, epsilon: float) -> Array:
    size = np.float32(x.shape[axis])
    centred = x - np.add.reduce(x, axis, keepdims=True) / size
    variance = np.add.reduce(centred * centred, axis, keepdims=True) / size
    centred /= np.sqrt(variance + np.float32(epsilon))
    centred *= gain
    centred += shift
    return centred


def _reduce_mean(x: Array, axes: tuple[int, ...], keepdims: int = 1) -> Array:
    count = np.float32(np.prod([x.shape[axis] for axis in axes]))
    return np.sum(x, axes, keepdims=bool(keepdims)) / count


def _pad(x: Array, widths: Array) -> Array:
    """Zeros before and after each dimension; `np.pad` takes ten times as long for small arrays."""
    before, after = widths.reshape(2, -1).tolist()
    padded = np.zeros([low + size + high for low, size, high in zip(before, x.shape, after, strict=True)], x.dtype)
    padded[tuple(slice(low, low + size) for low, size in zip(before, x.shape, strict=True))] = x
    return padded


def _reshape(x: Array, shape: Array) -> Array:
    return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(shape.tolist())])


def _slice(x: Array, start: Array, end: Array, axis: Array) -> Array:
    return x[(*[slice(None)] * axis.item(), slice(start.item(), end.item()))]


OPERATORS: dict[str, Callable[..., Array]] = {
    "Add": np.add,
    "Cast": lambda x, to: x.astype(np.float32),  # the only type that our graphs cast to
    "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Cos": np.cos,
    "Div": lambda x, y: x // y if x.dtype.kind == "i" else x / y,
    "Exp": np.exp,
    "Gather": lambda x, index, axis: x.take(index, axis),
    "Gemm": _gemm,
    "Identity": lambda x: x,
    "LayerNormalization": _layer_norm,
    "MatMul": np.matmul,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Pad": _pad,
    "Range": lambda *x: np.arange(*(value.item() for value in x)),
    "ReduceMax": lambda x, axes, keepdims=1: np.max(x, axes, keepdims=bool(keepdims)),
    "ReduceMean": _reduce_mean,
    "Relu": lambda x: np.maximum(x, 0),
    "Reshape": _reshape,
    "Shape": lambda x, start, end: np.array(x.shape[start:end]),
    "Sin": np.sin,
    "Slice": _slice,
    "Softplus": lambda x: np.logaddexp(np.float32(0), x),
    "Split": lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
    "Sqrt": np.sqrt,
    "Squeeze": np.squeeze,
    "Sub": np.subtract,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())),
}
"""Operators of the graphs that `vhdiffuser.runtime` builds."""


def _read(graph: memoryview) -> tuple[list[Node], dict[str, Array], list[Input], list[str]]:
    """Nodes, constants, inputs and names of the outputs of a GraphProto."""
    nodes: list[Node] = []
    constants: dict[str, Array] = {}
    inputs: list[Input] = []
    outputs: list[str] = []
    for tag, value in _fields(graph):
        if tag == 1:
            nodes.append(_node(value))
        elif tag == 5:
            name, tensor = _tensor(value)
            constants[name] = tensor
        elif tag == 11:
            inputs.append(Input(_text(dict(_fields(value))[1])))
        elif tag == 12:
            outputs.append(_text(dict(_fields(value))[1]))
    return nodes, constants, inputs, outputs


def _node(raw: memoryview) -> Node:
    given = list(_fields(raw))
    inputs, outputs, (operator,) = ([_text(value) for tag, value in given if tag == wanted] for wanted in (1, 2, 4))
    attributes = dict(_attribute(value) for tag, value in given if tag == 5)
    return Node(OPERATORS[operator], inputs, outputs, attributes, [])


def _attribute(raw: memoryview) -> tuple[str, Any]:
    """A float, an integer, or several integers."""
    given = list(_fields(raw))
    several = tuple(value for tag, value in given if tag == 8)
    one = [value for tag, value in given if tag in (2, 3)]
    return _text(dict(given)[1]), several or one[0]


def _tensor(raw: memoryview) -> tuple[str, Array]:
    given = list(_fields(raw))
    known = dict(given)
    flat = np.frombuffer(known[9], {1: np.float32, 7: np.int64}[known[2]])
    return _text(known[8]), flat.reshape([value for tag, value in given if tag == 1]).copy()  # aligned: fast products


def _text(raw: memoryview) -> str:
    return str(raw, "utf-8")


def _fields(raw: memoryview) -> Iterator[tuple[int, Any]]:
    """Tags and values of a message of Protocol Buffers: varints, bytes and floats."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = raw[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value - (1 << 64) if value >> 63 else value
            shift += 7

    while at < len(raw):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 5:
            yield key >> 3, struct.unpack_from("<f", raw, at)[0]
            at += 4
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, raw[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {key & 7}")
