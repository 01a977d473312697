from __future__ import annotations

import subprocess
import sys

import pytest

from vhdiffuser.report.paper import TABLE_II
from vhdiffuser.report.tables import Table, main_table, marks, peers_table, time_table
from vhdiffuser.results.summary import Summary


def summary(
    method: str, protocol: str, rate: float, steps: float, environment: str = "maze2d-umaze", **more
) -> Summary:
    return Summary(
        environment,
        method,
        protocol,
        1000,
        rate,
        (rate - 0.01, rate),
        steps,
        (steps - 2, steps + 2),
        1.0,
        2.0,
        0.5,
        **more,
    )


def test_marks_are_best_and_second_with_ties() -> None:
    assert marks({"a": 3.0, "b": 1.0, "c": 3.0, "d": 2.0}, highest=True) == {"a": "†", "b": "", "c": "†", "d": "‡"}
    assert marks({"a": 3.0, "b": 1.0, "c": 2.0}, highest=False) == {"a": "", "b": "†", "c": "‡"}
    assert marks({"a": 1.0}, highest=True) == {"a": ""}


def test_the_papers_table_is_the_papers() -> None:
    assert len(TABLE_II) == 50
    assert TABLE_II["maze2d-umaze", "vhd", "ss"] == (97.1, 112.73)
    assert TABLE_II["maze2d-large", "fh-h2", "rp"] == (99.6, 427.02)
    assert TABLE_II["antmaze-medium", "fh-h3", "rp"] == (89.5, 1227.04)
    assert TABLE_II["cube", "fh-lp", "ss"] == (86.2, 52.98)


def test_ours_stands_beside_the_papers_with_intervals_and_marks() -> None:
    table = main_table(
        [
            summary("vhd", "ss", 0.98, 90.0),
            summary("fh-h1", "ss", 0.62, 55.0),
            summary("fh-h2", "ss", 0.98, 101.256),
            summary("vhd", "rp", 1.0, 99.0),
            summary("vhd", "d4rl-fixed", 0.5, 300.0),
        ]
    )
    assert table.head == ("Method", "", "U ours", "U paper")
    assert table.rows == (
        ("VHD (SS)", "SR", "98.0† [97.0, 98.0]", "97.1†"),
        ("", "AES", "90.00‡ [88.0, 92.0]", "112.73"),
        ("FH-H1 (SS)", "SR", "62.0‡ [61.0, 62.0]", "63.3"),
        ("", "AES", "55.00† [53.0, 57.0]", "55.47†"),
        ("FH-H2 (SS)", "SR", "98.0† [97.0, 98.0]", "95.5"),
        ("", "AES", "101.26 [99.3, 103.3]", "100.75‡"),
        ("VHD (RP)", "SR", "100.0 [99.0, 100.0]", "100.0†"),
        ("", "AES", "99.00 [97.0, 101.0]", "139.96†"),
    )


def test_environments_of_ones_own_have_no_paper_column_to_compare() -> None:
    table = main_table([summary("vhd", "ss", 0.5, 10.0, "mine"), summary("vhd", "ss", 0.5, 10.0, "cube")])
    assert table.head == ("Method", "", "Cube ours", "Cube paper", "mine ours", "mine paper")
    assert table.rows[0][-1] == "-"


def test_both_forms_hold_the_same_cells() -> None:
    table = Table(("a", "b", "c"), (("1", "x|y", "<2>"),))
    assert table.markdown() == "| a | b | c |\n| --- | --- | ---: |\n| 1 | x\\|y | <2> |\n"
    assert "<td>x|y</td><td>&lt;2&gt;</td>" in table.html()


def test_peers_and_time_have_tables_of_their_own() -> None:
    cells = [summary("vhd", "ss", 0.9, 9.0), summary("vhd", "d4rl-fixed", 0.9, 300.0, average_score=123.456)]
    found = peers_table(cells)
    assert found is not None
    assert [row[-1] for row in found.rows] == ["123.5"]
    assert peers_table(cells[:1]) is None
    assert time_table(cells).rows == (
        ("maze2d-umaze", "VHD (SS)", "1000", "0.50", "1.0", "2.0"),
        ("maze2d-umaze", "VHD (d4rl-fixed)", "1000", "0.50", "1.0", "2.0"),
    )


@pytest.mark.parametrize("module", ["build", "video"])
def test_reports_are_made_without_torch_and_without_a_simulator(module: str) -> None:
    code = f"import sys, vhdiffuser.report.{module}; sys.exit(any(m in sys.modules for m in ('torch', 'mujoco')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
