"""A network as a function of arrays, whatever computes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock
from typing import Protocol

import numpy as np

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.types import FloatArray


class Network(Protocol):
    """A network that can be called on arrays and saved."""

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """Its tensors by name, as in its model file."""
        ...

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """Its output for a batch of inputs; a number (a diffusion time) holds for the whole batch."""
        ...


def check_shapes(tensors: Mapping[str, FloatArray], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `DataError` for tensors of other names or shapes than wanted, and for those that hold no real numbers."""
    for name in sorted(tensors.keys() | wanted.keys()):
        here = tensors[name].shape if name in tensors else "missing"
        if here != wanted.get(name, "unknown"):
            raise DataError(f"tensor '{name}' is {here}, but should be {wanted.get(name, 'absent')}")
        if tensors[name].dtype.kind != "f":
            raise DataError(f"tensor '{name}' holds {tensors[name].dtype.name}, but should hold float32")


class OnnxNetwork:
    """An ONNX model computed by ONNX Runtime on the calling thread. Several threads may call it at once."""

    def __init__(self, model: bytes | Callable[[], bytes], tensors: Mapping[str, FloatArray] | None = None) -> None:
        """`model` is an .onnx file's content, or a function that makes it on first use. `tensors` are those that it is
        made from; without them it cannot be saved as a model file."""
        self._model, self._tensors = model, None if tensors is None else dict(tensors)
        self._lock = Lock()

    @cached_property
    def model(self) -> bytes:
        """The content of its .onnx file."""
        return self._model if isinstance(self._model, bytes) else self._model()

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """Its tensors by name."""
        if self._tensors is None:
            raise VhdError("a network read from an .onnx file cannot be saved again: save what it was exported from.")
        return self._tensors

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """Its output for a batch of inputs."""
        feeds = {
            name: np.array([value]) if isinstance(value, int) else value
            for name, value in zip(self._inputs, inputs, strict=True)
        }
        return self._session.run(None, feeds)[0]

    @cached_property
    def _session(self):  # type: ignore[no-untyped-def]  # onnxruntime has no types
        """Made on first use: it takes some hundredths of a second."""
        with self._lock:
            return self.__dict__.get("_session") or _session(self.model)

    @cached_property
    def _inputs(self) -> list[str]:
        return [item.name for item in self._session.get_inputs()]

    def __deepcopy__(self, memo: object) -> OnnxNetwork:
        return self  # it never changes

    def __reduce__(self) -> tuple[type[OnnxNetwork], tuple[bytes, dict[str, FloatArray] | None]]:
        return OnnxNetwork, (self.model, self._tensors)


def _session(model: bytes):  # type: ignore[no-untyped-def]  # onnxruntime has no types
    # Its official builds otherwise write a device id and send what is run here to its makers.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise VhdError(
            f"planning needs onnxruntime, which cannot be imported ({error}): pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_reuse = False  # planning it takes four fifths of the set-up, and saves no time after it
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
