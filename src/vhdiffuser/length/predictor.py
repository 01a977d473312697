"""A trained Length Predictor as others use it: arrays in the environment's units in, steps out.

It needs neither the planner nor a simulator, and serves as a heuristic for graph search and task planning:

    predictor = LengthPredictor.load(Path("length.safetensors"))
    steps = predictor.predict_steps(here, places)  # (d,), (n, goal_dim) -> (n,)
    order = steps.argsort()                        # visit the nearest place first

Estimates lean to the low side of what was observed, so they suit A*-like searches; they are learned, and so
not strictly admissible.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import OutsideDataWarning, VhdError, warn
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.network import FourierEncoder, LengthNetwork, MakeEncoder
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, load_model

_FAR_OUTSIDE = 1.2
"""Normalised size from which a state counts as far outside the data, which fills [-1, 1]."""
_CHUNK = 2048
"""Queries in one forward pass: large enough to be fast, small enough for the cache."""


class LengthPredictor:
    """f_theta with its units: the shortest number of control steps from a state to a goal."""

    def __init__(self, network: torch.nn.Module, spec: EnvSpec, config: LengthConfig, normalizer: Normalizer) -> None:
        self.network = network.eval()
        self.spec = spec
        self.config = config
        self.normalizer = normalizer
        self._goal_dims = goal_dims(spec, config)
        self._device = next(network.parameters()).device
        self._origin: ModelHeader | None = None  # of the file it was loaded from

    @classmethod
    def load(
        cls, path: Path | str, device: torch.device | str = "cpu", make_encoder: MakeEncoder = FourierEncoder
    ) -> LengthPredictor:
        """Read a model file written by `vhd train length`."""
        tensors, header = load_model(Path(path), "length")
        spec, config = EnvSpec.from_json(header.spec), LengthConfig.from_json(header.config)
        network = LengthNetwork(
            spec.state_dim, goal_dims(spec, config), len(config.quantiles), config.network, make_encoder
        )
        network.load_state_dict(tensors)
        predictor = cls(network.to(device), spec, config, Normalizer.from_json(header.normalizer))
        predictor._origin = header
        return predictor

    def header(self) -> ModelHeader:
        """The header of its model file."""
        history = self._origin or ModelHeader("length", {}, {}, {}, data_fingerprint="")
        return replace(
            history,
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
        )

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """Steps from each start to each goal, between 0 and T_max.

        `starts` is (..., d) and `goals` (..., goal_dim), or (..., d) of which the goal dimensions count, in the
        environment's units; leading shapes broadcast against each other. Returns that shape, float32.
        """
        return self._quantiles(starts, goals)[..., 0]

    def predict_spread(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Steps as `predict_steps`, and their spread: how far apart, in steps, the predicted quantiles lie."""
        if len(self.config.quantiles) < 2:
            raise VhdError(
                f"this model predicts one quantile only ({self.config.quantiles[0]}), so it knows no spread. "
                "Train it with at least two `quantiles`."
            )
        quantiles = self._quantiles(starts, goals)
        return quantiles[..., 0], quantiles.max(axis=-1) - quantiles.min(axis=-1)

    def steps_between(self, s: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        """`predict_steps` for normalised planning states (n, d) and (n, d) on the predictor's own device: (n,)."""
        with torch.no_grad():
            f = self.network(s, end[:, list(self._goal_dims)])[:, 0]
        return f.clamp(max=1.0) * self.spec.T_max

    def plan_length(self, starts: npt.ArrayLike, goals: npt.ArrayLike, gamma: float = 1.0) -> IntArray:
        """L_hat = clip(gamma * (f * T_max + 1), L_min, T_max), in states, rounded up."""
        return plan_lengths(self.predict_steps(starts, goals), self.spec, gamma)

    def _quantiles(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(..., quantiles) in steps."""
        d = self.spec.state_dim
        s = self._checked("starts", starts, (d,), tuple(range(d)))
        goal_sizes = (len(self._goal_dims), d)
        g = self._checked("goals", goals, goal_sizes, self._goal_dims)
        try:
            shape = np.broadcast_shapes(s.shape[:-1], g.shape[:-1])
        except ValueError as error:
            raise VhdError(
                f"starts {np.shape(starts)} and goals {np.shape(goals)} do not broadcast: all but the last "
                "dimension must agree, or be 1, or be missing."
            ) from error
        flat_s = torch.from_numpy(np.broadcast_to(s, (*shape, s.shape[-1])).reshape(-1, s.shape[-1]).copy())
        flat_g = torch.from_numpy(np.broadcast_to(g, (*shape, g.shape[-1])).reshape(-1, g.shape[-1]).copy())

        @torch.inference_mode()
        def answer(part: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            return self.network(part[0].to(self._device), part[1].to(self._device)).cpu()

        parts = list(zip(flat_s.split(_CHUNK), flat_g.split(_CHUNK), strict=True))
        f = torch.cat(batches_in_parallel(answer, parts)).clamp(max=1.0)
        return (f * self.spec.T_max).numpy().reshape(*shape, f.shape[-1])

    def _checked(self, name: str, values: npt.ArrayLike, sizes: tuple[int, ...], dims: tuple[int, ...]) -> FloatArray:
        """Normalised values of the wanted dimensions, or an error that says what is wrong."""
        array = as_numbers(name, values)
        if array.ndim == 0 or array.shape[-1] not in sizes:
            allowed = " or ".join(f"(..., {size})" for size in dict.fromkeys(sizes))
            raise VhdError(f"{self.spec.name}: {name} must have shape {allowed}, got {array.shape}.")
        if not np.isfinite(array).all():
            bad = np.argwhere(~np.isfinite(array))[0].tolist()
            raise VhdError(f"{self.spec.name}: {name}{bad} is NaN or infinite. Give finite numbers.")
        if array.shape[-1] != len(dims):
            array = array[..., list(dims)]
        normal = self.normalizer.select(dims).normalize(array)
        outside = np.abs(normal) > _FAR_OUTSIDE
        if outside.any():
            worst = int(np.abs(normal).reshape(-1, len(dims)).max(axis=0).argmax())
            dim = dims[worst]
            warn(
                f"{self.spec.name}: {int(outside.any(axis=-1).sum())} of the {name} lie far outside the data, most in "
                f"{self.spec.state_names[dim]} (data: {self.normalizer.low[dim]:.3g} to "
                f"{self.normalizer.high[dim]:.3g}); their steps are guesses.",
                OutsideDataWarning,
            )
        return normal
