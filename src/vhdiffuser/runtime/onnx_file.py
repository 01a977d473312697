"""Writer for ONNX models: the part of the format (`onnx.proto`, onnx.ai) that our networks need.

The `onnx` package could do this, but takes 50 MB and a quarter of a second to import, too much for an onboard computer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

IR_VERSION = 8
OPSET = 17
_TYPES = {"float32": 1, "int64": 7}
_FEW = 4096
"""Constants up to this size are deduplicated; comparing large weights would take too long."""
Size = int | str
"""A dimension: a number, or the name of a variable one."""


class Graph:
    """An ONNX graph under construction. Values are identified by name."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._known: dict[bytes, str] = {}
        self._inputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, shape: Sequence[Size], dtype: str = "float32") -> str:
        """Add a model input."""
        self._inputs.append(_bytes(11, _value_info(name, shape, dtype)))
        return name

    def constant(self, values: npt.ArrayLike) -> str:
        """Add a float32 or int64 constant; equal small constants are stored once."""
        array = np.asarray(values)
        array = np.ascontiguousarray(array, np.int64 if array.dtype.kind == "i" else np.float32)
        content = repr((array.shape, array.dtype.name)).encode() + array.tobytes() if array.size <= _FEW else b""
        if content and content in self._known:
            return self._known[content]
        name = self._known[content] = self._new("c")
        self._constants.append(_bytes(5, _tensor(name, array)))
        return name

    def add(self, operator: str, *inputs: str, **attributes: int | float | Sequence[int]) -> str:
        """Add a node and return its output."""
        return self.add_all(operator, 1, *inputs, **attributes)[0]

    def add_all(
        self, operator: str, outputs: int, *inputs: str, **attributes: int | float | Sequence[int]
    ) -> list[str]:
        """Add a node and return all its outputs."""
        names = [self._new("v") for _ in range(outputs)]
        self._nodes.append(_node(operator, inputs, names, attributes))
        return names

    def model(self, value: str, output: str, shape: Sequence[Size], about: str = "") -> bytes:
        """Serialise the model with one output: `value`, renamed to `output`."""
        graph = b"".join(
            [
                *self._nodes,
                _node("Identity", [value], [output], {}),
                _bytes(2, "vhdiffuser"),
                *self._constants,
                *self._inputs,
                _bytes(12, _value_info(output, shape, "float32")),
            ]
        )
        opset = _bytes(8, _bytes(1, "") + _number(2, OPSET))
        return _number(1, IR_VERSION) + _bytes(2, "vhdiffuser") + _bytes(6, about) + _bytes(7, graph) + opset

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # negative varints take ten bytes
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3) + _varint(value)


def _bytes(tag: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(tag << 3 | 2) + _varint(len(raw)) + raw


def _node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, int | float | Sequence[int]]
) -> bytes:
    names = [_bytes(1, name) for name in inputs] + [_bytes(2, name) for name in outputs]
    return _bytes(1, b"".join(names) + _bytes(4, operator) + b"".join(map(_attribute, attributes, attributes.values())))


def _attribute(name: str, value: int | float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        body = _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    elif isinstance(value, int):
        body = _number(3, value) + _number(20, 2)
    else:
        body = b"".join(_number(8, item) for item in value) + _number(20, 7)
    return _bytes(5, _bytes(1, name) + body)


def _tensor(name: str, array: npt.NDArray[np.generic]) -> bytes:
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, _TYPES[array.dtype.name]) + _bytes(8, name) + _bytes(9, array.tobytes())


def _value_info(name: str, shape: Sequence[Size], dtype: str) -> bytes:
    sizes = b"".join(_bytes(1, _number(1, size) if isinstance(size, int) else _bytes(2, size)) for size in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, _TYPES[dtype]) + _bytes(2, sizes)))
