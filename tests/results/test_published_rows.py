"""The rows that are committed: whole, of test seeds, and made with weights that anyone who has the repository has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vhdiffuser.files import sha256
from vhdiffuser.planner.calibrated import read_calibration
from vhdiffuser.report.paper import TABLE_II
from vhdiffuser.results.cells import FIRST_TEST_SEED, published
from vhdiffuser.results.rows import read_folder
from vhdiffuser.results.summary import summarize_cell

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "cube")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_headline_is_of_three_test_seeds_and_of_the_weights_that_ship(name: str) -> None:
    cells, _ = published(read_folder(ROOT / "results" / name))
    shipped = {path.stem: sha256(path) for path in (ROOT / "src/vhdiffuser/weights" / name).glob("*.safetensors")}
    found = {cell.key[1:]: cell for cell in cells}
    for protocol in ("ss", "rp"):
        cell = found["vhd", protocol, "reset"]
        assert cell.streams == 2
        assert cell.seeds == (100, 101, 102)
        assert [len(item.rows) for item in cell.files] == [1000] * 3
        used = ("planner", "length", *(["route"] if cell.config.get("piece") else []))
        calibration = read_calibration(ROOT / "src/vhdiffuser/weights" / name / "calibration.json")
        assert calibration is not None
        assert cell.config["models"] == {
            **{kind: shipped[kind] for kind in used},
            "calibration": calibration.lengths_digest,
        }
        assert (cell.config["risk"], cell.config["gamma"]) == (calibration.default_risk, 1)
        assert cell.config["candidates"] == 1


def test_the_weights_behind_every_new_row_are_in_the_repository() -> None:
    kept = {
        sha256(path)
        for folder in ("src/vhdiffuser/weights", "weights")
        for path in (ROOT / folder).rglob("*.safetensors")
    }
    calibrations = (ROOT / "src/vhdiffuser/weights").rglob("calibration.json")
    kept |= {found.lengths_digest for path in calibrations if (found := read_calibration(path)) is not None}
    checked = 0
    for path in (ROOT / "results").rglob("*.jsonl"):
        with open(path, encoding="utf-8") as file:
            config = json.loads(file.readline())["config"]
        if config.get("streams", 1) > 1:
            assert config["seed"] >= FIRST_TEST_SEED, path
            assert set(config["models"].values()) <= kept, path
            checked += 1
    assert checked >= 30


@pytest.mark.slow
def test_cards_have_the_numbers_of_the_rows() -> None:
    for name in ENVIRONMENTS:
        card = json.loads((ROOT / "src/vhdiffuser/weights" / name / "card.json").read_text(encoding="utf-8"))
        cells, _ = published(read_folder(ROOT / "results" / name))
        found = {cell.key[1:]: cell for cell in cells}
        for protocol in ("ss", "rp"):
            rows = found["vhd", protocol, "reset"].rows
            said = card["numbers"][protocol]
            assert said["success_rate"] == pytest.approx(sum(row.success for row in rows) / len(rows))
            assert said["average_executed_steps"] == pytest.approx(sum(row.steps for row in rows) / len(rows))


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_readme_and_the_results_page_have_the_numbers_of_the_rows(name: str) -> None:
    """The README's headline row by row; the results page has the same figures, intervals included."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith(f"| {name} | SR |"))
    shown = [[cell.strip() for cell in line.split("|")[3:-1]] for line in lines[row : row + 2]]
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    cells, _ = published(read_folder(ROOT / "results" / name))
    found = {cell.key[1:]: cell for cell in cells}
    digits = 1 if name == "cube" else 0
    for column, protocol in enumerate(("ss", "rp")):
        cell = found["vhd", protocol, "reset"]
        summary = summarize_cell(cell.rows, cell.config)
        low, high = (100 * bound for bound in summary.success_rate_interval)
        steps = (summary.average_executed_steps, *summary.average_executed_steps_interval)
        paper_rate, paper_steps = TABLE_II[name, "vhd", protocol]
        aes, least, most = (f"{value:.{digits}f}" for value in steps)
        expected = [
            [f"{100 * summary.success_rate:.1f} [{low:.1f}, {high:.1f}]", f"{paper_rate:.1f}"],
            [f"{aes} [{least}, {most}]", f"{paper_steps:.1f}"],
        ]
        assert [line[2 * column : 2 * column + 2] for line in shown] == expected
        assert all(ours in page for ours, _ in expected)
