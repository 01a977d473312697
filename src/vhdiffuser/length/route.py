"""Routes of any length: a graph of places that the data visits, joined by moves that the data made.

D*(s, g) <= D*(s, h) + D*(h, g), used with many relays h and *observed* distances. Landmarks cover the goal space; a
hop joins two of them when states near the one were seen to move to the other; Dijkstra's algorithm adds hops up.
Three details keep routes honest and easy to follow. A move seen a little beside a landmark is shifted onto it, so that
hops do not gain the width of a region, and joining two hops costs the steps it takes to move one region's radius. A
hop's length is a low quantile of what was observed, so detours do not count. And landmarks stand at the mean of the
states around them, hops into sparse regions cost more, so routes keep to where the data is dense.
Nothing but offline states is used: no simulator, no map.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from vhdiffuser.errors import DataError
from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, load_model, save_model

if TYPE_CHECKING:
    import torch

_TENSORS = ("places", "starts", "stops", "hops", "sparsity")
_LAGS = 6
"""Different lengths of a hop that are looked at, between m and 2m steps."""
_CANDIDATES = 20_000
"""States among which landmarks are chosen, and by which speed is measured."""
_CROWD = 100_000
"""States by which landmarks are centred and density is measured."""


@dataclass(frozen=True)
class Route:
    """The way from a start to a goal: places in order, and when they are reached."""

    places: FloatArray
    """(n, goal_dim): the start, places where the data is dense, the goal."""
    steps: FloatArray
    """(n,) control steps from the start to each place, by the shortest known way."""
    known: bool
    """Whether observed moves join start and goal. If not, the route is just the two, and its steps are a guess."""

    @property
    def total(self) -> float:
        """Steps from start to goal."""
        return float(self.steps[-1])

    def at(self, steps: FloatArray) -> FloatArray:
        """(k,) steps -> (k, goal_dim) places along the route, linear between its own."""
        return np.stack([np.interp(steps, self.steps, column) for column in self.places.T], axis=1)


class RouteGraph:
    """Landmarks in normalised goal coordinates, and the hops between them."""

    def __init__(
        self,
        places: FloatArray,
        starts: IntArray,
        stops: IntArray,
        hops: FloatArray,
        sparsity: FloatArray,
        radius: float,
        join: int,
        config: RelayGraphConfig,
    ) -> None:
        """places (M, goal_dim); hops (E,) steps from landmark starts (E,) to landmark stops (E,); sparsity (M,), from 0
        where the data is dense to 1 where it is thin; `radius` to which landmarks cover the data; `join`, steps that it
        takes to move from the end of one hop to the beginning of the next."""
        M = len(places)
        if len(hops) and not 0 <= min(starts.min(), stops.min()) <= max(starts.max(), stops.max()) < M:
            raise DataError(f"the route graph has a hop beyond its {M} landmarks.")
        self.places, self.starts, self.stops, self.hops = places, starts, stops, hops
        self.sparsity, self.radius, self.join, self.config = sparsity, radius, join, config
        self._tree = cKDTree(places)
        self._hop = dict(zip(zip(starts.tolist(), stops.tolist(), strict=True), hops.tolist(), strict=True))
        cost = (hops + join) * (1 + config.sparse_cost * sparsity[stops])
        self._reversed = csr_matrix((cost, (stops, starts)), shape=(M, M))
        # Row g, filled when goal g is first asked for: steps from every landmark, and which landmark comes next.
        self._steps = np.full((M, M), np.nan, np.float32)
        self._next = np.full((M, M), -1, np.int32)

    @classmethod
    def build(cls, points: FloatArray, last: IntArray, T_max: int, config: RelayGraphConfig) -> RouteGraph:
        """points (N, goal_dim), normalised; last (N,) index of the last state of each state's episode.

        Where regions are too coarse (too many goal dimensions, too little data) there are no hops: rather no way than
        a wrong one.
        """
        places, radius = cover(points[:: max(1, len(points) // _CANDIDATES)], config.landmarks)
        crowd = points[:: max(1, len(points) // _CROWD)]
        if radius > 0:
            places, radius = centred(places, crowd)
        tree = cKDTree(places)
        near = cKDTree(crowd).query_ball_point(places, 2 * radius, p=np.inf, return_length=True)
        sparsity = 1 - np.clip(near / max(np.median(near), 1), 0, 1)
        m = steps_to_move(points, last, radius, T_max)
        hops = np.zeros((len(places),) * 2) if m is None else observed_hops(points, last, tree, radius, m, config)
        starts, stops = np.nonzero(hops)
        join = m if m is not None and radius > 0 else 0
        lengths, sparsity = hops[starts, stops].astype(np.float32), sparsity.astype(np.float32)
        return cls(places.astype(np.float32), starts, stops, lengths, sparsity, radius, join, config)

    @classmethod
    def load(cls, path: Path) -> tuple[RouteGraph, ModelHeader]:
        """Read what `save` wrote, and its header."""
        tensors, header = load_model(path, "route")
        try:
            arrays = {name: tensors[name].numpy() for name in _TENSORS}
            radius, join = header.config["radius"], header.config["join"]
            return cls(**arrays, radius=radius, join=join, config=RelayGraphConfig(**header.config["graph"])), header
        except (KeyError, TypeError) as error:
            raise DataError(f"{path}: damaged ({error}). Build it again with `vhd train route`.") from error

    def save(self, path: Path, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str) -> Path:
        """Write it, whole or not at all; a few hundred kB."""
        save_model(path, *self.model(spec, normalizer, data_fingerprint))
        return path

    def model(
        self, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str
    ) -> tuple[dict[str, torch.Tensor], ModelHeader]:
        """Tensors and header of its model file."""
        import torch

        arrays = (self.places, self.starts.astype(np.int32), self.stops.astype(np.int32), self.hops, self.sparsity)
        header = ModelHeader(
            kind="route",
            spec=spec.to_json(),
            config={"graph": asdict(self.config), "radius": self.radius, "join": self.join},
            normalizer=normalizer.to_json(),
            data_fingerprint=data_fingerprint,
        )
        return {name: torch.from_numpy(array) for name, array in zip(_TENSORS, arrays, strict=True)}, header

    def region(self, points: FloatArray) -> IntArray:
        """(..., goal_dim) -> (...,) nearest landmark."""
        return self._tree.query(points, p=np.inf)[1]

    def steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        """(B, goal_dim) and (B, goal_dim) -> (B,) steps; infinity where no way is known."""
        here, there = self.region(starts), self.region(goals)
        for goal in np.unique(there):
            self._search(int(goal))
        return self._steps[there, here]

    def all_steps(self) -> FloatArray:
        """(M, M) steps from landmark to landmark; infinity where no way is known."""
        for goal in range(len(self.places)):
            self._search(goal)
        return self._steps.T

    def path(self, start: FloatArray, goal: FloatArray) -> Route:
        """The route from start (goal_dim,) to goal (goal_dim,), normalised."""
        here, there = int(self.region(start)), int(self.region(goal))
        self._search(there)
        if not np.isfinite(self._steps[there, here]):
            return Route(np.stack([start, goal]), np.array([0.0, np.nan]), known=False)
        nodes = [here]
        while nodes[-1] != there:
            nodes.append(int(self._next[there, nodes[-1]]))
        # The landmarks of the two ends stand beside them: they give way to the ends themselves.
        places = np.concatenate([start[None], self.places[nodes[1:-1]], goal[None]])
        steps = self._steps[there, here] - self._steps[there, [here, *nodes[1:-1], there]]
        return Route(places, steps.astype(np.float64), known=True)

    def _search(self, goal: int) -> None:
        """Fill the row of a goal: the cheapest ways there, and the steps that they take."""
        if not np.isnan(self._steps[goal, goal]):
            return
        cost, following = dijkstra(self._reversed, indices=goal, return_predecessors=True)
        steps = np.full(len(cost), np.inf, np.float32)
        steps[goal] = 0.0 if len(self.hops) else np.inf  # regions without hops are too coarse to tell
        for node in np.argsort(cost)[1:].tolist():
            after = int(following[node])
            if after >= 0:
                steps[node] = steps[after] + self._hop[node, after] + (self.join if after != goal else 0)
        self._steps[goal], self._next[goal] = steps, following


def cover(points: FloatArray, count: int) -> tuple[FloatArray, float]:
    """Farthest-point sampling: at most `count` of the (n, goal_dim) points, and the radius to which they cover."""
    chosen = [0]
    distance = np.abs(points - points[0]).max(axis=1)
    while len(chosen) < min(count, len(points)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).max(axis=1))
    return points[chosen], float(distance.max())


def centred(places: FloatArray, crowd: FloatArray) -> tuple[FloatArray, float]:
    """Landmarks (M, goal_dim) at the mean of the states (n, goal_dim) nearest to them; the radius to which they cover.

    Farthest points stand at the rim of the data, along walls; means stand inside. A landmark without states stays.
    """
    M = len(places)
    region = cKDTree(places).query(crowd, p=np.inf)[1]
    count = np.bincount(region, minlength=M)
    sums = np.stack([np.bincount(region, weights=column, minlength=M) for column in crowd.T], axis=1)
    means = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], places)
    distance = cKDTree(means).query(crowd, p=np.inf)[0]
    return means, float(np.quantile(distance, 0.999))


def steps_to_move(points: FloatArray, last: IntArray, distance: float, T_max: int) -> int | None:
    """Steps in which the median state moves `distance`; none if that is more than an eighth of T_max."""
    start = np.arange(0, len(points), max(1, len(points) // _CANDIDATES))
    for lag in range(1, max(T_max // 8, 1) + 1):
        kept = start[start + lag <= last[start]]
        if len(kept) and np.median(np.abs(points[kept + lag] - points[kept]).max(axis=1)) >= distance:
            return lag
    return None


def observed_hops(
    points: FloatArray, last: IntArray, tree: cKDTree, radius: float, m: int, config: RelayGraphConfig
) -> FloatArray:
    """(M, M) steps from landmark to landmark: a low quantile of the moves of m to 2m steps seen between them.

    0 where there is no hop, as scipy's graphs want it.
    """
    M = tree.n
    lags = np.unique(np.linspace(m, 2 * m, _LAGS).round().astype(int))
    neighbours = min(config.neighbours, M) if radius > 0 else 1
    moves = max(config.moves // (len(lags) * neighbours), 1)  # of each lag
    counts = np.empty((len(lags), M * M), np.int32)
    for row, lag in zip(counts, lags, strict=True):
        t = np.flatnonzero(np.arange(len(points)) + lag <= last)
        t = t[:: max(1, len(t) // moves)]
        start = tree.query(points[t], k=[*range(1, neighbours + 1)], p=np.inf)[1]  # (n, neighbours)
        shifted = tree.data[start] + (points[t + lag] - points[t])[:, None]  # (n, neighbours, goal_dim)
        # Just over the radius: a limit of 0 would find nothing in a world of cells.
        distance, stop = tree.query(shifted, p=np.inf, distance_upper_bound=radius + 1e-6)
        known = np.isfinite(distance)
        row[:] = np.bincount(start[known] * M + stop[known], minlength=M * M)
    np.cumsum(counts, axis=0, out=counts)
    total = counts[-1]
    first = (counts >= np.maximum(config.quantile * total, 1)).argmax(axis=0)
    hops = np.where(total >= config.least, lags[first], 0).reshape(M, M)
    np.fill_diagonal(hops, 0)
    return hops
