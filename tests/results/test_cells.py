from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from cell_toys import results_file

from vhdiffuser.errors import DataError
from vhdiffuser.results.cells import pool, published, read_cell
from vhdiffuser.results.paths import result_path, rollout_path
from vhdiffuser.results.rows import FORMAT, ResultFile
from vhdiffuser.results.summary import wilson_interval


def test_files_that_differ_in_the_seed_alone_make_one_cell() -> None:
    files = [results_file([True, False], seed=seed) for seed in (102, 100, 101)]
    other = results_file([True], method="fh-h1")
    cell, alone = pool([*files, other])
    assert (cell.seeds, alone.seeds) == ((100, 101, 102), (100,))
    assert [(row.seed, row.instance) for row in cell.rows] == [(s, i) for s in (100, 101, 102) for i in (0, 1)]
    summary = cell.summary()
    assert (summary.n, summary.seeds, summary.success_rate_by_seed) == (6, (100, 101, 102), (0.5, 0.5, 0.5))
    assert summary.success_rate_interval == wilson_interval(3, 6)


def test_files_that_differ_in_more_are_refused_and_the_difference_is_named() -> None:
    files = [results_file([True], seed=100), results_file([True], seed=101, gamma=1.5)]
    with pytest.raises(DataError, match=r"seed-?.*differ in more than the seed.*gamma: 1\.3 and 1\.5"):
        pool(files)
    with pytest.raises(DataError, match="models"):
        pool([results_file([True], seed=100, models={"planner": "a"}), results_file([True], seed=101, models={})])


def test_no_seed_counts_twice() -> None:
    first = results_file([True])
    with pytest.raises(DataError, match="both contain seed 100"):
        pool([first, replace(first, path=Path("copy.jsonl"))])


def test_pairs_of_ones_own_are_not_pooled_over_seeds() -> None:
    files = [results_file([True], seed=seed, instances={"file_sha256": "ab"}) for seed in (1, 2)]
    with pytest.raises(DataError, match="the same pairs"):
        pool(files)


def test_old_streams_and_development_seeds_stand_back() -> None:
    old, tried = results_file([False], seed=0, streams=1), results_file([False], seed=3)
    tests = [results_file([True], seed=seed) for seed in (100, 101)]
    uniform = results_file([True], seed=0, distribution="uniform")
    cells, left_out = published([old, tried, *tests, uniform])
    assert [(cell.key[3], cell.seeds, cell.streams) for cell in cells] == [
        ("reset", (100, 101), 2),
        ("uniform", (0,), 2),
    ]
    assert left_out == [old, tried]
    (cell,), left_out = published([old, tried])
    assert (cell.seeds, left_out) == ((3,), [old])
    (cell,), left_out = published([old])
    assert (cell.streams, left_out) == (1, [])


def write(folder: Path, name: str, item: ResultFile) -> None:
    path = folder / "maze2d-umaze" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"format": FORMAT, "config": item.config}, *(asdict(row) for row in item.rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_cell_is_read_by_its_name_old_names_too(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows of vhd under ss.*vhd bench maze2d-umaze --methods vhd --protocols ss"):
        read_cell(tmp_path, "maze2d-umaze", "vhd", "ss")
    write(tmp_path, "vhd-ss.jsonl", results_file([False], seed=0, streams=1))
    write(tmp_path, "vhd-ss-uniform-100.jsonl", results_file([True], distribution="uniform"))
    write(tmp_path, "vhd-paper-ss-100.jsonl", results_file([True], method="vhd-paper"))
    assert read_cell(tmp_path, "maze2d-umaze", "vhd", "ss").streams == 1
    for seed in (100, 101):
        write(tmp_path, f"vhd-ss-{seed}.jsonl", results_file([True, False], seed=seed))
    assert read_cell(tmp_path, "maze2d-umaze", "vhd", "ss").seeds == (100, 101)
    assert read_cell(tmp_path, "maze2d-umaze", "vhd", "ss", "uniform").seeds == (100,)


def test_names_of_files() -> None:
    path = result_path(Path("r"), "cube", "fh-lp", "rp", 100)
    assert path == Path("r/cube/fh-lp-rp-100.jsonl")
    assert rollout_path(path, 7) == Path("r/cube/rollouts/fh-lp-rp-100-7.npz")
    assert result_path(Path("r"), "cube", "vhd", "ss", 0, "uniform") == Path("r/cube/vhd-ss-uniform-0.jsonl")
