"""All cheapest routes of a route graph in one small file, so that planning needs neither a search nor scipy.

For each landmark and goal, the file stores which of the landmark's hops the route takes. These are the same routes that
a search finds (with the same tie-breaking), so the file is optional.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vhdiffuser.errors import DataError
from vhdiffuser.files import atomic_path
from vhdiffuser.reading import read_npz
from vhdiffuser.types import FloatArray, IntArray

NONE = 255
"""Code for no hop: the landmark is the goal, or no route leads to it."""
_BITS = 10
"""Bits per coordinate for ordering goals: with neighbours next to each other, the file is three times smaller."""


def table_path(graph: Path) -> Path:
    """Path of the table, next to the graph's file."""
    return graph.with_suffix(".table.npz")


@dataclass(frozen=True)
class RouteTable:
    """The next hop for each landmark and goal."""

    starts: IntArray
    """(E,) start landmarks of the hops, ascending."""
    stops: IntArray
    """(E,) end landmarks of the hops, ascending for each start."""
    costs: FloatArray
    """(E,) control steps of each hop."""
    join: int
    """Control steps between two hops."""
    choice: npt.NDArray[np.uint8]
    """(M landmarks, M goals) index of the landmark's first hop on the route to the goal, or `NONE`."""

    @classmethod
    def of(
        cls, starts: IntArray, stops: IntArray, hops: FloatArray, join: int, following: IntArray
    ) -> RouteTable | None:
        """Build the table from a graph's hops and `following` (M goals, M landmarks), the next landmark on each route
        or a negative number. None if a table cannot represent the graph: fractional steps, or too many hops from one
        landmark."""
        order, M = np.lexsort((stops, starts)), len(following)
        starts, stops = starts[order], stops[order]
        number = np.arange(len(starts)) - np.searchsorted(starts, starts)  # among its landmark's hops
        if not len(starts) or number.max() >= NONE or (hops % 1).any():
            return None
        hop = np.full((M, M), NONE, np.uint8)
        hop[starts, stops] = number
        landmarks = np.arange(M)[:, None]
        choice = np.where(following.T >= 0, hop[landmarks, np.maximum(following.T, 0)], NONE).astype(np.uint8)
        return cls(starts, stops, hops[order], join, choice)

    @classmethod
    def read(
        cls, path: Path, starts: IntArray, stops: IntArray, hops: FloatArray, join: int, digest: bytes
    ) -> RouteTable | None:
        """Read a table; None if it belongs to a graph with another digest."""
        arrays = read_npz(path, ("choice", "goals", "graph"), mend="Delete it: it only saves time.")
        choice, goals = arrays["choice"], arrays["goals"]
        M = len(goals)
        if arrays["graph"].tobytes() != digest:
            return None
        if choice.shape != (M, M) or choice.dtype != np.uint8 or not np.array_equal(np.sort(goals), np.arange(M)):
            raise DataError(f"{path}: damaged (not a table of {M:,} landmarks). Delete it: it only saves time.")
        order = np.lexsort((stops, starts))
        own = np.empty_like(choice)
        own[:, goals] = choice
        return cls(starts[order], stops[order], hops[order], join, own)

    def save(self, path: Path, places: FloatArray, digest: bytes) -> None:
        """Write the table for the graph with that digest and landmarks at `places`: about 80 kB for 1,000 landmarks."""
        goals = _near_together(places)
        arrays = {"choice": self.choice[:, goals], "goals": goals.astype(np.uint32)}
        with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
            for name, array in (*arrays.items(), ("graph", np.frombuffer(digest, np.uint8))):
                member = zipfile.ZipInfo(f"{name}.npy")  # no timestamp, so that equal tables are equal files
                member.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(member, "w") as file:
                    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)

    @cached_property
    def _hops(self) -> tuple[IntArray, FloatArray]:
        """(M, most) end landmark of each hop, -1 for none; and its control steps, including `join`."""
        M = len(self.choice)
        first = np.searchsorted(self.starts, np.arange(M + 1))
        stops = np.full((M, NONE + 1), -1, np.int32)
        steps = np.full((M, NONE + 1), np.inf, np.float32)
        number = np.arange(len(self.starts)) - first[self.starts]
        stops[self.starts, number], steps[self.starts, number] = self.stops, self.costs + self.join
        return stops, steps

    def towards(self, goal: int) -> tuple[FloatArray, IntArray]:
        """(M,) steps from each landmark to a goal, infinity if there is no route, and (M,) the next landmark."""
        stops, costs = self._hops
        landmarks = np.arange(len(stops))
        following = stops[landmarks, self.choice[:, goal]]
        steps = costs[landmarks, self.choice[:, goal]]  # over the next hop, then over the next 2, 4, 8, ...
        steps = np.where(following == goal, steps - self.join, steps)
        steps[goal] = 0
        at = np.where(following < 0, landmarks, following)
        for _ in range(len(stops).bit_length()):
            if ((at == goal) | np.isinf(steps)).all():
                return steps, following
            steps, at = steps + steps[at], at[at]
        raise DataError("the route table contains a cycle. Delete it: it only saves time.")

    def between(self, here: IntArray, there: IntArray) -> FloatArray:
        """(B,) steps between landmarks; infinity if there is no route."""
        stops, costs = self._hops
        steps, at = np.zeros(len(here), np.float32), here.copy()
        for _ in range(len(stops)):
            away = np.flatnonzero((at != there) & np.isfinite(steps))
            if not len(away):
                return steps
            choice = self.choice[at[away], there[away]]
            following = stops[at[away], choice]
            steps[away] += np.where(
                following == there[away], costs[at[away], choice] - self.join, costs[at[away], choice]
            )
            at[away] = np.where(following < 0, at[away], following)
        raise DataError("the route table contains a cycle. Delete it: it only saves time.")


def graph_digest(*arrays: FloatArray | IntArray | float) -> bytes:
    """SHA-256 of everything that a graph's routes depend on."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    return digest.digest()


def _near_together(places: FloatArray) -> IntArray:
    """(M,) landmarks in Morton order (interleaved bits), which keeps neighbours together."""
    low, high = places.min(axis=0), places.max(axis=0)
    cell = ((places - low) / np.maximum(high - low, 1e-9) * (2**_BITS - 1)).astype(np.int64)
    code = np.zeros(len(places), np.int64)
    for bit in range(_BITS):
        for dim, column in enumerate(cell.T):
            code |= ((column >> bit) & 1) << (bit * cell.shape[1] + dim)
    return np.argsort(code, kind="stable")
