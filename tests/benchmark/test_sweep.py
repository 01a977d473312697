"""Sweeps: which trainings points share, what is resumed, what is refused; and jobs and graphs in local processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vhdiffuser.benchmark.sweep import Sweep, SweepConfig, parse_grid
from vhdiffuser.cli import run
from vhdiffuser.cluster import GraphTask, LocalPool, run_graph
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.report.sweep_tables import _axis, columns_of

UMAZE = ("maze2d-umaze",)


@pytest.fixture
def with_umaze(trained_umaze: Path, vhd_home: Path) -> Path:
    shutil.copytree(trained_umaze, vhd_home)
    return vhd_home


def config(*grid: str, **changes) -> SweepConfig:
    return SweepConfig(UMAZE, parse_grid(grid), **changes)


def test_values_are_json_or_words_and_a_comma_separates_them():
    grid = parse_grid(["planner.stride=4,8", "planner.dim_mults=[1,2],[1,4]", "planning.sampler=ddim,ddpm"])
    assert grid == {
        "planner.stride": (4, 8), "planner.dim_mults": ((1, 2), (1, 4)), "planning.sampler": ("ddim", "ddpm"),
    }  # fmt: skip
    points = config("planner.stride=4,8", "length.network.width=64", seeds=(0, 1)).points()
    assert [(point.recipe.planner.stride, point.seed) for point in points] == [(4, 0), (4, 1), (8, 0), (8, 1)]
    assert {point.recipe.length.network.width for point in points} == {64}
    assert {point.recipe.planner_loop.seed for point in points} == {0, 1}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["stride=4"], "PART.FIELD=VALUE"),
        (["planner.stride"], "PART.FIELD=VALUE"),
        (["planner.strides=4"], "no field planner.strides. Fields of planner: .*stride"),
        (["planner=4"], "is a part of the recipe"),
        (["planner.stride=4", "planner.stride=8"], "given twice"),
        (["planner.stride=four"], "stride"),
    ],
)
def test_wrong_fields_are_named(grid, message):
    with pytest.raises(VhdError, match=message):
        config(*grid).points()


def test_published_seeds_are_refused():
    with pytest.raises(VhdError, match="tune on it"):
        config("planner.stride=4", test_seed=100)


def test_points_share_trainings_and_planning_needs_none(with_umaze, tmp_path):
    tasks = Sweep(config("planner.stride=4,8", "planning.gamma=1.1,1.3"), tmp_path / "a").tasks()
    trainings = [name for name in tasks if name.startswith("train")]
    assert len(trainings) == 2
    assert len(tasks) == 2 + 4
    assert all(len(task.needs) == 1 for name, task in tasks.items() if name.startswith("evaluate"))
    planned = Sweep(config("planning.gamma=1.1,1.3"), tmp_path / "b").tasks()
    assert all(task.needs == () for task in planned.values())
    with pytest.raises(DataError, match="belongs to another sweep \\(different grid\\)"):
        Sweep(config("planning.gamma=1.2"), tmp_path / "b")


def test_what_is_missing_is_said_before_anything_runs(vhd_home, tmp_path):
    with pytest.raises(DataError, match="vhd data get maze2d-umaze"):
        Sweep(config("planner.stride=4"), tmp_path)


@pytest.mark.slow
def test_a_sweep_trains_evaluates_resumes_and_compares(with_umaze, tmp_path, capsys):
    loop = ["planner_loop.updates=3", "planner_loop.log_every=1", "planner_loop.warmup=1", "planner.dim=8"]
    fields = [*loop, "planner.batch_size=4", "planner.stride=4,8", "planning.gamma=1.1,1.3"]
    command = ["sweep", "maze2d-umaze", "--n", "2", "--out", str(tmp_path), "--workers", "2", "--quiet", "--json"]
    command += ["--grid", *fields]
    assert run(command) == 0
    results = json.loads(capsys.readouterr().out)
    assert sorted((result["values"]["planner.stride"], result["values"]["planning.gamma"]) for result in results) == [
        (4, 1.1), (4, 1.3), (8, 1.1), (8, 1.3),
    ]  # fmt: skip
    assert all(result["ss"]["n"] == 2 for result in results)
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 1 + 4
    assert (tmp_path / "parallel.png").stat().st_size > 10_000
    lost = next((tmp_path / "points").iterdir())
    lost.unlink()
    assert run([*command, "--dry-run"]) == 0
    left = json.loads(capsys.readouterr().out)
    assert [entry["task"].split()[0] for entry in left] == ["train", "evaluate"]
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out) == results


def test_axes_space_few_values_evenly_and_many_by_size():
    heights, ticks = _axis([0.001, 0.1, 0.01])
    assert heights == pytest.approx([0.04, 0.96, 0.5])
    assert [label for _, label in ticks] == ["0.001", "0.01", "0.1"]
    heights, ticks = _axis([float(value) for value in range(9)] + [100.0])
    assert heights[8] < 0.2
    assert len(ticks) == 5


def test_measured_values_stand_by_their_size_and_a_single_one_in_the_middle():
    heights, ticks = _axis([55.1, 55.2, 74.5], measured=True)
    assert heights[1] - heights[0] < 0.01
    assert heights[2] == pytest.approx(0.96)
    assert [label for _, label in ticks] == ["55.1", "59.95", "64.8", "69.65", "74.5"]
    assert _axis([100.0, 100.0], measured=True) == ([0.5, 0.5], [(0.5, "100")])


def test_the_table_has_fields_and_protocols():
    cell = {"n": 10, "success_rate": 0.5, "success_rate_interval": [0.2, 0.8], "steps": 7.0}
    result = {"environment": "maze2d-umaze", "seed": 0, "values": {"planner.stride": 4}, "ss": cell}
    heading, rows = columns_of([result], ["ss"])
    assert heading == ["environment", "planner.stride", "seed", "SR % ss", "95 % ss", "AES ss"]
    assert rows == [["maze2d-umaze", 4, 0, "50.0", "20.0..80.0", "7.0"]]


def add(path: Path, value: int) -> int:
    (path / str(value)).touch()
    return value


def fail(path: Path) -> None:
    raise VhdError("as told")


@pytest.mark.slow
def test_a_graph_runs_in_order_and_a_failure_stops_only_what_needs_it(tmp_path):
    tasks = {
        "last": GraphTask(add, (tmp_path, 3), ("first", "second")),
        "second": GraphTask(add, (tmp_path, 2), ("first",)),
        "first": GraphTask(add, (tmp_path, 1)),
        "broken": GraphTask(fail, (tmp_path,)),
        "never": GraphTask(add, (tmp_path, 9), ("broken",)),
    }
    done: list[tuple[str, int]] = []
    with pytest.raises(VhdError, match="1 of 5 tasks failed.*broken: as told"):
        done.extend(run_graph(tasks, LocalPool(2)))
    assert done == [("first", 1), ("second", 2), ("last", 3)]
    assert not (tmp_path / "9").exists()
