from __future__ import annotations

import subprocess
import sys

import pytest
from cell_toys import results_file, toy_cell

from vhdiffuser.report.paper import TABLE_II
from vhdiffuser.report.tables import Table, external_table, main_table, seeds_table, time_table
from vhdiffuser.results.cells import Cell


def test_the_papers_table_is_the_papers() -> None:
    assert len(TABLE_II) == 50
    assert TABLE_II["maze2d-umaze", "vhd", "ss"] == (97.1, 112.73)
    assert TABLE_II["maze2d-large", "fh-h2", "rp"] == (99.6, 427.02)
    assert TABLE_II["antmaze-medium", "fh-h3", "rp"] == (89.5, 1227.04)
    assert TABLE_II["cube", "fh-lp", "ss"] == (86.2, 52.98)


def rates(*hits_of_100: int) -> list[list[bool]]:
    """Outcomes of 100 instances; a method with more hits has all hits of one with fewer."""
    return [[True] * hits + [False] * (100 - hits) for hits in hits_of_100]


def test_ours_stands_beside_the_papers_with_intervals_and_the_best_marked() -> None:
    good, near, bad = rates(98, 96, 62)
    table, notes = main_table(
        [
            toy_cell(good, [90] * 100, method="vhd"),
            toy_cell(bad, [55] * 100, method="fh-h1"),
            toy_cell(near, [101] * 100, method="fh-h2"),
            toy_cell(good, [10] * 100, method="vhd", protocol="rp"),
            toy_cell(good, [300] * 100, method="vhd", protocol="d4rl-fixed"),
        ]
    )
    assert table.head == ("Method", "", "U ours", "U paper")
    assert table.rows == (
        ("VHD (SS)", "SR", "98.0★ [93.0, 99.4]", "97.1"),
        ("", "AES", "90.00 [90.0, 90.0]", "112.73"),
        ("FH-H1 (SS)", "SR", "62.0 [52.2, 70.9]", "63.3"),
        ("", "AES", "55.00★ [55.0, 55.0]", "55.47"),
        ("FH-H2 (SS)", "SR", "96.0★ [90.2, 98.4]", "95.5"),
        ("", "AES", "101.00 [101.0, 101.0]", "100.75"),
        ("VHD (RP)", "SR", "98.0 [93.0, 99.4]", "100.0"),
        ("", "AES", "10.00 [10.0, 10.0]", "139.96"),
    )
    assert notes == []


def test_old_streams_are_marked_and_not_compared_with_new_ones() -> None:
    good, bad = rates(98, 62)
    new, old = toy_cell(good), toy_cell(bad, method="fh-h1", seed=0, streams=1)
    table, notes = main_table([new, old])
    assert [row[2] for row in table.rows[::2]] == ["98.0 [93.0, 99.4]", "62.0† [52.2, 70.9]"]
    assert "first release's instances" in notes[0]
    assert "Nothing is marked best in maze2d-umaze (SS): its methods were run with different streams" in notes[1]
    both_old = [toy_cell(good, seed=0, streams=1), old]
    assert main_table(both_old)[0].rows[0][2] == "98.0★† [93.0, 99.4]", "old ones are compared with each other"


def test_methods_of_the_recipe_paper_stand_beside_the_papers_figures() -> None:
    good, bad = rates(98, 62)
    table, notes = main_table([toy_cell(good, method="vhd-paper"), toy_cell(bad, method="fh-h1-paper")])
    assert [row[0] for row in table.rows[::2]] == ["VHD, recipe paper (SS)", "FH-H1, recipe paper (SS)"]
    assert [(row[2][:5], row[3]) for row in table.rows[::2]] == [("98.0★", "97.1"), ("62.0 ", "63.3")]
    assert notes == []


def test_other_instances_have_no_paper_column() -> None:
    table, _ = main_table([toy_cell([True], distribution="uniform")])
    assert table.head == ("Method", "", "U")
    assert len(table.rows[0]) == 3


def test_environments_of_ones_own_have_no_paper_column_to_compare() -> None:
    table, _ = main_table([toy_cell([True], environment="mine"), toy_cell([True], environment="cube")])
    assert table.head == ("Method", "", "Cube ours", "Cube paper", "mine")
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert table.rows[0][3] == "86.9", "the paper's cube"


def test_both_forms_hold_the_same_cells() -> None:
    table = Table(("a", "b", "c"), (("1", "x|y", "<2>"),))
    assert table.markdown() == "| a | b | c |\n| --- | --- | ---: |\n| 1 | x\\|y | <2> |\n"
    assert "<td>x|y</td><td>&lt;2&gt;</td>" in table.html()


def test_protocols_of_other_benchmarks_and_time_have_tables_of_their_own() -> None:
    cells = [toy_cell([True]).summary(), toy_cell([True, False], [120, 127], protocol="d4rl-fixed").summary()]
    found = external_table(cells)
    assert found is not None
    assert [row[-1] for row in found.rows] == ["123.5"]
    assert external_table(cells[:1]) is None
    assert time_table(cells).rows == (
        ("maze2d-umaze", "VHD (SS)", "reset", "1", "0.00", "2.0", "3.0"),
        ("maze2d-umaze", "VHD (d4rl-fixed)", "reset", "2", "0.00", "4.0", "6.0"),
    )


def test_pooled_cells_show_the_rate_of_every_seed() -> None:
    cell = Cell((results_file([True, False], seed=100), results_file([True, True], seed=101)))
    found = seeds_table([cell.summary(), toy_cell([True]).summary()])
    assert found is not None
    assert found.rows == (("maze2d-umaze", "VHD (SS)", "reset", "4", "75.0", "100: 50.0, 101: 100.0"),)
    assert seeds_table([toy_cell([True]).summary()]) is None


@pytest.mark.parametrize("module", ["build", "video"])
def test_reports_are_made_without_torch_and_without_a_simulator(module: str) -> None:
    code = f"import sys, vhdiffuser.report.{module}; sys.exit(any(m in sys.modules for m in ('torch', 'mujoco')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
