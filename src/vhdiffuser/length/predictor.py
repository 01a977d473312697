"""A trained Length Predictor: predicted steps for arrays in the environment's units.

It needs neither planner nor simulator, and can serve as a heuristic for graph search or task planning:

    predictor = LengthPredictor.load(Path("length.safetensors"))
    steps = predictor.predict_steps(here, places)  # (d,), (n, goal_dim) -> (n,)
    order = steps.argsort()                        # nearest place first

Estimates are low quantiles of the observed lengths, which suits A*-like searches, but they are learned and therefore
not strictly admissible.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vhdiffuser.arguments import as_numbers
from vhdiffuser.errors import DataError, OutsideDataWarning, VhdError, warn
from vhdiffuser.length.config import LengthConfig, goal_dims
from vhdiffuser.length.horizon import plan_lengths
from vhdiffuser.length.networks import as_network, length_network
from vhdiffuser.length.route import Route, RouteGraph
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.runtime.network import Network
from vhdiffuser.threads import batches_in_parallel
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, load_model

if TYPE_CHECKING:
    import torch

    from vhdiffuser.length.network import MakeEncoder

_FAR_OUTSIDE = 1.2
"""Normalised magnitude above which a state counts as far outside the data, which spans [-1, 1]."""
_KNOWN, _BEYOND = 0.9, 1.1
"""Fractions of T_max, by the route graph: below the first the network is used, above the second the graph."""
_CALIBRATION = 4096
"""Number of landmark pairs used to calibrate the graph's steps to the network's."""
_LEAST = 0.9
"""Off the data, `least_steps` is this fraction of the route's steps."""
_MARKS = 32
"""Number of landmarks used by `quasimetric_steps`."""
OFF_SUPPORT = 1 / 3
"""Support below which a position is off the data: more than two radii from every landmark."""
SUPPORT_FILE = "support.safetensors"
"""Route graph next to a predictor's file that only shows where the data is, for weights that plan without routes."""
_CHUNK = 2048
"""Queries per forward pass: large enough to be fast, small enough for the cache."""


