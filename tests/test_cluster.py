"""Jobs, data and rows on a Ray cluster of two nodes, of which one is killed midway: nothing twice, nothing missing."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from toy_point import ENVIRONMENT, ToyController, ToyPlanner

from vhdiffuser.benchmark.methods import PlannerChoice
from vhdiffuser.benchmark.run import Cluster, run_benchmark
from vhdiffuser.benchmark.settings import BenchConfig
from vhdiffuser.cli import run
from vhdiffuser.cluster import run_on_ray
from vhdiffuser.data.store import dataset_path
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.results.rows import Row, read_folder

pytest.importorskip("ray", reason="needs the extra 'ray'")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]


class Nodes:
    """A head without cores and two nodes of one core each, of which one can be lost."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        small = {"object_store_memory": 80_000_000}
        head = {"num_cpus": 0, "include_dashboard": False, **small}
        self._cluster = RayCluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._cluster.add_node(num_cpus=1, **small) for _ in range(2)]
        self._cluster.connect()

    def restore(self) -> None:
        """Have two nodes again."""
        while len(self._nodes) < 2:
            self._nodes.append(self._cluster.add_node(num_cpus=1, object_store_memory=80_000_000))

    def lose_one(self, name: str | None = None) -> None:
        """Kill the node of that id, or any; once."""
        if len(self._nodes) == 2:
            lost = next(node for node in self._nodes if name in (None, node.node_id))
            self._nodes.remove(lost)
            self._cluster.remove_node(lost, allow_graceful=False)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A cluster for the whole file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]))
        made = started()
        yield made
        made.close()


def started() -> Nodes:
    """Ray gives a node 30 s to start, which a busy machine may exceed."""
    import ray

    for _ in range(3):
        try:
            return Nodes()
        except Exception as error:
            ray.shutdown()
            reason = error
    pytest.skip(f"Ray did not start its nodes here: {reason}")


def choose(method: str, environment: str) -> PlannerChoice:
    return PlannerChoice(ToyPlanner(noise=0.04), PlanningOptions(gamma=1.0), {"planner": "toy"})


def choose_other(method: str, environment: str) -> PlannerChoice:
    return replace(choose(method, environment), models={"planner": "another"})


def slow_choose(method: str, environment: str) -> PlannerChoice:
    time.sleep(0.5)
    return choose(method, environment)


CONFIG = BenchConfig(
    ENVIRONMENT, ("vhd", "fh-h1"), n=24, seeds=(4,), threshold=0.05, check_every=3, keep=2, simulators=5, shard=4
)


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows by file, without the clock's share."""
    return {
        file.path.name: sorted(
            (asdict(replace(row, planning_seconds=0.0, control_seconds=0.0)) for row in file.rows),
            key=lambda row: row["instance"],
        )
        for file in read_folder(folder)
    }


