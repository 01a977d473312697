"""Routes of any length: a graph of landmarks in the data, connected by observed moves.

D*(s, g) <= D*(s, h) + D*(h, g), with many relays h and *observed* distances. Landmarks cover the goal space; a hop
connects two of them if states near one were observed to move to the other; Dijkstra's algorithm sums the hops.
Three details keep routes unbiased and easy to follow. A move observed near a landmark is shifted onto it, so that
hops do not gain the width of a region, and joining two hops costs the steps needed to move one region's radius. A
hop's length is a low quantile of the observed ones, so detours do not count. Landmarks lie at the mean of the
states around them and hops into sparse regions cost more, so routes stay where the data is dense.
Only offline states are used: no simulator, no map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.arguments import as_amount, as_whole, from_fields
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.length.config import MOST_LANDMARKS, RelayGraphConfig
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, Tensors, load_model, save_model

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.spatial import cKDTree

_TENSORS = ("places", "starts", "stops", "hops", "sparsity")
_FEW = 64
"""Points up to which all landmarks are compared; more are looked up in a tree, which takes a moment to import."""
_LAGS = 6
"""Number of hop lengths tried, between m and 2m steps."""
_CANDIDATES = 20_000
"""States from which landmarks are chosen and speed is measured."""
_CENTRINGS = 4
"""Times that places of a route are moved towards the middle of the data around them."""
_ALONG = 9
"""Points of a hop that must lie outside a forbidden region."""
_CROWD = 100_000
"""States used to centre landmarks and measure density."""


@dataclass(frozen=True)
class Route:
    """A route from a start to a goal: places in order, and the steps to reach them."""

    places: FloatArray
    """(n, goal_dim): the start, places where the data is dense, the goal."""
    steps: FloatArray
    """(n,) control steps from the start to each place, along the shortest known path."""
    known: bool
    """Whether observed moves connect start and goal. If not, the route is just the two, and its steps are a guess."""

    @property
    def total(self) -> float:
        """Steps from start to goal."""
        return float(self.steps[-1])

    def at(self, steps: FloatArray) -> FloatArray:
        """(k,) steps -> (k, goal_dim) places along the route, linearly interpolated."""
        found = np.empty((len(steps), self.places.shape[1]))
        for dim, column in enumerate(self.places.T):
            found[:, dim] = np.interp(steps, self.steps, column)
        return found

    def evenly(self, count: int) -> FloatArray:
        """(count, goal_dim) places, as many steps apart."""
        steps = np.arange(count) * (self.total / (count - 1))
        steps[-1] = self.total
        return self.at(steps)


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
        self._hop = dict(zip(zip(starts.tolist(), stops.tolist(), strict=True), hops.tolist(), strict=True))
        # Row g is filled on first use of goal g: steps from every landmark, and the next landmark on the path.
        self._steps = np.full((M, M), np.nan, np.float32)
        self._next = np.full((M, M), -1, np.int32)

    @classmethod
    def build(cls, points: FloatArray, last: IntArray, T_max: int, config: RelayGraphConfig) -> RouteGraph:
        """points (N, goal_dim), normalised; last (N,) index of the last state of each state's episode.

        If regions are too coarse (too many goal dimensions, too little data) there are no hops: better no route than a
        wrong one.
        """
        places, radius = cover(points[:: max(1, len(points) // _CANDIDATES)], config.landmarks)
        crowd = points[:: max(1, len(points) // _CROWD)]
        if radius > 0:
            places, radius = centred(places, crowd)
        from scipy.spatial import cKDTree

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
        """Read a file written by `save`; returns the graph and the header."""
        tensors, header = load_model(path, "route")
        try:
            arrays = {name: tensors[name] for name in _TENSORS}
            _check_arrays(**arrays)
            radius, join = as_amount("radius", header.config["radius"]), as_whole("join", header.config["join"])
            config = from_fields(RelayGraphConfig, header.config["graph"], "graph")
            return cls(**arrays, radius=radius, join=join, config=config), header
        except (KeyError, TypeError, VhdError) as error:
            raise DataError(f"{path}: damaged ({error}). Build it again with `vhd train route`.") from error

    def save(self, path: Path, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str) -> Path:
        """Write the graph atomically; a few hundred kB."""
        save_model(path, *self.model(spec, normalizer, data_fingerprint))
        return path

    def model(self, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str) -> tuple[Tensors, ModelHeader]:
        """Tensors and header of its model file."""
        arrays = (self.places, self.starts.astype(np.int32), self.stops.astype(np.int32), self.hops, self.sparsity)
        header = ModelHeader(
            kind="route",
            spec=spec.to_json(),
            config={"graph": asdict(self.config), "radius": self.radius, "join": self.join},
            normalizer=normalizer.to_json(),
            data_fingerprint=data_fingerprint,
        )
        return dict(zip(_TENSORS, arrays, strict=True)), header

    def region(self, points: FloatArray) -> IntArray:
        """(..., goal_dim) -> (...,) nearest landmark."""
        flat = points.reshape(-1, points.shape[-1])
        if len(flat) > _FEW:
            return self._tree.query(points, p=np.inf)[1]
        distance = np.abs(flat[:, :1] - self._columns[0])  # (n, M)
        for dim in range(1, flat.shape[1]):
            np.maximum(distance, np.abs(flat[:, dim, None] - self._columns[dim]), out=distance)
        return distance.argmin(axis=1).reshape(points.shape[:-1])

    def away(self, points: FloatArray) -> FloatArray:
        """(..., goal_dim) -> (...,) distance from the nearest landmark, in radii: at most about 1 within the data."""
        nearest = self.places[self.region(points)]
        return np.abs(points - nearest).max(axis=-1) / max(self.radius, 1e-6)

    def steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        """(B, goal_dim) and (B, goal_dim) -> (B,) steps; infinity if no route is known."""
        return self.between(self.region(starts), self.region(goals))

    def between(self, here: IntArray, there: IntArray) -> FloatArray:
        """(B,) and (B,) landmarks -> (B,) steps; infinity if no route is known."""
        for goal in set(there.tolist()):
            self._search(goal)
        return self._steps[there, here]

    def all_steps(self) -> FloatArray:
        """(M, M) steps from landmark to landmark; infinity if no route is known."""
        from scipy.sparse.csgraph import dijkstra

        M = len(self.places)
        goals = np.flatnonzero(np.isnan(self._steps.diagonal()))  # not searched yet
        if not len(goals):
            return self._steps.T
        cost, following = dijkstra(self._reversed, indices=goals, return_predecessors=True)
        hop = np.zeros((M, M), np.float32)
        hop[self.starts, self.stops] = self.hops
        steps = np.full((len(goals), M), np.inf, np.float32)
        rows = np.arange(len(goals))
        steps[rows, goals] = 0.0 if len(self.hops) else np.inf
        for nodes in np.argsort(cost, axis=1).T[1:]:  # of every goal at once, in the order of `_search`
            after = following[rows, nodes]
            row = rows[after >= 0]
            node, after = nodes[row], after[row]
            steps[row, node] = steps[row, after] + hop[node, after] + np.where(after != goals[row], self.join, 0)
        self._steps[goals], self._next[goals] = steps, following
        return self._steps.T

    @cached_property
    def _columns(self) -> FloatArray:
        """(goal_dim, M) places of landmarks."""
        return np.ascontiguousarray(self.places.T)

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self.places)

    @cached_property
    def _reversed(self) -> csr_matrix:
        """The hops' costs from goal to start, as scipy's graphs want them."""
        from scipy.sparse import csr_matrix

        cost = (self.hops + self.join) * (1 + self.config.sparse_cost * self.sparsity[self.stops])
        return csr_matrix((cost, (self.stops, self.starts)), shape=(len(self.places),) * 2)

    def path(self, start: FloatArray, goal: FloatArray) -> Route:
        """The route from start (goal_dim,) to goal (goal_dim,), normalised."""
        here, there = self.region(np.stack([start, goal])).tolist()
        self._search(there)
        if not np.isfinite(self._steps[there, here]):
            return Route(np.stack([start, goal]), np.array([0.0, np.nan]), known=False)
        nodes, following = [here], self._next[there].item
        while nodes[-1] != there:
            nodes.append(following(nodes[-1]))
        # The ends replace their nearest landmarks.
        places = np.concatenate([start[None], self.places[nodes[1:-1]], goal[None]])
        steps = self._steps[there, here] - self._steps[there, [here, *nodes[1:-1], there]]
        if self.config.centring and len(places) > 2:
            places = self._centred(places)
            steps = np.linspace(0.0, steps[-1], len(places))
        return Route(places, steps.astype(np.float64), known=True)

    def _centred(self, path: FloatArray) -> FloatArray:
        """A path (n, goal_dim) relaxed to the middle of the data, as points half a radius apart.

        Landmarks cover the data evenly, so the mean of those around a point lies further from its edge, and no further
        than the middle of a corridor.
        """
        length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
        points = evenly(path, max(3, int(length / (0.5 * self.radius)) + 1))
        for _ in range(_CENTRINGS):
            around = self._tree.query_ball_point(points[1:-1], self.config.centring * self.radius, p=np.inf)
            pairs = zip(around, points[1:-1], strict=True)
            points[1:-1] = [self.places[near].mean(axis=0) if near else own for near, own in pairs]
            points[1:-1] = (points[:-2] + 2 * points[1:-1] + points[2:]) / 4
            points = evenly(points, len(points))
        return points.astype(np.float32)

    def outside(self, forbidden: Callable[[FloatArray], BoolArray]) -> RouteGraph | None:
        """The graph without hops through a region; None if nothing is left of it.

        `forbidden` maps (n, goal_dim) normalised places to (n,).
        """
        along = np.linspace(0, 1, _ALONG)[:, None, None]
        ways = (1 - along) * self.places[self.starts] + along * self.places[self.stops]  # (_ALONG, E, goal_dim)
        free = ~forbidden(ways.reshape(-1, ways.shape[-1])).reshape(ways.shape[:2]).any(axis=0)  # (E,)
        allowed = ~forbidden(self.places)  # (M,)
        if not free.any():
            return None
        number = np.cumsum(allowed) - 1
        starts, stops = number[self.starts[free]], number[self.stops[free]]
        return RouteGraph(
            self.places[allowed],
            starts,
            stops,
            self.hops[free],
            self.sparsity[allowed],
            self.radius,
            self.join,
            self.config,
        )

    def _search(self, goal: int) -> None:
        """Fill the row of a goal: the cheapest paths to it, and their steps."""
        if not np.isnan(self._steps[goal, goal]):
            return
        from scipy.sparse.csgraph import dijkstra

        cost, following = dijkstra(self._reversed, indices=goal, return_predecessors=True)
        steps = np.full(len(cost), np.inf, np.float32)
        steps[goal] = 0.0 if len(self.hops) else np.inf  # without hops, regions are too coarse
        for node in np.argsort(cost)[1:].tolist():
            after = int(following[node])
            if after >= 0:
                steps[node] = steps[after] + self._hop[node, after] + (self.join if after != goal else 0)
        self._steps[goal], self._next[goal] = steps, following


def _check_arrays(
    places: FloatArray, starts: IntArray, stops: IntArray, hops: FloatArray, sparsity: FloatArray
) -> None:
    """Refuse arrays that are no graph."""
    if places.ndim != 2 or not 1 <= len(places) <= MOST_LANDMARKS or not places.shape[1]:
        raise DataError(f"places {places.shape} are not landmarks, of which there may be {MOST_LANDMARKS:,}")
    if sparsity.shape != places.shape[:1] or not starts.ndim == 1 or not starts.shape == stops.shape == hops.shape:
        raise DataError("its arrays disagree about the number of landmarks or hops")
    if starts.dtype.kind != "i" or stops.dtype.kind != "i" or (hops <= 0).any():
        raise DataError("a hop does not lead from landmark to landmark in a number of steps")


def cover(points: FloatArray, count: int) -> tuple[FloatArray, float]:
    """Farthest-point sampling: at most `count` of the (n, goal_dim) points, and their covering radius."""
    chosen = [0]
    distance = np.abs(points - points[0]).max(axis=1)
    while len(chosen) < min(count, len(points)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(points - points[chosen[-1]]).max(axis=1))
    return points[chosen], float(distance.max())


def centred(places: FloatArray, crowd: FloatArray) -> tuple[FloatArray, float]:
    """Landmarks (M, goal_dim) moved to the mean of the states (n, goal_dim) nearest to them; and their covering radius.

    Farthest points lie at the edge of the data, along walls; means lie inside. A landmark without states stays.
    """
    from scipy.spatial import cKDTree

    M = len(places)
    region = cKDTree(places).query(crowd, p=np.inf)[1]
    count = np.bincount(region, minlength=M)
    sums = np.stack([np.bincount(region, weights=column, minlength=M) for column in crowd.T], axis=1)
    means = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], places)
    distance = cKDTree(means).query(crowd, p=np.inf)[0]
    return means, float(np.quantile(distance, 0.999))


def evenly(path: FloatArray, count: int) -> FloatArray:
    """(count, goal_dim) points evenly along a path (n, goal_dim)."""
    travelled = np.cumsum(np.linalg.norm(np.diff(path, axis=0, prepend=path[:1]), axis=1))
    distances = np.linspace(0.0, travelled[-1], count)
    return np.stack([np.interp(distances, travelled, column) for column in path.T], axis=1)


def steps_to_move(points: FloatArray, last: IntArray, distance: float, T_max: int) -> int | None:
    """Steps in which a travelling state moves `distance`; none if that is more than an eighth of T_max.

    Of all states, the half that gets furthest within an eighth of T_max travels: the others may stand about.
    """
    start = np.arange(0, len(points), max(1, len(points) // _CANDIDATES))
    longest = max(T_max // 8, 1)
    reached = np.minimum(start + longest, last[start])
    total = np.abs(points[reached] - points[start]).max(axis=1)
    start = start[total >= np.median(total)]
    for lag in range(1, longest + 1):
        kept = start[start + lag <= last[start]]
        if len(kept) and np.median(np.abs(points[kept + lag] - points[kept]).max(axis=1)) >= distance:
            return lag
    return None


def observed_hops(
    points: FloatArray, last: IntArray, tree: cKDTree, radius: float, m: int, config: RelayGraphConfig
) -> FloatArray:
    """(M, M) steps from landmark to landmark: a low quantile of the observed moves of m to 2m steps.

    0 where there is no hop, as scipy's graphs require.
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
        # Just over the radius: a limit of 0 would find nothing in a grid world.
        distance, stop = tree.query(shifted, p=np.inf, distance_upper_bound=radius + 1e-6)
        known = np.isfinite(distance)
        row[:] = np.bincount(start[known] * M + stop[known], minlength=M * M)
    np.cumsum(counts, axis=0, out=counts)
    total = counts[-1]
    first = (counts >= np.maximum(config.quantile * total, 1)).argmax(axis=0)
    hops = np.where(total >= config.least, lags[first], 0).reshape(M, M)
    np.fill_diagonal(hops, 0)
    return hops
