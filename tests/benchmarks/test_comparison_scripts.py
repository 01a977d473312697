"""The scripts that compare recipes: what they compare, and that they go on where they stopped."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vhdiffuser.cli import run
from vhdiffuser.envs.registry import environment_of, get_spec
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.results.summary import Summary
from vhdiffuser.trajectories import Plan

SCRIPTS = Path(__file__).resolve().parents[2] / "benchmarks"
UMAZE = get_spec("maze2d-umaze")


@pytest.fixture(scope="module")
def scripts() -> dict[str, ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield {name: importlib.import_module(name) for name in ("recipes", "execution_share", "plan_quality")}


@pytest.fixture(scope="module")
def small_home(tmp_path_factory) -> Path:
    """A cache with a little data and a Length Predictor of two updates."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(home))
        assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "4000", "--quiet"]) == 0
        options = ["--updates", "2", "--log-every", "1", "--warmup", "1", "--threads", "1", "--quiet"]
        assert run(["train", "length", "maze2d-umaze", *options]) == 0
    return home


def call(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", [script.__name__, *options])
    script.main()


def changed(first, second) -> set[str]:
    first, second = asdict(first), asdict(second)
    return {key for key in first if first[key] != second[key]}


def test_each_recipe_changes_one_thing(scripts) -> None:
    recipes = scripts["recipes"].recipes(UMAZE)
    default = recipes["default"]
    ours, papers = (get_recipe(environment_of(UMAZE), name) for name in ("default", "paper"))
    assert default.config == ours.planner
    for name, recipe in recipes.items():
        parts = {
            key
            for part in ("config", "planning", "loop")
            for key in changed(getattr(default, part), getattr(recipe, part))
        }
        if name.startswith("net-"):
            assert parts
            assert parts <= {"dim", "dim_mults"}
        elif name not in ("default", "paper", "adamw-2e-4"):
            assert len(parts) == 1, name
    assert (recipes["paper"].config, recipes["paper"].planning) == (papers.planner, papers.planning)
    assert recipes["paper"].loop.optimizer == "adamw"
    assert "stride-8" not in recipes, "it is the default of umaze"
    assert "stride-8" in scripts["recipes"].recipes(get_spec("maze2d-large"))


@pytest.mark.slow
def test_recipes_are_trained_judged_and_not_done_twice(scripts, small_home, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(small_home))
    script, out = scripts["recipes"], tmp_path / "table.json"
    options = ["--updates", "2", "--threads", "1", "--n", "2", "--out", str(out)]
    call(script, monkeypatch, *options, "--only", "net-16-1-2-4", "no-smoothing", "--evaluate")
    assert not out.exists(), "nothing is trained yet"
    call(script, monkeypatch, *options, "--only", "net-16-1-2-4")
    (row,) = json.loads(out.read_text())
    assert (row["recipe"], row["updates"], row["n"]) == ("net-16-1-2-4", 2, 2)
    assert row["success_rate"] in (0.0, 0.5, 1.0)
    assert 0 < row["largest_step"] < row["knot_gap"], "two updates make knots that jump"
    text = capsys.readouterr().out
    assert "| net-16-1-2-4 |" in text
    assert text.split("\n")[0] in out.with_suffix(".md").read_text()

    def fail(*values, **named):
        raise AssertionError("done already")

    monkeypatch.setattr(script, "train_run", fail)
    monkeypatch.setattr(script, "evaluate", fail)
    call(script, monkeypatch, *options, "--only", "net-16-1-2-4")
    with pytest.raises(SystemExit, match="no recipe nonsense"):
        call(script, monkeypatch, "--only", "nonsense", "--out", str(out))


def test_the_quality_of_a_plan_is_what_its_names_say(scripts) -> None:
    """Knots of a steady motion at speed 1, 0.1 s apart, one of them 0.03 aside; the curve has one hard step."""
    knots = np.zeros((1, 6, 4), np.float32)
    knots[0, :, 0], knots[0, :, 2], knots[0, 3, 1] = 0.1 * np.arange(6), 1.0, 0.03
    states = np.zeros((51, 4), np.float32)
    states[:, 0], states[:, 2] = 0.01 * np.arange(51), 1.0
    states[20:, 0] += 0.05
    states[-1, 2] = 1.5
    plan = Plan(states, states[-1, :2], knots)
    knot_gap, knot_jump, gap, error, step, hard = scripts["plan_quality"].quality(plan, 0.01)
    assert (knot_gap, knot_jump) == pytest.approx((0.0, 0.03), abs=1e-6)
    assert gap == pytest.approx((0 + 0.0025) / 2, abs=1e-6), "half a unit of speed too much, for half of 0.01 s"
    assert (error, step) == pytest.approx((0.05, 0.06), abs=1e-6)
    assert hard == pytest.approx(1 / 50)


def test_shares_add_up_and_a_plan_is_worth_its_steps(scripts) -> None:
    names = ("e", "vhd", "rp", "reset", 2, (0,))
    summary = Summary(*names, 10, 1.0, (1, 1), (1,), 50.0, (50, 50), 3.0, 1.0, average_replans=0.5)
    row = scripts["execution_share"].shares(summary)
    assert row["planning"] == pytest.approx(0.75)
    assert row["planning"] + row["simulation"] == pytest.approx(1)
    assert row["plans"] == pytest.approx(1.5)
    assert row["worth"] == pytest.approx((3 / 15) / (1 / 500))


def test_shares_off_their_promise_are_counted_overall_and_by_band(monkeypatch, tmp_path) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    reliability = importlib.import_module("reliability")

    def share(promised: float) -> dict[str, object]:
        return {"promised_failure": promised, "failure": 0.1, "failure_interval": [0.08, 0.12]}

    results = [
        {"risk": 0.1, **share(0.1), "bands": {"near": share(0.05), "far": share(0.12)}},
        {"risk": None, **share(0.9), "bands": {}},
    ]
    assert reliability.off(results) == (1, 3), "gamma promises nothing"
    assert reliability.checked("maze2d-umaze", "reset", [], tmp_path) is None
    path = reliability.reliability_overview({f"maze {n}": results for n in range(7)}, tmp_path / "all.png")
    assert path.stat().st_size > 1000