def note_and_square(number: int, folder: Path) -> int:
    """A job that ends only after a node was lost, and never on that node."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    (folder / f"{number}-{node}").touch()
    given_up = time.monotonic() + 120
    while not (folder / "lost").exists() or (folder / "lost").read_text() in ("", node):
        assert time.monotonic() < given_up, "no node was lost"
        time.sleep(0.05)
    return number**2


def begun(folder: Path) -> set[tuple[int, str]]:
    """Jobs that have begun, with their nodes."""
    parts = [path.name.split("-") for path in folder.iterdir() if "-" in path.name]
    return {(int(number), node) for number, node in parts}


def lose_a_busy_node(nodes: Nodes, folder: Path) -> None:
    """Once both nodes have work, kill one of them."""
    given_up = time.monotonic() + 100
    while len({node for _, node in begun(folder)}) < 2 and time.monotonic() < given_up:
        time.sleep(0.05)
    lost = min(node for _, node in begun(folder))
    nodes.lose_one(lost)
    (folder / "lost").write_text(lost)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            lambda ray: ConnectionError("refused\nand more"),
            r"no Ray cluster at there:1 \(refused\)\. .* RAY_AUTH_MODE=token",
        ),
        (
            lambda ray: ray.exceptions.AuthenticationError("No token was found. See"),
            r"not joined \(No token was found\)",
        ),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_told_in_words(
    raised: Callable[[Any], Exception], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def refuse(**options: Any) -> None:
        raise raised(ray)

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(VhdError, match=told):
        list(run_on_ray(abs, [(1,)], "there:1"))


def test_errors_of_a_job_are_told_as_they_are_here(nodes: Nodes, tmp_path: Path) -> None:
    there = Cluster("auto", choose_other, ToyController)
    with pytest.raises(DataError, match="would produce different rows .*models: .*let them share VHD_HOME"):
        run_benchmark(CONFIG, tmp_path, choose, ToyController(), cluster=there)


def test_data_built_there_has_the_same_bytes(nodes: Nodes, vhd_home: Path) -> None:
    get = ["data", "get", "maze2d-umaze", "--source", "build", "--size", "60000", "--quiet"]
    assert run(get) == 0
    here = dataset_path("maze2d-umaze").read_bytes()
    assert run([*get, "--replace", "--ray", "auto"]) == 0
    assert dataset_path("maze2d-umaze").read_bytes() == here


def test_rows_are_those_of_a_local_run_though_a_node_is_lost(nodes: Nodes, tmp_path: Path) -> None:
    run_benchmark(replace(CONFIG, workers=1), tmp_path / "here", choose, ToyController())
    written: list[Row] = []

    def on_row(row: Row) -> None:
        written.append(row)
        if len(written) == 4:
            nodes.lose_one()

    summaries = run_benchmark(
        CONFIG, tmp_path / "there", choose, ToyController(), on_row, cluster=Cluster("auto", slow_choose, ToyController)
    )
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert len(written) == 2 * 2 * 24
    assert [summary.n for summary in summaries] == [24] * 4
    assert len(list((tmp_path / "there").rglob("*.npz"))) == len(list((tmp_path / "here").rglob("*.npz")))


def test_jobs_of_a_lost_node_are_done_again_and_told_once(nodes: Nodes, tmp_path: Path) -> None:
    nodes.restore()
    loss = threading.Thread(target=lose_a_busy_node, args=(nodes, tmp_path))
    loss.start()
    told = list(run_on_ray(note_and_square, [(number, tmp_path) for number in range(8)], "auto"))
    loss.join()
    assert sorted(told) == [(number, number**2) for number in range(8)]
    lost = (tmp_path / "lost").read_text()
    under_way = {number for number, node in begun(tmp_path) if node == lost}
    assert under_way, "the lost node had work"
    assert {number for number, node in begun(tmp_path) if node != lost} == set(range(8)), "and another did it again"


def lose_one_when(there: Callable[[], bool], nodes: Nodes) -> threading.Thread:
    """A thread that kills a node as soon as something is there."""

    def watch() -> None:
        given_up = time.monotonic() + 200
        while not there() and time.monotonic() < given_up:
            time.sleep(0.05)
        nodes.lose_one()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_a_sweep_there_has_the_results_of_a_local_one_though_a_node_is_lost(
    nodes: Nodes, trained_umaze: Path, vhd_home: Path, tmp_path: Path
) -> None:
    nodes.restore()
    shutil.copytree(trained_umaze, vhd_home)
    sweep = ["sweep", "maze2d-umaze", "--n", "1", "--protocols", "ss", "--quiet"]
    sweep += ["--grid", "planning.gamma=1.1,1.3", "planning.steps=1,2"]
    assert run([*sweep, "--out", str(tmp_path / "here"), "--workers", "1"]) == 0
    points = tmp_path / "there" / "points"
    loss = lose_one_when(lambda: points.exists() and any(points.iterdir()), nodes)
    assert run([*sweep, "--out", str(tmp_path / "there"), "--ray", "auto"]) == 0
    loss.join()
    here, there = (
        {path.name: json.loads(path.read_text()) for path in (tmp_path / place / "points").iterdir()}
        for place in ("here", "there")
    )
    assert there == here
    assert len(here) == 4


def test_reproduce_there_makes_the_rows_of_a_local_run(
    nodes: Nodes, trained_umaze: Path, vhd_home: Path, tmp_path: Path
) -> None:
    nodes.restore()
    shutil.copytree(trained_umaze, vhd_home)
    reproduce = ["reproduce", "maze2d-umaze", "--no-baselines", "--n", "1", "--seeds", "4", "--quiet"]
    assert run([*reproduce, "--out", str(tmp_path / "here")]) == 0
    assert run([*reproduce, "--out", str(tmp_path / "there"), "--ray", "auto"]) == 0
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert (tmp_path / "there" / "report.md").exists(), "the report waits for the benchmarks"
