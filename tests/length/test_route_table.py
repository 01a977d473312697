"""Tables of routes: what a search finds, without the search."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from length_toys import toy_spec

from vhdiffuser.errors import DataError
from vhdiffuser.length.config import RelayGraphConfig
from vhdiffuser.length.route import RouteGraph
from vhdiffuser.length.route_table import NONE, RouteTable, table_path
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.weights.places import shipped_path

M = 80


def random_graph(seed: int = 0) -> RouteGraph:
    """Landmarks with three hops each, of 1 to 8 steps; the last ten cannot be reached from the others."""
    rng = np.random.default_rng(seed)
    starts, stops = np.repeat(np.arange(M), 3), rng.integers(M - 10, size=3 * M)
    starts, stops = np.unique(np.stack([starts, stops])[:, starts != stops], axis=1)
    hops = rng.integers(1, 9, len(starts)).astype(np.float32)
    places, sparsity = rng.uniform(-1, 1, (M, 2)).astype(np.float32), rng.uniform(0, 1, M).astype(np.float32)
    return RouteGraph(places, starts, stops, hops, sparsity, 0.1, 4, RelayGraphConfig(landmarks=M))


def saved(graph: RouteGraph, folder: Path) -> Path:
    normalizer = Normalizer(-np.ones(2, np.float32), np.ones(2, np.float32))
    return graph.save(folder / "route.safetensors", toy_spec(2, 120, 0.05), normalizer, "abc")


def searches(graph: RouteGraph) -> RouteGraph:
    """The same graph without its table."""
    graph._table_file = None
    return graph


def test_a_table_says_what_a_search_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(random_graph(), tmp_path)
    slow = searches(RouteGraph.load(path)[0])
    steps = slow.all_steps().T  # (goal, landmark)
    assert np.isinf(steps).any()
    monkeypatch.setitem(sys.modules, "scipy.sparse.csgraph", None)  # importing it would fail
    fast = RouteGraph.load(path)[0]
    here, there = np.divmod(np.arange(M * M), M)
    np.testing.assert_array_equal(fast.between(here, there), steps[there, here])  # all at once
    for goal in range(M):
        np.testing.assert_array_equal(fast.between(np.arange(M), np.full(M, goal)), steps[goal])
        known = np.isfinite(steps[goal]) & (np.arange(M) != goal)
        np.testing.assert_array_equal(fast._next[goal, known], slow._next[goal, known])


def test_routes_of_a_table_are_those_of_a_search(tmp_path: Path) -> None:
    path = saved(random_graph(), tmp_path)
    fast, slow = RouteGraph.load(path)[0], searches(RouteGraph.load(path)[0])
    for start, goal in np.random.default_rng(1).uniform(-1, 1, (40, 2, 2)):
        one, other = fast.path(start, goal), slow.path(start, goal)
        assert one.known == other.known
        np.testing.assert_array_equal(one.places, other.places)
        np.testing.assert_array_equal(one.steps, other.steps)


def test_the_same_graph_has_the_same_table_to_the_byte(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        saved(random_graph(), tmp_path / name)
    one, other = ((tmp_path / name / "route.table.npz").read_bytes() for name in ("one", "other"))
    assert one == other


def test_a_table_of_another_graph_is_not_used(tmp_path: Path) -> None:
    path = saved(random_graph(), tmp_path)
    table = table_path(path).read_bytes()
    saved(random_graph(1), tmp_path)
    table_path(path).write_bytes(table)
    graph = RouteGraph.load(path)[0]
    assert graph._table is None
    np.testing.assert_array_equal(graph.all_steps(), random_graph(1).all_steps())


def test_damaged_tables_are_refused_in_words(tmp_path: Path) -> None:
    path = saved(random_graph(), tmp_path)
    table_path(path).write_bytes(b"not a table")
    with pytest.raises(DataError, match=r"route\.table\.npz"):
        RouteGraph.load(path)[0].between(np.array([0]), np.array([1]))


def test_a_table_that_leads_in_a_circle_is_refused() -> None:
    starts, stops = np.array([0, 0, 1, 1, 2]), np.array([1, 2, 0, 2, 0])
    following = np.array([[-1, 0, 0], [1, -1, 0], [1, 0, -1]])  # to landmark 2: 0 -> 1 -> 0 -> ...
    table = RouteTable.of(starts, stops, np.ones(5, np.float32), 4, following)
    assert table is not None
    np.testing.assert_array_equal(table.towards(0)[0], [0, 1, 1])
    with pytest.raises(DataError, match="cycle"):
        table.towards(2)
    with pytest.raises(DataError, match="cycle"):
        table.between(np.array([0]), np.array([2]))


def test_graphs_that_a_table_cannot_hold_have_none() -> None:
    star = np.concatenate([np.zeros(NONE + 1, int), [1]])
    ends = np.concatenate([np.arange(1, NONE + 2), [0]])
    following = np.full((NONE + 2, NONE + 2), -1)
    assert RouteTable.of(star, ends, np.ones(NONE + 2, np.float32), 4, following) is None
    assert RouteTable.of(star[:2], ends[:2], np.full(2, 1.5, np.float32), 4, following) is None


def test_the_shipped_table_belongs_to_the_shipped_graph() -> None:
    for name in ("maze2d-medium", "maze2d-large"):
        graph = RouteGraph.load(shipped_path(name, "route"))[0]
        assert graph._table is not None
        fast = graph.between(np.arange(1000), np.arange(1000)[::-1].copy())
        np.testing.assert_array_equal(fast, searches(graph).all_steps()[np.arange(1000), np.arange(1000)[::-1]])