class LengthPredictor:
    """f_theta in the environment's units: the shortest number of control steps from a state to a goal."""

    def __init__(
        self,
        network: Network | torch.nn.Module,
        spec: EnvSpec,
        config: LengthConfig,
        normalizer: Normalizer,
        routes: RouteGraph | None = None,
        landmarks: RouteGraph | None = None,
        coarse: bool = False,
    ) -> None:
        """With `routes`, distances extend beyond T_max and `route` returns the path.

        `landmarks` (default: those of `routes`) show where the data is: `support` and `reachable` need them. `coarse`
        looks landmarks up on a grid, for very many queries.
        """
        self.network = as_network(network, goal_dims(spec, config))
        self.routes = routes
        self.landmarks = landmarks or routes
        self.coarse = coarse
        self.spec = spec
        self.config = config
        self.normalizer = normalizer
        self._goal_dims = goal_dims(spec, config)
        self._origin: ModelHeader | None = None  # digest of the file it was loaded from

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: torch.device | str = "cpu",
        make_encoder: MakeEncoder | None = None,
        routes: Path | str | None = None,
        coarse: bool = False,
    ) -> LengthPredictor:
        """Load a model file from `vhd train length` and, if given, a route graph from `vhd train route`.

        `make_encoder` is needed for networks trained with a custom encoder. Without a route graph, the support comes
        from `support.safetensors` in the same folder, if present. Raises `DataError` for missing or damaged files.
        """
        tensors, header = load_model(Path(path), "length")
        spec, config = EnvSpec.from_json(header.spec), LengthConfig.from_json(header.config)
        try:
            network = length_network(tensors, spec, config, device, make_encoder)
        except DataError as error:
            raise DataError(f"{path}: its weights do not match its own config ({error}). Train it again.") from error
        support = Path(path).with_name(SUPPORT_FILE)
        graph, landmarks = None, None
        if routes is not None:
            graph = _graph_of(Path(routes), path, header)
        elif support.is_file():
            landmarks = _graph_of(support, path, header)
        predictor = cls(network, spec, config, Normalizer.from_json(header.normalizer), graph, landmarks, coarse)
        predictor._origin = header
        return predictor

    def header(self) -> ModelHeader:
        """Header of the model file."""
        history = self._origin or ModelHeader("length", {}, {}, {}, data_fingerprint="")
        return replace(
            history,
            spec=self.spec.to_json(),
            config=self.config.to_json(),
            normalizer=self.normalizer.to_json(),
        )

    def predict_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """Predicted steps from each start to each goal; at most T_max, or unlimited with a route graph.

        `starts` is (..., d) and `goals` (..., goal_dim) or (..., d), in the environment's units; leading shapes
        broadcast. Of a full goal state only the goal dimensions are used, unless the network was trained on full states
        (`full_state_goals`); then a position means being there at rest. Returns float32 steps of the broadcast shape.
        Raises `VhdError` for invalid shapes or values.
        """
        return self._quantiles(starts, goals)[..., 0]

    def predict_spread(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Steps as in `predict_steps`, and their spread: the range of the predicted quantiles, in steps.

        Off the data's support the network extrapolates. The spread then includes twice the steps needed, at the data's
        speed, to travel from each end to the nearest supported position.
        """
        if len(self.config.quantiles) < 2:
            raise VhdError(
                f"this model predicts a single quantile ({self.config.quantiles[0]}), so it has no spread. "
                "Train it with at least two `quantiles`."
            )
        quantiles = self._quantiles(starts, goals)
        spread = quantiles.max(axis=-1) - quantiles.min(axis=-1)
        return quantiles[..., 0], (spread + 2 * self.steps_off_support(starts, goals)).astype(np.float32)

    def least_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """Steps that a plan needs at least, however short the network's distance; shapes as in `predict_steps`.

        0 within the data. A start or goal off the data (`RouteGraph.off_data`) is one that the network has never seen,
        and it may take a corner for a short cut: there, 0.9 of the route's steps, scaled to the network's.
        """
        here, there = np.broadcast_arrays(self._normal_places(starts), self._normal_places(goals))
        least = np.zeros(here.shape[:-1], np.float32)
        if self.routes is not None and (off := self.routes.off_data(here, there)).any():
            by_route = self.routes.steps(here[off], there[off])
            least[off] = _LEAST * self._far_scale[0] * np.where(np.isfinite(by_route), by_route, 0.0)
        return least

    def quasimetric_steps(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """Steps as in `predict_steps`, but satisfying the triangle inequality.

        d(s, g) = max_j [f(s, h_j) - f(g, h_j)]_+ or [f(h_j, g) - f(h_j, s)]_+, over 32 landmarks h_j: the landmark
        bound of graph search. d(g, g) = 0 and d(s, g) <= d(s, h) + d(h, g) for any f and any position h at rest. Needs
        64 predictions for each start and each goal.
        """
        spec = self.spec
        here, there = self._normal_places(starts), self._normal_places(goals)
        assert self.landmarks is not None
        positions = self.normalizer.select(spec.goal_dims)
        marks = positions.unnormalize(self.landmarks.places[:_MARKS])  # in farthest-point order
        rest = self._at_rest(marks)
        s, g = as_numbers("starts", starts), self._at_rest(positions.unnormalize(there))
        to_marks = self.predict_steps(s[..., None, :], marks) - self.predict_steps(g[..., None, :], marks)
        from_marks = self.predict_steps(rest, positions.unnormalize(there)[..., None, :]) - self.predict_steps(
            rest, positions.unnormalize(here)[..., None, :]
        )
        return np.maximum(np.maximum(to_marks, from_marks).max(axis=-1), 0.0)

    def _at_rest(self, places: FloatArray) -> FloatArray:
        """(..., goal_dim) -> (..., d): states at these positions with zeros elsewhere."""
        states = np.zeros((*places.shape[:-1], self.spec.state_dim), np.float32)
        states[..., list(self.spec.goal_dims)] = places
        return states

    def support(self, places: npt.ArrayLike) -> FloatArray:
        """How well the data covers positions, (..., goal_dim) or (..., d) -> (...,): 1 within the data, towards 0 far
        from it.

        1 / (1 + r), where r is the distance to the nearest landmark divided by the covering radius. Below `OFF_SUPPORT`
        (1/3: r > 2) the data was never near, as inside a wall, even if the position is within the data's limits.
        """
        return (1 / (1 + self._away(places))).astype(np.float32)

    def reachable(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> BoolArray:
        """Whether the data supports both ends and observed transitions connect them; shapes as in `predict_steps`."""
        near_start, near_goal = self._away(starts), self._away(goals)
        assert self.landmarks is not None
        supported = np.maximum(near_start, near_goal) <= 1 / OFF_SUPPORT - 1
        here, there = np.broadcast_arrays(self._landmark(starts), self._landmark(goals))
        steps = self.landmarks.between(*self.landmarks.joining(here.ravel(), there.ravel())).reshape(here.shape)
        return np.asarray(supported & np.isfinite(steps))

    def route(self, start: npt.ArrayLike, goal: npt.ArrayLike) -> Route:
        """The route from a start (d,) to a goal (goal_dim,), of any length: positions and the steps to each.

        If no observed transitions connect them, `known` is False and the route consists of the two ends. Raises
        `VhdError` without a route graph.
        """
        if self.routes is None:
            raise VhdError(
                f"{self.spec.name}: no route graph. Build one with `vhd train route {self.spec.name}` and load it with "
                "LengthPredictor.load(path, routes=...)."
            )
        s = self._checked("start", start, (self.spec.state_dim,), tuple(range(self.spec.state_dim)))
        g = self._checked_goals("goal", goal)
        found = self.routes.path(self.spec.goal_of(s), self._places(g))
        steps = float(self.predict_steps(start, goal))
        shares = found.steps / found.total if found.known else np.linspace(0, 1, len(found.steps))
        places = self.normalizer.select(self.spec.goal_dims).unnormalize(found.places)
        return Route(places, shares * steps, found.known)

    def plan_length(self, starts: npt.ArrayLike, goals: npt.ArrayLike, gamma: float = 1.0) -> IntArray:
        """L_hat = clip(gamma * (f * T_max + 1), L_min, T_max), in states, rounded up."""
        return plan_lengths(self.predict_steps(starts, goals), self.spec, gamma)

    def _normal_places(self, states: npt.ArrayLike) -> FloatArray:
        """Normalised positions (..., goal_dim) of states or positions."""
        if self.landmarks is None:
            raise VhdError(
                f"{self.spec.name}: the extent of the data is unknown. Build a route graph with `vhd train "
                f"route {self.spec.name}` and load it with LengthPredictor.load(path, routes=...)."
            )
        dims = self.spec.goal_dims
        return self._checked("places", states, (len(dims), self.spec.state_dim), dims, quiet=True)

    def _away(self, states: npt.ArrayLike) -> FloatArray:
        """(...,) distance to the nearest landmark, in radii."""
        places = self._normal_places(states)
        assert self.landmarks is not None
        return self.landmarks.away(places)

    def _landmark(self, states: npt.ArrayLike) -> IntArray:
        places = self._normal_places(states)
        assert self.landmarks is not None
        return self.landmarks.region(places)

    def steps_off_support(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """Steps between both ends and the data's support, at the data's speed; 0 if unknown."""
        if self.landmarks is None:
            return np.zeros(())
        beyond = [np.maximum(self._away(ends) - (1 / OFF_SUPPORT - 1), 0.0) for ends in (starts, goals)]
        return (beyond[0] + beyond[1]) * self.landmarks.join  # `join` steps cover one radius

    def _quantiles(self, starts: npt.ArrayLike, goals: npt.ArrayLike) -> FloatArray:
        """(..., quantiles) in steps."""
        d = self.spec.state_dim
        s = self._checked("starts", starts, (d,), tuple(range(d)))
        g = self._checked_goals("goals", goals)
        try:
            shape = np.broadcast_shapes(s.shape[:-1], g.shape[:-1])
        except ValueError as error:
            raise VhdError(
                f"starts {np.shape(starts)} and goals {np.shape(goals)} do not broadcast: all dimensions but "
                "the last must be equal, 1 or missing."
            ) from error
        flat_s = np.broadcast_to(s, (*shape, s.shape[-1])).reshape(-1, s.shape[-1])
        flat_g = np.broadcast_to(g, (*shape, g.shape[-1])).reshape(-1, g.shape[-1])
        parts = [slice(first, first + _CHUNK) for first in range(0, max(len(flat_s), 1), _CHUNK)]
        f = np.concatenate(batches_in_parallel(lambda part: self.network(flat_s[part], flat_g[part]), parts))
        steps = np.minimum(f, 1.0) * np.float32(self.spec.T_max)
        if self.routes is not None:
            region = self.routes.coarse_region if self.coarse else self.routes.region
            here, there = (region(places) for places in (self.spec.goal_of(flat_s), self._places(flat_g)))
            steps = self._far(steps, self.routes.between(*self.routes.joining(here, there)))
        return steps.reshape(*shape, f.shape[-1])

    def _far(self, steps: FloatArray, by_route: FloatArray) -> FloatArray:
        """Use the graph's steps for far pairs: (n, quantiles) steps of the network, (n,) of the graph -> (n,
        quantiles).

        The network knows no distance beyond T_max. The graph's steps are scaled to match it.
        """
        by_route = np.where(np.isfinite(by_route), by_route, 0.0)[:, None] * self._far_scale
        share = np.clip((by_route[:, :1] / self.spec.T_max - _KNOWN) / (_BEYOND - _KNOWN), 0.0, 1.0)
        return ((1 - share) * steps + share * by_route).astype(np.float32)

    @cached_property
    def _far_scale(self) -> FloatArray:
        """(quantiles,) median ratio of the network's steps to the graph's, over landmark pairs within T_max."""
        assert self.routes is not None
        rng = np.random.default_rng(0)
        first, second = rng.integers(len(self.routes.places), size=(2, _CALIBRATION))
        by_route = self.routes.between(first, second)
        known = (by_route > 0.2 * self.spec.T_max) & (by_route < 0.8 * self.spec.T_max)
        scale = np.ones(len(self.config.quantiles), np.float32)
        if known.sum() < 30:
            return scale
        rest = self.normalizer.normalize(np.zeros(self.spec.state_dim, np.float32))
        states = np.tile(rest, (2, int(known.sum()), 1))
        for end, landmarks in zip(states, (first, second), strict=True):
            end[:, list(self.spec.goal_dims)] = self.routes.places[landmarks[known]]
        f = self.network(states[0], states[1][:, list(self._goal_dims)])
        return np.median(f * self.spec.T_max / by_route[known][:, None], axis=0).astype(np.float32)

    def _places(self, goals: FloatArray) -> FloatArray:
        """(..., goal_dim) positions of normalised goals in the network's format."""
        return self.spec.goal_of(goals) if self.config.full_state_goals else goals

    def _checked_goals(self, name: str, goals: npt.ArrayLike) -> FloatArray:
        """Normalised goals in the network's format; if it uses full states, a position means one at rest."""
        spec = self.spec
        array = as_numbers(name, goals)
        if self.config.full_state_goals and array.ndim and array.shape[-1] == spec.goal_dim != spec.state_dim:
            if open_dims := spec.open_dims:
                names = ", ".join(spec.state_names[dim] for dim in open_dims)
                raise VhdError(f"{spec.name}: this predictor needs full goal states: pass {name} with {names}.")
            array = np.zeros((*array.shape[:-1], spec.state_dim), np.float32)
            array[..., list(spec.goal_dims)] = goals
        return self._checked(name, array, (len(self._goal_dims), spec.state_dim), self._goal_dims)

    def _checked(
        self,
        name: str,
        values: npt.ArrayLike,
        sizes: tuple[int, ...],
        dims: tuple[int, ...],
        quiet: bool = False,
    ) -> FloatArray:
        """Normalised values of the requested dimensions; raises `VhdError` if invalid."""
        array = as_numbers(name, values)
        if array.ndim == 0 or array.shape[-1] not in sizes:
            allowed = " or ".join(f"(..., {size})" for size in dict.fromkeys(sizes))
            raise VhdError(f"{self.spec.name}: {name} must have shape {allowed}; got {array.shape}.")
        if not np.isfinite(array).all():
            bad = np.argwhere(~np.isfinite(array))[0].tolist()
            raise VhdError(f"{self.spec.name}: {name}{bad} is NaN or infinite. Pass finite numbers.")
        if array.shape[-1] != len(dims):
            array = array[..., list(dims)]
        normal = self.normalizer.select(dims).normalize(array)
        outside = np.abs(normal) > _FAR_OUTSIDE
        if outside.any() and not quiet:
            worst = int(np.abs(normal).reshape(-1, len(dims)).max(axis=0).argmax())
            dim = dims[worst]
            warn(
                f"{self.spec.name}: {int(outside.any(axis=-1).sum())} of the {name} lie far outside the data, most in "
                f"{self.spec.state_names[dim]} (data: {self.normalizer.low[dim]:.3g} to "
                f"{self.normalizer.high[dim]:.3g}); their steps are extrapolated.",
                OutsideDataWarning,
            )
        return normal


def _graph_of(path: Path, predictor: Path | str, header: ModelHeader) -> RouteGraph:
    """Load a route graph, which must come from the same data as the predictor with that header."""
    graph, own = RouteGraph.load(path)
    if own.normalizer != header.normalizer:
        raise DataError(f"{path}: made from other data than {predictor}. Rebuild it with `vhd train route`.")
    return graph
