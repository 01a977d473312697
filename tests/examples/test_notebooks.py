"""The notebooks run as they are, and were saved as they run."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    """What each code cell puts out."""
    return [[output["output_type"] for output in cell["outputs"]] for cell in code_cells(notebook)]


@pytest.mark.slow
def test_a_log_becomes_a_closed_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VHD_PRECISION", "fp32")
    run_notebook = runpy.run_path(str(ROOT / "tools/run_notebook.py"))["run_notebook"]
    text = (ROOT / "examples/notebooks/from_log_to_closed_loop.ipynb").read_text(encoding="utf-8")
    saved, notebook = json.loads(text), json.loads(text)
    pyplot.figure()  # of somebody else: no output of a cell
    names = run_notebook(notebook)
    assert names["dataset"].spec.control_dt == pytest.approx(0.1)
    assert len(names["episodes"]) == 40, "each flight is an episode"
    assert names["near"].length < names["far"].length, "a horizon for each goal"
    assert names["pushed"].replans >= 1
    assert names["pushed"].success
    assert names["reached"] >= 8
    assert kinds(saved) == kinds(notebook), "saved as it runs: python tools/run_notebook.py NOTEBOOK"


@pytest.mark.slow
def test_a_plan_is_made_and_executed(vhd_home: Path) -> None:
    run_notebook = runpy.run_path(str(ROOT / "tools/run_notebook.py"))["run_notebook"]
    text = (ROOT / "examples/notebooks/plan_and_execute.ipynb").read_text(encoding="utf-8")
    saved, notebook = json.loads(text), json.loads(text)
    names = run_notebook(notebook)
    assert names["rollout"].success
    assert names["agent"].reached
    lengths = [plan.length for _, plan in names["agent"].rollout().plans]
    assert lengths[-1] < lengths[0], "the new goal is nearer"
    assert kinds(saved) == kinds(notebook), "saved as it runs: python tools/run_notebook.py NOTEBOOK"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_saved_notebooks_are_whole_and_small(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 300_000
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(kinds(notebook)) + 1))
    assert any("display_data" in outputs for outputs in kinds(notebook)), "figures are saved with it"
    assert not any(output == "error" for outputs in kinds(notebook) for output in outputs)
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert path.name in listed
