"""Routes of any length on a graph of landmarks in the data, connected by observed moves.

D*(s, g) <= D*(s, h) + D*(h, g), with many relays h and *observed* distances. Landmarks cover the goal space; a hop
connects two of them if states near one were observed to move to the other; Dijkstra's algorithm sums the hops. Three
details keep routes unbiased and easy to follow. A move observed near a landmark is shifted onto it, so that hops do not
gain the width of a region, and joining two hops costs the steps needed to cross one radius. A hop's length is a low
quantile of the observed ones, so detours do not count. Landmarks lie at the mean of the states around them, and hops
into sparse regions cost more, so routes stay where the data is dense. Only offline states are used: no simulator and no
map.
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
from vhdiffuser.length.centring import to_the_middle
from vhdiffuser.length.config import MOST_LANDMARKS, RelayGraphConfig
from vhdiffuser.length.grid import LandmarkGrid
from vhdiffuser.length.hops import CANDIDATES, centred, cover, nearest_of, observed_hops, steps_to_move
from vhdiffuser.length.route_table import RouteTable, graph_digest, table_path
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import BoolArray, EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.format import ModelHeader, Tensors, load_model, save_model

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from scipy.spatial import cKDTree

_TENSORS = ("places", "starts", "stops", "hops", "sparsity")
_FEW = 64
"""Up to this many points are compared with all landmarks; more use a tree, which takes a moment to import."""
_MANY = 4096
"""Pairs up to which their routes are followed rather than the rows of all their goals filled."""
_CROWD = 100_000
"""Number of states used to centre landmarks and measure density."""
_ALONG = 9
"""Points per hop that must lie outside a forbidden region."""
OFF_DATA = 1.5
"""Distance from every landmark, in radii, beyond which a start or goal is off the data: in a corner, or along a wall
that the data never touched. Networks extrapolate there."""
_NEIGHBOUR = 2.0
"""Radii within which a landmark without hops is replaced by the nearest one with hops."""


@dataclass(frozen=True)
class Route:
    """A route from a start to a goal: positions in order, and the steps to reach them."""

    places: FloatArray
    """(n, goal_dim): the start, positions where the data is dense, the goal."""
    steps: FloatArray
    """(n,) control steps from the start to each position, along the shortest known path."""
    known: bool
    """Whether observed transitions connect start and goal. If not, the route consists of the two ends, and its steps
    are a guess."""

    @property
    def total(self) -> float:
        """Steps from start to goal."""
        return float(self.steps[-1])

    def at(self, steps: FloatArray) -> FloatArray:
        """Positions (k, goal_dim) after (k,) steps along the route, linearly interpolated."""
        found = np.empty((len(steps), self.places.shape[1]))
        for dim, column in enumerate(self.places.T):
            found[:, dim] = np.interp(steps, self.steps, column)
        return found

    def evenly(self, count: int) -> FloatArray:
        """(count, goal_dim) positions, evenly spaced in steps."""
        steps = np.arange(count) * (self.total / (count - 1))
        steps[-1] = self.total
        return self.at(steps)


class RouteGraph:
    """Landmarks in normalised goal coordinates, and hops between them."""

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
        centring: FloatArray | None = None,
    ) -> None:
        """places (M, goal_dim); hops (E,) steps from landmark starts (E,) to landmark stops (E,); sparsity (M,), from 0
        where the data is dense to 1 where it is sparse; `radius` within which landmarks cover the data; `join`, steps
        from the end of one hop to the start of the next; `centring` (goal_dim,), the config's distance in normalised
        units (default: routes are not centred)."""
        M = len(places)
        if len(hops) and not 0 <= min(starts.min(), stops.min()) <= max(starts.max(), stops.max()) < M:
            raise DataError(f"the route graph has a hop beyond its {M} landmarks.")
        self.places, self.starts, self.stops, self.hops = places, starts, stops, hops
        self.sparsity, self.radius, self.join, self.config = sparsity, radius, join, config
        self.centring = np.zeros(places.shape[1]) if centring is None else centring
        self._hop = dict(zip(zip(starts.tolist(), stops.tolist(), strict=True), hops.tolist(), strict=True))
        self._table_file: Path | None = None
        # Row g is filled on first use of goal g: steps from each landmark, and the next landmark on the path.
        self._steps = np.full((M, M), np.nan, np.float32)
        self._next = np.full((M, M), -1, np.int32)

    @classmethod
    def build(
        cls,
        points: FloatArray,
        last: IntArray,
        T_max: int,
        config: RelayGraphConfig,
        scale: FloatArray | float = 1.0,
    ) -> RouteGraph:
        """Build a graph from points (N, goal_dim), normalised; last (N,) is the index of the last state in each state's
        episode; `scale` the environment's units per normalised unit of each dimension.

        If regions are too coarse (too many goal dimensions, too little data) there are no hops: no route is better than
        a wrong one.
        """
        places, radius = cover(points[:: max(1, len(points) // CANDIDATES)], config.landmarks)
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
        centring = config.centring / np.broadcast_to(scale, places.shape[1])
        return cls(places.astype(np.float32), starts, stops, lengths, sparsity, radius, join, config, centring)

    @classmethod
    def load(cls, path: Path) -> tuple[RouteGraph, ModelHeader]:
        """Read a file written by `save`; returns the graph and the header."""
        tensors, header = load_model(path, "route")
        try:
            arrays = {name: tensors[name] for name in _TENSORS}
            _check_arrays(**arrays)
            radius, join = as_amount("radius", header.config["radius"]), as_whole("join", header.config["join"])
            config = from_fields(RelayGraphConfig, header.config["graph"], "graph")
            # Up to version 0.2, `centring` was a number of radii.
            dims = arrays["places"].shape[1]
            normalised = header.config.get("centring", [config.centring * radius] * dims)
            centring = np.array([as_amount("centring", value) for value in normalised])
            if len(centring) != dims:
                raise DataError(f"centring has {len(centring)} numbers for {dims} dimensions")
            graph = cls(**arrays, radius=radius, join=join, config=config, centring=centring)
        except (KeyError, TypeError, VhdError) as error:
            raise DataError(f"{path}: damaged ({error}). Rebuild it with `vhd train route`.") from error
        graph._table_file = table_path(path) if table_path(path).is_file() else None
        return graph, header

    def save(self, path: Path, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str) -> Path:
        """Write the graph (a few hundred kB) and a table of its routes atomically."""
        save_model(path, *self.model(spec, normalizer, data_fingerprint))
        self.save_table(path)
        return path

    def save_table(self, path: Path) -> None:
        """Write the table of all routes next to the graph's file `path`, which speeds up the first plan."""
        self.all_steps()
        table = RouteTable.of(self.starts, self.stops, self.hops, self.join, self._next)
        if table is not None:
            table.save(table_path(path), self.places, self._digest)

    @property
    def _digest(self) -> bytes:
        """Of all that routes depend on."""
        return graph_digest(self.starts, self.stops, self.hops, self.sparsity, self.join, self.config.sparse_cost)

    @cached_property
    def _table(self) -> RouteTable | None:
        if self._table_file is None:
            return None
        return RouteTable.read(self._table_file, self.starts, self.stops, self.hops, self.join, self._digest)

    def model(self, spec: EnvSpec, normalizer: Normalizer, data_fingerprint: str) -> tuple[Tensors, ModelHeader]:
        """Tensors and header of the model file."""
        arrays = (self.places, self.starts.astype(np.int32), self.stops.astype(np.int32), self.hops, self.sparsity)
        header = ModelHeader(
            kind="route",
            spec=spec.to_json(),
            config={
                "graph": asdict(self.config),
                "radius": self.radius,
                "join": self.join,
                "centring": self.centring.tolist(),
            },
            normalizer=normalizer.to_json(),
            data_fingerprint=data_fingerprint,
        )
        return dict(zip(_TENSORS, arrays, strict=True)), header

    def region(self, points: FloatArray) -> IntArray:
        """Nearest landmarks, (..., goal_dim) -> (...,)."""
        flat = points.reshape(-1, points.shape[-1])
        if len(flat) > _FEW:
            return self._tree.query(points, p=np.inf)[1]
        distance = np.abs(flat[:, :1] - self._columns[0])  # (n, M)
        for dim in range(1, flat.shape[1]):
            np.maximum(distance, np.abs(flat[:, dim, None] - self._columns[dim]), out=distance)
        return distance.argmin(axis=1).reshape(points.shape[:-1])

    def coarse_region(self, points: FloatArray) -> IntArray:
        """As `region` for (n, goal_dim) points, to within a cell of a fine grid, at a twentieth of the cost."""
        return self._grid(points) if LandmarkGrid.serves(self.places) else self.region(points)

    @cached_property
    def _grid(self) -> LandmarkGrid:
        return LandmarkGrid(self.places, self.radius, lambda points: self._tree.query(points, p=np.inf)[1])

    def away(self, points: FloatArray) -> FloatArray:
        """Distance to the nearest landmark in radii, (..., goal_dim) -> (...,): at most about 1 within the data."""
        nearest = self.places[self.region(points)]
        return np.abs(points - nearest).max(axis=-1) / max(self.radius, 1e-6)

    def off_data(self, starts: FloatArray, goals: FloatArray) -> BoolArray:
        """(B,) whether a start (B, goal_dim) or its goal (B, goal_dim) is off the data."""
        return self.away(np.stack([starts, goals])).max(axis=0) > OFF_DATA

    def steps(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        """(B,) steps between positions (B, goal_dim) and (B, goal_dim); infinity if no route is known."""
        return self.between(*self.joining(self.region(starts), self.region(goals)))

    def joining(self, here: IntArray, there: IntArray) -> tuple[IntArray, IntArray]:
        """The landmarks at which routes from landmarks (B,) to landmarks (B,) begin and end.

        A few landmarks stand among so few states that no hop leaves or enters them; a close neighbour replaces them.
        """
        leave, enter = self._joins
        return leave[here], enter[there]

    @cached_property
    def _joins(self) -> tuple[IntArray, IntArray]:
        """(M,) the landmark that a hop leaves, and that a hop enters, nearest to each landmark: usually itself."""
        limit = _NEIGHBOUR * self.radius
        return nearest_of(self.places, self.starts, limit), nearest_of(self.places, self.stops, limit)

    def between(self, here: IntArray, there: IntArray) -> FloatArray:
        """(B,) and (B,) landmarks -> (B,) steps; infinity if no route is known."""
        goals = np.flatnonzero(np.bincount(there, minlength=len(self.places)))
        unknown = goals[np.isnan(self._steps[goals, goals])]
        if len(unknown) > _FEW and self._table is not None and len(here) <= _MANY:
            return self._table.between(here, there)
        if len(unknown) > _FEW and self._table is None:
            self.all_steps()
        for goal in unknown.tolist():
            self._search(goal)
        return self._steps[there, here]

    def all_steps(self) -> FloatArray:
        """(M, M) steps between all landmarks; infinity if no route is known."""
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
        for nodes in np.argsort(cost, axis=1).T[1:]:  # for all goals at once, in the order of `_search`
            after = following[rows, nodes]
            row = rows[after >= 0]
            node, after = nodes[row], after[row]
            steps[row, node] = steps[row, after] + hop[node, after] + np.where(after != goals[row], self.join, 0)
        self._steps[goals], self._next[goals] = steps, following
        return self._steps.T

    @cached_property
    def _columns(self) -> FloatArray:
        """(goal_dim, M) positions of landmarks."""
        return np.ascontiguousarray(self.places.T)

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self.places)

    @cached_property
    def _reversed(self) -> csr_matrix:
        """Costs of hops from goal to start, in scipy's sparse format."""
        from scipy.sparse import csr_matrix

        cost = (self.hops + self.join) * (1 + self.config.sparse_cost * self.sparsity[self.stops])
        return csr_matrix((cost, (self.stops, self.starts)), shape=(len(self.places),) * 2)

    def path(self, start: FloatArray, goal: FloatArray) -> Route:
        """The route from start (goal_dim,) to goal (goal_dim,), normalised."""
        ends = self.region(np.stack([start, goal]))
        here, there = (int(node[0]) for node in self.joining(ends[:1], ends[1:]))
        self._search(there)
        if not np.isfinite(self._steps[there, here]):
            return Route(np.stack([start, goal]), np.array([0.0, np.nan]), known=False)
        nodes, following = [here], self._next[there].item
        while nodes[-1] != there:
            nodes.append(following(nodes[-1]))
        # Replace the first and last landmark by start and goal.
        places = np.concatenate([start[None], self.places[nodes[1:-1]], goal[None]])
        steps = self._steps[there, here] - self._steps[there, [here, *nodes[1:-1], there]]
        if self.centring.all() and len(places) > 2:
            places = to_the_middle(places, self.places, self.centring, 0.5 * self.radius)
            steps = np.linspace(0.0, steps[-1], len(places))
        return Route(places, steps.astype(np.float64), known=True)

    def outside(self, forbidden: Callable[[FloatArray], BoolArray]) -> RouteGraph | None:
        """The graph without hops through a forbidden region; None if no hops remain.

        `forbidden` maps (n, goal_dim) normalised positions to (n,) booleans.
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
            self.centring,
        )

    def _search(self, goal: int) -> None:
        """Fill a goal's row: cheapest paths to it, and their steps."""
        if not np.isnan(self._steps[goal, goal]):
            return
        if self._table is not None:
            self._steps[goal], self._next[goal] = self._table.towards(goal)
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
    """Raise an error if the arrays do not form a graph."""
    if places.ndim != 2 or not 1 <= len(places) <= MOST_LANDMARKS or not places.shape[1]:
        raise DataError(f"places {places.shape} are not landmarks (at most {MOST_LANDMARKS:,})")
    if sparsity.shape != places.shape[:1] or not starts.ndim == 1 or not starts.shape == stops.shape == hops.shape:
        raise DataError("its arrays disagree on the number of landmarks or hops")
    if starts.dtype.kind != "i" or stops.dtype.kind != "i" or (hops <= 0).any():
        raise DataError("a hop does not connect two landmarks in a positive number of steps")
