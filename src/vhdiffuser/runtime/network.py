"""Networks as functions of arrays, independent of what evaluates them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.runtime.numpy_session import NumpySession
from vhdiffuser.signals import held_signals
from vhdiffuser.types import FloatArray


class Network(Protocol):
    """A network that can be called on arrays and saved."""

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """Tensors by name, as in the model file."""
        ...

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """Evaluate a batch of inputs; a scalar (a diffusion time) applies to the whole batch."""
        ...


def check_shapes(tensors: Mapping[str, FloatArray], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `DataError` if tensors have the wrong names, shapes or types."""
    for name in sorted(tensors.keys() | wanted.keys()):
        here = tensors[name].shape if name in tensors else "missing"
        if here != wanted.get(name, "unknown"):
            raise DataError(f"tensor '{name}' is {here}, but should be {wanted.get(name, 'absent')}")
        if tensors[name].dtype != np.float32:
            raise DataError(f"tensor '{name}' contains {tensors[name].dtype.name}, but should contain float32")


def weights_digest(network: Network) -> str:
    """SHA-256 of a network's tensors or, for a network read from an .onnx file, of that file."""
    if not isinstance(network, OnnxNetwork):
        return _tensors_digest(network.tensors)
    if network not in _digests:  # cached: it never changes
        named = network.named_tensors
        _digests[network] = hashlib.sha256(network.model).hexdigest() if named is None else _tensors_digest(named)
    return _digests[network]


def _tensors_digest(tensors: Mapping[str, FloatArray]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


class OnnxNetwork:
    """An ONNX model evaluated on the calling thread, by ONNX Runtime or by numpy. Safe to call from several threads."""

    def __init__(self, model: bytes | Callable[[], bytes], tensors: Mapping[str, FloatArray] | None = None) -> None:
        """`model` is the content of an .onnx file, or a function that builds it on first use. `tensors` are those it is
        built from; without them it cannot be saved as a model file."""
        self._model, self.named_tensors = model, None if tensors is None else dict(tensors)
        self._lock = Lock()

    @cached_property
    def model(self) -> bytes:
        """Content of the .onnx file."""
        return self._model if isinstance(self._model, bytes) else self._model()

    @property
    def tensors(self) -> dict[str, FloatArray]:
        """Tensors by name."""
        if self.named_tensors is None:
            raise VhdError("a network read from an .onnx file cannot be saved: save the model it was exported from.")
        return self.named_tensors

    def __call__(self, *inputs: FloatArray | int) -> FloatArray:
        """Evaluate a batch of inputs."""
        feeds = {
            name: np.array([value]) if isinstance(value, int) else value
            for name, value in zip(self._inputs, inputs, strict=True)
        }
        return self._session.run(None, feeds)[0]

    @cached_property
    def _session(self):  # type: ignore[no-untyped-def]  # onnxruntime has no types
        """Created on first use, which takes some hundredths of a second."""
        with self._lock:
            return self.__dict__.get("_session") or _session(self.model)

    @cached_property
    def _inputs(self) -> list[str]:
        return [item.name for item in self._session.get_inputs()]

    def __deepcopy__(self, memo: object) -> OnnxNetwork:
        return self  # cached: it never changes

    def __reduce__(self) -> tuple[type[OnnxNetwork], tuple[bytes, dict[str, FloatArray] | None]]:
        return OnnxNetwork, (self.model, self.named_tensors)


_digests: WeakKeyDictionary[OnnxNetwork, str] = WeakKeyDictionary()


def _session(model: bytes):  # type: ignore[no-untyped-def]  # onnxruntime has no types
    """ONNX Runtime's session or, where it is not installed, ours in numpy."""
    # Official builds would otherwise store a device id and send telemetry.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        with held_signals():
            import onnxruntime
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime":
            return NumpySession(model)
        raise VhdError(
            f"onnxruntime is installed, but cannot be imported ({error}). Install it again, or uninstall it: numpy "
            "then evaluates the networks."
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_reuse = False  # memory planning takes four fifths of the set-up and saves no time afterwards
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
