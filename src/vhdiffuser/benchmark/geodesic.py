"""True shortest-path distance in a maze, on a fine grid. For evaluation only: learning code must not use it."""

from __future__ import annotations

from functools import cached_property
from math import gcd, hypot
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.walls import extent, narrowest, wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, FloatArray, Instance, IntArray

_POINTS_PER_WALL = 20
_REACH = 3
"""Grid edges span up to this many rows and columns: 32 directions, lengths accurate to 1.4 %."""
_LANDMARKS = 40
_TELLING = 6
"""Number of landmarks that bound the search for one pair, besides the nearest and farthest of either end."""


class Geodesic:
    """Dijkstra's algorithm on a grid over the free space between wall boxes."""

    def __init__(self, walls: FloatArray, spacing: float, clearance: float) -> None:
        """Walls (n, 4) as x_low, x_high, y_low, y_high; the moving point keeps `clearance` from them."""
        self.spacing, self.clearance = spacing, clearance
        low, high = extent(walls)
        self.x, self.y = (a + spacing * np.arange(round((b - a) / spacing) + 1) for a, b in zip(low, high, strict=True))
        """(n,) and (m,) coordinates of the grid."""
        points = np.stack(np.meshgrid(self.x, self.y, indexing="ij"), axis=-1)  # (n, m, 2)
        self.free = wall_distance(walls, points) >= clearance - 1e-6
        """(n, m) bool."""
        if not self.free.any():
            raise VhdError(f"no free space at a clearance of {clearance}. Check the walls and the radius.")
        self._number = np.full(self.free.shape, -1)
        self._number[self.free] = np.arange(self.free.sum())
        self._nodes = cKDTree(points[self.free])
        self._graph = self._edges()
        self._known: dict[tuple[bytes, bytes], float] = {}

    def _edges(self) -> csr_matrix:
        """Straight edges in 32 directions, both ways; all grid points along them must be free."""
        starts, stops, lengths = [], [], []
        rows, columns = self.free.shape
        for dr in range(_REACH + 1):
            for dc in range(-_REACH, _REACH + 1):
                if (dr, dc) <= (0, 0) or gcd(dr, abs(dc)) != 1:
                    continue

                def shifted(grid: npt.NDArray[Any], r: int, c: int, dr: int = dr, dc: int = dc) -> npt.NDArray[Any]:
                    left = max(0, -dc) + c
                    return grid[r : r + rows - dr, left : left + columns - abs(dc)]

                shares = np.arange(3 * _REACH + 1) / (3 * _REACH)
                passed = {(round(share * dr), round(share * dc)) for share in shares}
                clear = np.logical_and.reduce([shifted(self.free, r, c) for r, c in passed])
                starts.append(shifted(self._number, 0, 0)[clear])
                stops.append(shifted(self._number, dr, dc)[clear])
                lengths.append(np.full(clear.sum(), hypot(dr, dc) * self.spacing))
        count = self._nodes.n
        edges = (np.concatenate(lengths), (np.concatenate(starts), np.concatenate(stops)))
        one_way = csr_matrix(edges, shape=(count, count))
        return (one_way + one_way.T).tocsr()

    def _node_of(self, points: FloatArray) -> IntArray:
        """Indices (n,) of the free nodes nearest to (n, 2) points."""
        distance, node = self._nodes.query(points)
        outside = distance > self.clearance + self.spacing
        if outside.any():
            raise VhdError(
                f"point {np.asarray(points)[outside][0].round(3).tolist()} lies in a wall or outside the maze; "
                "distances are defined in free space only."
            )
        return node

    def field(self, goal: FloatArray) -> FloatArray:
        """(n, m) distance from each grid point to a goal (2,); NaN in walls, infinity if there is no path."""
        distance = np.full(self.free.shape, np.nan)
        distance[self.free] = dijkstra(self._graph, indices=self._node_of(goal[None])[0])
        return distance

    def distance(self, starts: FloatArray, goals: FloatArray) -> FloatArray:
        """(n,) shortest distances between (n, 2) starts and goals."""
        from_node, to_node = self._node_of(starts), self._node_of(goals)
        result = np.empty(len(starts))
        for node in np.unique(to_node):
            pairs = np.flatnonzero(to_node == node)
            if len(pairs) == 1:
                result[pairs] = self._between(int(node), int(from_node[pairs[0]]))
            else:  # one search serves all pairs with this goal
                result[pairs] = dijkstra(self._graph, indices=node)[from_node[pairs]]
        # Rounding to grid points can shorten a path by one spacing; no path is shorter than the straight line.
        return np.maximum(result, np.linalg.norm(starts - goals, axis=1))

    def _between(self, goal: int, start: int) -> float:
        """Shortest distance between two nodes, searched among nodes that may lie on a shortest path.

        By the triangle inequality, distances from landmarks bound all others from above and below.
        """
        ends = self._from_landmarks[:, [goal, start]]  # (landmarks, 2)
        seen = np.flatnonzero(np.isfinite(ends).all(axis=1))
        if len(seen) == 0:
            return float(dijkstra(self._graph, indices=goal)[start])
        ends = ends[seen]
        longest = ends.sum(axis=1).min() * (1 + 1e-9)
        apart = np.argsort(np.abs(ends[:, 0] - ends[:, 1]))[-_TELLING:]
        telling = seen[np.unique(np.concatenate([apart, ends.argmin(axis=0), ends.argmax(axis=0)]))]
        away = self._from_landmarks[telling]
        least = sum(np.abs(away - away[:, [end]]).max(axis=0) for end in (goal, start))
        nodes = np.flatnonzero(least <= longest)
        among = self._graph[nodes][:, nodes]
        return float(dijkstra(among, indices=np.searchsorted(nodes, goal))[np.searchsorted(nodes, start)])

    @cached_property
    def _from_landmarks(self) -> FloatArray:
        """(landmarks, nodes) shortest distances."""
        nodes = np.unique(np.linspace(0, self._nodes.n - 1, _LANDMARKS).astype(int))
        return dijkstra(self._graph, indices=nodes)

    def of_instance(self, spec: EnvSpec, instance: Instance) -> float:
        """Shortest distance from an instance's start to its goal; cached, since all protocols and methods need it."""
        start, goal = spec.place_of(instance.start), instance.goal
        key = start.tobytes(), goal.tobytes()
        if key not in self._known:
            self._known[key] = float(self.distance(start[None], goal[None])[0])
        return self._known[key]


def make_geodesic(environment: Environment) -> Geodesic | None:
    """The grid of an environment's maze, 20 points per narrowest wall; None without walls."""
    geometry = environment.geometry
    if not geometry.is_maze:
        return None
    spacing = float(np.round(narrowest(geometry.walls) / _POINTS_PER_WALL, 9))
    return Geodesic(geometry.walls, spacing, geometry.radius if geometry.clearance is None else geometry.clearance)
