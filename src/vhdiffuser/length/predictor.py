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
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import DataError, OutsideDataWarning, VhdError, warn
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.network import FourierEncoder, LengthNetwork, MakeEncoder
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, load_model

_FAR_OUTSIDE = 1.2
"""Normalised size from which a state counts as far outside the data, which fills [-1, 1]."""
_KNOWN, _BEYOND = 0.9, 1.1
"""Shares of T_max by the route graph: up to the first the network is asked, from the second on the graph."""
_CALIBRATION = 4096
"""Pairs of landmarks by which the graph's steps are brought to the network's scale."""
_CHUNK = 2048
"""Queries in one forward pass: large enough to be fast, small enough for the cache."""


class LengthPredictor:
    """f_theta with its units: the shortest number of control steps from a state to a goal."""

    def __init__(
        self,
        network: torch.nn.Module,
        spec: EnvSpec,
        config: LengthConfig,
        normalizer: Normalizer,
        routes: RouteGraph | None = None,
    ) -> None:
        """With `routes`, distances reach beyond T_max and `route` gives the way."""
        self.network = network.eval()
        self.routes = routes
        self.spec = spec
        self.config = config
        self.normalizer = normalizer
        self._goal_dims = goal_dims(spec, config)
        self._device = next(network.parameters()).device
        self._origin: ModelHeader | None = None  # of the file it was loaded from

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: torch.device | str = "cpu",
        make_encoder: MakeEncoder = FourierEncoder,
        routes: Path | str | None = None,
    ) -> LengthPredictor:
        """Read a model file written by `vhd train length`, and a route graph of `vhd train route`, if given."""
        tensors, header = load_model(Path(path), "length")
        spec, config = EnvSpec.from_json(header.spec), LengthConfig.from_json(header.config)
        network = LengthNetwork(
            spec.state_dim, goal_dims(spec, config), len(config.quantiles), config.network, make_encoder
        )
        network.load_state_dict(tensors)
        graph = None
        if routes is not None:
            graph, route_header = RouteGraph.load(Path(routes))
            if route_header.normalizer != header.normalizer:
                raise DataError(f"{routes}: made from other data than {path}. Build it again with `vhd train route`.")
        predictor = cls(network.to(device), spec, config, Normalizer.from_json(header.normalizer), graph)
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
        """Steps from each start to each goal; at most T_max, or any number with a route graph.

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

    def route(self, start: npt.ArrayLike, goal: npt.ArrayLike) -> Route:
        """The way from a start (d,) to a goal (goal_dim,), of any length: places and the steps to each.

        Where no observed moves join the two, `known` is False and the route is just the two.
        """
        if self.routes is None:
            raise VhdError(
                f"{self.spec.name}: no route graph. Build one with `vhd train route {self.spec.name}` and load it with "
                "LengthPredictor.load(path, routes=...)."
            )
        s = self._checked("start", start, (self.spec.state_dim,), tuple(range(self.spec.state_dim)))
        g = self._checked("goal", goal, (len(self._goal_dims), self.spec.state_dim), self._goal_dims)
        found = self.routes.path(s[list(self._goal_dims)], g)
        steps = float(self.predict_steps(start, goal))
        shares = found.steps / found.total if found.known else np.linspace(0, 1, len(found.steps))
        places = self.normalizer.select(self._goal_dims).unnormalize(found.places)
        return Route(places, shares * steps, found.known)

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
        steps = (f * self.spec.T_max).numpy()
        if self.routes is not None:
            steps = self._far(steps, self.routes.steps(flat_s[:, list(self._goal_dims)].numpy(), flat_g.numpy()))
        return steps.reshape(*shape, f.shape[-1])

    def _far(self, steps: FloatArray, by_route: FloatArray) -> FloatArray:
        """(n, quantiles) steps of the network, (n,) of the graph -> (n, quantiles): the graph's for far pairs.

        The network knows no distance beyond T_max. The graph's steps are on its scale, so that the two meet.
        """
        by_route = np.where(np.isfinite(by_route), by_route, 0.0)[:, None] * self._far_scale
        share = np.clip((by_route[:, :1] / self.spec.T_max - _KNOWN) / (_BEYOND - _KNOWN), 0.0, 1.0)
        return ((1 - share) * steps + share * by_route).astype(np.float32)

    @cached_property
    def _far_scale(self) -> FloatArray:
        """(quantiles,) the network's steps over the graph's, the median of pairs of landmarks that both know well."""
        assert self.routes is not None
        rng = np.random.default_rng(0)
        first, second = rng.integers(len(self.routes.places), size=(2, _CALIBRATION))
        by_route = self.routes.all_steps()[first, second]
        known = (by_route > 0.2 * self.spec.T_max) & (by_route < 0.8 * self.spec.T_max)
        scale = np.ones(len(self.config.quantiles), np.float32)
        if known.sum() < 30:
            return scale
        s = torch.zeros(int(known.sum()), self.spec.state_dim)
        rest = self.normalizer.normalize(np.zeros(self.spec.state_dim, np.float32))
        s[:] = torch.from_numpy(rest)
        places = torch.from_numpy(self.routes.places)
        s[:, list(self._goal_dims)] = places[first[known]]
        with torch.inference_mode():
            f = self.network(s.to(self._device), places[second[known]].to(self._device)).cpu().numpy()
        return np.median(f * self.spec.T_max / by_route[known][:, None], axis=0).astype(np.float32)

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
