"""The leaderboard on rows made by hand: who is compared with whom, on which instances, and what is said of the rest."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from vhdiffuser.cli import run
from vhdiffuser.errors import DataError
from vhdiffuser.report.leaderboard import BEGIN, END, as_csv, html, into_page, markdown
from vhdiffuser.results.boards import Entry, read_boards
from vhdiffuser.results.paired import mcnemar
from vhdiffuser.results.paths import result_path
from vhdiffuser.results.rows import Row, open_results

CONFIG: dict[str, Any] = {
    "environment": "toy",
    "protocol": "ss",
    "streams": 2,
    "instances": {"distribution": "reset"},
    "rule": {"threshold": None, "check_every": 1, "budget": None},
    "epsilon": 0.05,
    "scale": [1.0, 1.0],
    "horizon": None,
    "candidates": 1,
    "models": {},
    "controller": {"name": "pd"},
    "state_names": ["x", "y"],
    "goal_dims": [0, 1],
    "walls": [],
}
OURS = {"sampler": "ddim", "sampler_steps": 5, "gamma": 1.0}


def write(
    folder: Path, method: str, hits: list[bool], steps: int = 10, seed: int = 100, gap: float = 0.0, **changes: Any
) -> None:
    """One file: instance i starts at (i, seed)."""
    kind = OURS if method == "vhd" else {"planner": {"reference": f"{method}.py:make"}}
    config = {**CONFIG, **kind, "method": method, "seed": seed, **changes}
    with open_results(result_path(folder, "toy", method, config["protocol"], seed), config) as writer:
        for number, success in enumerate(hits):
            writer.write(
                Row(
                    "toy", method, config["protocol"], seed, number, [float(number), float(seed)], [0.0, 0.0],
                    None, 11, [11, 5], 1, success, steps + number % 3, 0.0, 0.5, 0.1, start_gap=gap,
                )
            )  # fmt: skip


def entries(*folders: Path) -> dict[str, Entry]:
    return {item.planner: item for item in read_boards(folders)}


def test_planners_are_tested_on_the_instances_that_they_share(tmp_path: Path) -> None:
    ours, theirs = [True] * 60, [number % 4 > 0 for number in range(40)]
    write(tmp_path / "ours", "vhd", ours)
    write(tmp_path / "ours", "vhd", ours, seed=101)
    write(tmp_path / "theirs", "a-star", theirs, steps=4)
    found = entries(tmp_path / "ours", tmp_path / "theirs")
    best, other = found["vhd"], found["a-star"]
    assert (best.rank, best.n, best.seeds, best.success_difference, best.p) == (1, 120, (100, 101), None, None)
    assert (other.rank, other.n, other.shared) == (2, 40, 40)
    assert other.success_difference == pytest.approx(-0.25)
    assert other.p == mcnemar(theirs, [True] * 40)
    assert (best.best_success, other.best_success) == (True, False)
    # It needs fewer steps, but does not reach the goals.
    assert (best.best_steps, other.best_steps) == (True, False)
    assert other.reference == "a-star.py:make"
    assert best.planning_seconds == pytest.approx(0.25), "two plans shared half a second"


def test_of_the_same_success_the_quickest_is_listed_first_with_the_same_rank(tmp_path: Path) -> None:
    write(tmp_path, "slow", [True] * 40, steps=30)
    write(tmp_path, "vhd", [True] * 40, steps=20)
    write(tmp_path, "brisk", [True] * 40, steps=10)
    write(tmp_path, "hasty", [True] * 39 + [False], steps=2)
    listed = [(item.planner, item.rank) for item in read_boards([tmp_path])]
    assert listed == [("brisk", 1), ("vhd", 1), ("slow", 1), ("hasty", 4)]


def test_as_good_as_the_best_shares_its_star_and_the_quicker_has_the_other(tmp_path: Path) -> None:
    write(tmp_path, "vhd", [True] * 50, steps=20)
    write(tmp_path, "quick", [True] * 49 + [False], steps=10)
    found = entries(tmp_path)
    assert [found[name].best_success for name in ("vhd", "quick")] == [True, True]
    assert [found[name].best_steps for name in ("vhd", "quick")] == [False, True]
    assert [found[name].rank for name in ("vhd", "quick")] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 0.5}, "different tolerance"),
        ({"scale": [2.0, 1.0]}, "different success region"),
        ({"controller": {"name": "pd", "gain": 3}}, "different controller"),
        ({"rule": {"threshold": None, "check_every": 1, "budget": 99}}, "different replanning rule"),
        ({"streams": 1}, "different random streams and instances"),
        ({"seed": 3}, "development seeds"),
    ],
)
def test_other_conditions_are_listed_but_not_ranked(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    write(tmp_path, "vhd", [True] * 35)
    write(tmp_path, "fair", [True] * 20 + [False] * 15)
    write(tmp_path, "unfair", [True] * 40, **changes)
    found = entries(tmp_path)
    assert [found[name].rank for name in ("vhd", "fair", "unfair")] == [1, 2, None]
    assert found["unfair"].differs == said
    assert not found["unfair"].best_success
    assert f"Not ranked ({said}): unfair." in markdown(list(found.values()))


def test_few_shared_instances_prove_nothing(tmp_path: Path) -> None:
    write(tmp_path, "vhd", [True] * 40)
    write(tmp_path, "brief", [False] * 29)
    brief = entries(tmp_path)["brief"]
    assert (brief.shared, brief.p, brief.success_difference, brief.best_success) == (29, None, None, False)


def test_rows_that_were_tampered_with_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "ours", "vhd", [True] * 40)
    write(tmp_path / "theirs", "other", [True] * 40)
    path = result_path(tmp_path / "theirs", "toy", "other", "ss", 100)
    path.write_text(path.read_text().replace("[7.0, 100.0]", "[0.1, 100.0]"))
    with pytest.raises(DataError, match="instance 7 of seed 100 is a different pair"):
        entries(tmp_path / "ours", tmp_path / "theirs")
    write(tmp_path / "again", "vhd", [True] * 40)
    with pytest.raises(DataError, match="would count twice"):
        entries(tmp_path / "ours", tmp_path / "again")
    with pytest.raises(DataError, match="no rows"):
        entries(tmp_path / "nothing")


def test_the_table_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "vhd", [True] * 40)
    write(tmp_path, "sloppy", [True] * 30 + [False] * 10, gap=0.2)
    found = read_boards([tmp_path])
    text = markdown(found)
    assert "| 1 | VHD | 100.0★" in text
    assert "| 2 | sloppy‡ | 75.0 [" in text
    assert "-25.0 on 40 (p = 0.002)" in text
    assert "sloppy: plans begin up to 0.2 (normalised) from where they were made" in text
    assert "<td>sloppy‡</td>" in html(found)
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [line["planner"] for line in lines] == ["vhd", "sloppy"]
    assert float(lines[1]["success_rate_interval_low"]) < 0.75 < float(lines[1]["success_rate_interval_high"])
    assert set(asdict(found[0])) <= {key.removesuffix("_low") for key in lines[0]}

    page = tmp_path / "page.md"
    page.write_text(f"# Board\n{BEGIN}\nold\n{END}\n## How to submit\n")
    assert run(["leaderboard", str(tmp_path), "--out", str(page)]) == 0
    assert page.read_text() == into_page(page.read_text(), text, page)
    assert "old" not in page.read_text()
    assert page.read_text().endswith("## How to submit\n")
    assert run(["leaderboard", str(tmp_path), "--out", str(tmp_path / "x.pdf")]) == 1
    page.write_text("no marks")
    assert run(["leaderboard", str(tmp_path), "--out", str(page)]) == 1
    assert page.read_text() == "no marks"
    assert run(["leaderboard", str(tmp_path), "--json", "--envs", "toy"]) == 0
    assert '"planner": "sloppy"' in capsys.readouterr().out
    assert run(["leaderboard", str(tmp_path), "--envs", "moon"]) == 1
