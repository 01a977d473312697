"""The analyses on untrained networks: the plans they ask for, their tables, and that nothing is run twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from vhdiffuser.analysis import arms, needs, studies
from vhdiffuser.analysis.arms import Arm, Study, outcome, run_arm
from vhdiffuser.analysis.terms import terms, variants
from vhdiffuser.cli import run
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.options import PlanningOptions
from vhdiffuser.diffusion.task import PlannerTask
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.files import sha256
from vhdiffuser.length.config import LengthConfig, NetworkConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.report.analyses import ANALYSES, MISMATCH, STRIDES
from vhdiffuser.results.rows import read_folder
from vhdiffuser.training.loop import SNAPSHOTS
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import load_model, save_model
from vhdiffuser.weights.places import run_folder, run_name

UMAZE = get_environment("maze2d-umaze")
SMALL = PlannerConfig(dim=8, dim_mults=(1, 2), stride=8, diffusion_steps=8)
QUICK = PlanningOptions(steps=1, gamma=1.5, smoothing=0.0)


def episodes() -> Episodes:
    rng = np.random.default_rng(0)
    states = rng.uniform([0.4, 0.4, -5, -5], [3.2, 3.2, 5, 5], (600, 4)).astype(np.float32)
    return Episodes(states, np.zeros((600, 2), np.float32), np.array([600]))


def save_planner(path: Path, config: PlannerConfig, updates: int = 0) -> None:
    data = episodes()
    task = PlannerTask(data, UMAZE.spec, config, Normalizer.fit(data.observations), "f", planning=QUICK)
    torch.manual_seed(0)
    save_model(path, task.make_network().state_dict(), replace(task.header(), updates=updates))


def save_length(path: Path, recipe: LengthConfig, seed: int = 0) -> None:
    data = episodes()
    config = replace(recipe, network=NetworkConfig(features=4, width=8, depth=1), relay_graph=None)
    task = LengthTask(data, UMAZE.spec, config, Normalizer.fit(data.observations), "f")
    torch.manual_seed(seed)
    save_model(path, task.make_network().state_dict(), task.header())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of every name that the analyses look for, untrained."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(home))

        def model(name: str) -> Path:
            return run_folder(UMAZE.name, name) / "model.safetensors"

        save_planner(model("vhd"), SMALL)
        for H in UMAZE.horizons:
            save_planner(model(f"fh-{H}"), replace(SMALL, horizon=H))
        for name in ("lengths-half", "lengths-gap", "vhd-seed-1"):
            save_planner(model(name), SMALL)
        for stride in (4, 16):
            save_planner(model(f"fh-128-stride-{stride}"), replace(SMALL, horizon=128, stride=stride), updates=5)
        save_length(model("length-seed-1"), LengthConfig(), seed=1)
        for recipe in ("default", "paper"):
            save_length(
                model(run_name("length", recipe)), LengthConfig.paper() if recipe == "paper" else LengthConfig()
            )
        for updates in (10, 20):
            path = model("vhd-paper").parent / SNAPSHOTS / f"{updates:08d}.safetensors"
            save_planner(path, replace(SMALL, clamp="state"), updates)
    return home


@pytest.fixture
def study(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("VHD_HOME", str(home))
    return Study(UMAZE, tmp_path / "results", n=3, seeds=(7,), protocols=("ss",))


def test_plans_are_lambda_times_as_long_as_usual(study: Study) -> None:
    table = studies.mismatch(study, (0.5, 2.0), ("vhd", "fh-h1"))
    lengths = {(row["arm"], row["scale"]): row["mean_length"] for row in table.rows}
    assert (lengths["FH-64", 0.5], lengths["FH-64", 2.0]) == (32, 128)
    assert lengths["VHD", 2.0] == pytest.approx(min(4 * lengths["VHD", 0.5], UMAZE.spec.T_max), rel=0.1)
    configs = {item.path.parts[-3]: item.config for item in read_folder(study.results)}
    assert (configs["VHD-0.5"]["gamma"], configs["VHD-2"]["gamma"]) == (0.75, 3.0)
    assert (configs["FH-64-0.5"]["horizon"], configs["FH-64-2"]["horizon"]) == (32, 128)
    assert not list(study.results.rglob("plans.npz"))
    whole = studies.mismatch(study, (1.0,), ("vhd",), piece=0).rows[-1]
    assert whole["arm"] == "VHD, piece 0"
    assert (study.results / "analysis" / "mismatch" / "VHD-piece-0-1").is_dir()


@pytest.mark.parametrize(
    ("methods", "runs"), [(("vhd",), []), (("fh-lp", "fh-h2"), ["fh-128"]), (("fh-h3", "fh-h1"), ["fh-192", "fh-64"])]
)
def test_only_the_planners_of_the_methods_asked_for_are_trained(
    study: Study, methods: tuple[str, ...], runs: list[str]
) -> None:
    assert list(needs.fixed_horizons(study, methods)) == runs


def test_rows_are_kept_and_their_figures_follow(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = studies.mismatch(study, (1.0,), ("fh-h1",)).rows
    monkeypatch.setattr(arms, "outcome", lambda rows: pytest.fail("not this one"))
    done: list[int] = []
    assert studies.mismatch(study, (1.0,), ("fh-h1",), lambda arm, n, total: done.append(n)).rows == first
    assert done == []
    ((_, path),) = MISMATCH.figures(study.results, study.results)
    assert path.stat().st_size > 1000


def test_crops_compare_two_trainings_under_two_predictors(study: Study) -> None:
    rows = studies.crops(study).rows
    assert [(row["arm"], row["predictor"]) for row in rows] == [
        ("random crops", "default"),
        ("crops of 128", "default"),
        ("random crops", "paper"),
        ("crops of 128", "paper"),
    ]
    models = {item.path.parts[-3]: item.config["models"] for item in read_folder(study.results)}
    assert models["vhd-default-1"]["planner"] == models["vhd-paper-1"]["planner"]
    assert models["vhd-default-1"]["length"] == models["fh-lp-default-1"]["length"]
    assert len({config["planner"] for config in models.values()}) == 2


def test_lengths_are_judged_in_bands_and_say_which_were_seen(study: Study) -> None:
    rows = studies.lengths(replace(study, n=12)).rows
    bands = {"16 to 63": 0, "64 to 127": 1, "128 to 256": 2}
    seen = {"all lengths": "yyy", "up to 128": "yyn", "none of 64 to 127": "yny", "only 128": "nn1"}
    assert {row["arm"] for row in rows} == set(seen)
    for row in rows:
        assert row["seen"][0] == seen[row["arm"]][bands[row["band"]]]
        low, high = map(int, row["band"].split(" to "))
        assert low <= row["mean_length"] <= high
    for arm in seen:
        assert sum(row["n"] for row in rows if row["arm"] == arm) == 12


def test_a_curve_has_a_point_for_each_snapshot(study: Study) -> None:
    rows = studies.curve(study, ["vhd-paper"]).rows
    assert [(row["arm"], row["updates"], row["n"]) for row in rows] == [("vhd-paper", 10, 3), ("vhd-paper", 20, 3)]
    assert {item.config["method"] for item in read_folder(study.results)} == {"vhd-paper"}
    with pytest.raises(DataError, match="--snapshot-every"):
        studies.curve(study, ["vhd"])


def test_a_curve_goes_on_where_the_weights_came_from(study: Study) -> None:
    folder = run_folder(UMAZE.name, "vhd-paper") / SNAPSHOTS
    tensors, header = load_model(folder / "00000010.safetensors", "planner")
    went_on = run_folder(UMAZE.name, "went-on-paper") / SNAPSHOTS / "00000010.safetensors"
    save_model(went_on, tensors, replace(header, notes={**header.notes, "began_with": {"sha256": "", "updates": 500}}))
    assert [row["updates"] for row in studies.curve(study, ["went-on-paper"]).rows] == [510]


def test_strides_compare_predicted_lengths_with_the_horizon_of_the_crops(study: Study) -> None:
    rows = studies.strides(study, (4, 16)).rows
    assert [(row["arm"], row["stride"]) for row in rows] == [
        ("FH+LP", 4), ("FH-128", 4), ("FH+LP", 16), ("FH-128", 16),
    ]  # fmt: skip
    assert {row["mean_length"] for row in rows if row["arm"] == "FH-128"} == {128}
    assert {(row["updates"], row["batch_size"]) for row in rows} == {(5, SMALL.batch_size)}
    models = {item.path.parts[-3]: item.config["models"] for item in read_folder(study.results)}
    assert models["fh-lp-4-1"]["planner"] == models["fh-128-4-1"]["planner"] != models["fh-lp-16-1"]["planner"]
    ((_, path),) = STRIDES.figures(study.results, study.results)
    assert path.stat().st_size > 1000


def test_training_seeds_use_networks_of_their_own(study: Study) -> None:
    rows = studies.seeds(study, (0, 1)).rows
    assert [(row["training_seed"], row["n"]) for row in rows] == [(0, 3), (1, 3)]
    used = {item.path.parts[-3]: item.config["models"] for item in read_folder(study.results)}
    assert used["vhd-1"]["length"] != used["vhd-seed-1-1"]["length"]
    assert used["vhd-1"]["length"] == sha256(run_folder(UMAZE.name, "length") / "model.safetensors")


def test_what_is_missing_is_named_or_trained(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert needs.missing(study, needs.unseen_lengths(study)) == {}
    monkeypatch.setenv("VHD_HOME", str(tmp_path / "empty"))
    needed = needs.missing(study, needs.unseen_lengths(study))
    assert {run: training.recipe.planner.horizon for run, training in needed.items()} == {
        "fh-128": 128,
        "lengths-half": None,
        "lengths-gap": None,
    }
    assert needed["lengths-half"].recipe.planner.longest == 128
    assert needed["lengths-gap"].recipe.planner.gap == (64, 128)
    seeds = needs.missing(study, needs.of_seeds(study, (0, 3)))
    assert {run: training.kind for run, training in seeds.items()} == {
        "vhd-seed-3": "planner",
        "length-seed-3": "length",
    }
    assert seeds["vhd-seed-3"].recipe.planner_loop.seed == seeds["length-seed-3"].recipe.length_loop.seed == 3
    (coarse,) = needs.of_strides(study, (16,), updates=7, batch_size=5).values()
    planner, loop = coarse.recipe.planner, coarse.recipe.planner_loop
    assert (planner.horizon, planner.stride, planner.batch_size, loop.updates) == (128, 16, 5, 7)
    trained: list[tuple[str, str]] = []
    for kind in ("planner", "length"):
        note = lambda env, recipe, name, on_status, kind=kind: trained.append((kind, name))  # noqa: E731
        monkeypatch.setattr(needs, f"train_{kind}", note)
    needs.train_missing(study, seeds)
    assert trained == [("planner", "vhd-seed-3"), ("length", "length-seed-3")]
    with pytest.raises(DataError, match="needs the planner model .* train it first"):
        run_arm(study, MISMATCH, Arm("x", "vhd", tmp_path / "none.safetensors"))
    with pytest.raises(VhdError, match="lambda must be > 0"):
        studies.mismatch(study, (0.0,))


def test_the_commands_print_their_tables(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["maze2d-umaze", "--n", "2", "--seeds", "7", "--results", str(study.results), "--json", "--quiet"]
    assert run(["analyse", "mismatch", *options, "--scales", "1", "--methods", "fh-h2"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["arm"], row["scale"], row["n"], row["mean_length"]) == ("FH-128", 1.0, 2, 128.0)
    assert (study.results / "analysis" / "mismatch.md").is_file()
    assert set(ANALYSES) == {"crops", "strides", "mismatch", "lengths", "terms", "seeds", "curve"}


def test_each_variant_leaves_out_one_part() -> None:
    found = {name: variant.config for name, variant in variants(UMAZE.spec, 1000).items()}
    assert len({str(config) for config in found.values()}) == len(found)
    assert found["paper"] == LengthConfig.paper(1000)
    assert found["default"] == LengthConfig().scheduled(1000)
    for config in found.values():
        assert config.strengthening_from < 1000, "every phase takes place"
    assert not any(phase.lambda_triangle for phase in found["paper-no-triangle"].phases)
    assert not any(phase.lambda_cons for phase in found["paper-no-consistency"].phases)
    assert found["paper-no-boundary"] == replace(found["paper"], lambda_bdry=0.0)
    assert len({str(replace(phase, shortest=0, longest=0)) for phase in found["paper-no-curriculum"].phases}) == 1
    assert not any(phase.graph for phase in found["no-graph"].phases)
    assert not any(phase.even for phase in found["not-even"].phases)
    assert "full-state" in found


@pytest.mark.slow
def test_variants_are_trained_judged_and_not_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VHD_HOME", str(tmp_path))
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "4000", "--quiet"]) == 0
    few = {"only": ("paper",), "updates": 8, "pairs": 20, "threads": 1}
    rows = terms(UMAZE, tmp_path / "results", training_seeds=(0, 1), **few).rows  # type: ignore[arg-type]
    assert [(row["arm"], row["seed"], row["updates"]) for row in rows] == [("paper", 0, 8), ("paper", 1, 8)]
    assert rows[0]["spearman"] != rows[1]["spearman"]
    monkeypatch.setattr("vhdiffuser.analysis.terms.train_length", lambda *_, **__: pytest.fail("done already"))
    assert terms(UMAZE, tmp_path / "results", **few).rows == rows  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="nonsense"):
        terms(UMAZE, tmp_path / "results", only=("nonsense",))


def test_outcome_counts_what_it_says(study: Study) -> None:
    rows = run_arm(study, MISMATCH, Arm("a", "fh-h1", run_folder(UMAZE.name, "fh-64") / "model.safetensors"))["ss"]
    made = [replace(row, success=number == 0, steps=10, geodesic=1.0, path=2.0) for number, row in enumerate(rows)]
    facts = outcome(made)
    assert (facts["n"], facts["success_rate"], facts["average_executed_steps"]) == (3, pytest.approx(1 / 3), 10)
    assert facts["spl"] == pytest.approx(0.5 / 3)
