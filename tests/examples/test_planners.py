"""The planners in examples/planners, under the benchmark: each does what it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vhdiffuser.cli import run
from vhdiffuser.report.leaderboard import BEGIN, END, into_page, markdown
from vhdiffuser.results.boards import read_boards

ROOT = Path(__file__).resolve().parents[2]
PLANNERS = ROOT / "examples/planners"


@pytest.mark.slow
def test_a_star_finds_ways_round_the_walls_that_a_straight_line_hits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "60000", "--workers", "1", "--quiet"]) == 0
    )
    references = [f"{PLANNERS}/straight_line.py:StraightLine", f"{PLANNERS}/a_star.py:AStar"]
    size = ["--n", "20", "--seeds", "9", "--protocols", "ss", "--workers", "1", "--keep", "0", "--quiet"]
    capsys.readouterr()
    assert run(["bench", "maze2d-umaze", "--planner", *references, *size, "--out", str(tmp_path), "--json"]) == 0
    found = {item["method"]: item["success_rate"] for item in json.loads(capsys.readouterr().out)}
    assert found["a-star"] >= 0.95
    assert 0.3 < found["straight-line"] < 0.95


@pytest.mark.slow
def test_a_checkpoint_of_diffuser_is_trained_further_imported_and_benchmarked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("DIFFUSERS", str(tmp_path))
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "4000", "--workers", "1", "--quiet"]) == 0
    command = [sys.executable, str(PLANNERS / "train_diffuser.py"), "maze2d-umaze", "0", str(tmp_path / "state.pt")]
    for _ in range(2):
        subprocess.run(command, check=True)
    model = str(tmp_path / "maze2d-umaze.safetensors")
    capsys.readouterr()
    assert run(["import-diffuser", str(tmp_path / "state.pt"), "--env", "maze2d-umaze", "--out", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["updates"] == 2, (
        "one update each time, the second from the first's weights"
    )
    bench = ["bench", "maze2d-umaze", "--planner", f"{PLANNERS}/diffuser.py:Diffuser", "--n", "1", "--protocols", "ss"]
    assert run([*bench, "--workers", "1", "--keep", "0", "--quiet", "--out", str(tmp_path)]) == 0
    with open(tmp_path / "maze2d-umaze/diffuser-ss-0.jsonl", encoding="utf-8") as file:
        config, row = json.loads(file.readline())["config"], json.loads(file.readline())
    assert config["planner"]["settings"]["horizon"] == row["planned_length"] == 128
    assert config["planner"]["settings"]["steps"] == 64
    assert row["start_gap"] < 1e-6, "its ends are clamped"


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_committed_rows() -> None:
    """After new rows: the command is on the page, under "Submit it"."""
    page = ROOT / "docs/leaderboard.md"
    entries = read_boards(
        [ROOT / "results", ROOT / "results/planners"], ["maze2d-umaze", "maze2d-medium", "maze2d-large"], ["ss", "rp"]
    )
    text = page.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == into_page(text, markdown(entries), page)
    assert len({entry.planner for entry in entries}) >= 6
