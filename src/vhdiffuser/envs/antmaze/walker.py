"""The directional ant walker that regenerates antmaze data: a small actor, run with numpy alone.

It takes the ant's proprioception (27 numbers: the observation without xy) and a unit direction, and
returns the 8 joint torques. It was trained by `vhd data walker` (`walker_training.py`) and ships
with the package as `assets/ant_walker.safetensors`, so building data needs no training.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors

from vhdiffuser.errors import DataError
from vhdiffuser.types import FloatArray

PROPRIOCEPTION = 27
"""Numbers in the ant's observation after its xy position."""

SHIPPED_WALKER = files("vhdiffuser") / "assets" / "ant_walker.safetensors"


@dataclass(frozen=True)
class Walker:
    """Actor of the directional walker: three dense layers, ReLU between, tanh at the end."""

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    """(weight, bias) of each layer; weight is in x out."""

    @classmethod
    def load(cls, path: Path | None = None) -> Walker:
        """Read a walker's actor; by default the shipped one."""
        source = path if path is not None else SHIPPED_WALKER
        try:
            tensors = load_safetensors(source.read_bytes())
            count = len(tensors) // 2
            layers = tuple((tensors[f"{i}.weight"], tensors[f"{i}.bias"]) for i in range(count))
        except (OSError, SafetensorError, KeyError) as error:
            raise DataError(
                f"{source}: not a walker's actor ({error}). Reinstall the package, or train one with `vhd data walker`."
            ) from error
        if not layers or layers[0][0].shape[0] != PROPRIOCEPTION + 2 or layers[-1][0].shape[1] != 8:
            raise DataError(
                f"{source}: the actor must map {PROPRIOCEPTION + 2} numbers to 8 torques. Reinstall the "
                "package, or train one with `vhd data walker`."
            )
        return cls(layers)

    def __call__(self, proprioception: FloatArray, direction: FloatArray) -> FloatArray:
        """Torques (..., 8) for proprioception (..., 27) and a unit direction (..., 2)."""
        hidden = np.concatenate([proprioception, direction], axis=-1).astype(np.float32)
        for weight, bias in self.layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0.0)
        weight, bias = self.layers[-1]
        return np.tanh(hidden @ weight + bias)

    def one_by_one(self, proprioception: FloatArray, direction: FloatArray) -> FloatArray:
        """The same for (k, 27) and (k, 2), with each row bitwise independent of the others."""
        return self(proprioception[:, None], direction[:, None])[:, 0]
