"""`vhd models` and `vhd models export`: from runs to the folder that ships."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from vhdiffuser.cli import run
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import DataError
from vhdiffuser.files import sha256
from vhdiffuser.length.calibration import Calibration
from vhdiffuser.planner.calibrated import FILE, calibrated_options, planner_digests, write_calibration
from vhdiffuser.planner.load import load_planner
from vhdiffuser.report.cards import card_markdown
from vhdiffuser.training import export as exporting
from vhdiffuser.weights import places
from vhdiffuser.weights.format import ModelHeader, half_precision, load_model, save_model

ENV = "maze2d-umaze"
TINY = ["--threads", "1", "--quiet", "--updates", "3", "--log-every", "1", "--warmup", "1"]


@pytest.fixture
def runs(trained_umaze, vhd_home):
    shutil.copytree(trained_umaze, vhd_home)
    return vhd_home


def export(capsys, out: Path, results: Path, *options: str) -> tuple[dict, str]:
    capsys.readouterr()
    assert run(["models", "export", ENV, "--out", str(out), "--results", str(results), "--json", *options]) == 0
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def bench(results: Path, *options: str) -> None:
    command = ["bench", ENV, "--methods", "vhd", "--n", "3", "--steps", "2", "--keep", "0", "--workers", "1"]
    assert run([*command, "--quiet", "--out", str(results), *options]) == 0


@pytest.mark.slow
def test_an_exported_planner_is_half_as_large_and_plans_the_same(runs, tmp_path, capsys):
    card, _ = export(capsys, tmp_path / "w", tmp_path / "r", "--gamma", "1.7")
    trained, shipped = load_planner(ENV, source="trained"), load_planner(tmp_path / "w")
    assert (trained.options.gamma, shipped.options.gamma) == (1.0, 1.7), "gamma travels with the weights"
    assert all(value.dtype == np.float32 for value in shipped.network.tensors.values())
    with safe_open(tmp_path / "w/planner.safetensors", "pt") as file:
        assert {file.get_tensor(key).dtype for key in file.keys()} == {torch.float16}  # noqa: SIM118
    start, goal = np.array([1, 1, 0, 0.0]), np.array([3, 1.0])
    a, b = (planner.plan(start, goal, 48, seed=3).states for planner in (trained, shipped))
    np.testing.assert_allclose(a, b, atol=0.02)
    steps = [planner.length_predictor.predict_steps(start, goal) for planner in (trained, shipped)]
    np.testing.assert_allclose(*steps, rtol=0.01)
    assert card["bytes"] == sum(path.stat().st_size for path in (tmp_path / "w").glob("*.safetensors"))
    assert card["models"].keys() == {"planner", "length", "route"}


def test_a_gamma_replaces_the_default_risk_of_a_calibrated_folder(runs, tmp_path, capsys):
    export(capsys, tmp_path / "w", tmp_path / "none")
    planner = load_planner(tmp_path / "w")
    made = {"models": planner_digests(planner), "options": calibrated_options(planner), "protocol": "ss"}
    shares = np.full((2, 2), 0.8)
    failure = np.array([[0.2, 0.01]] * 2)
    ends, multiples = np.array([10.0, 100.0]), np.array([1.0, 1.5])
    calibration = Calibration(ends, multiples, failure, shares, shares + 0.15, made, default_risk=0.05)
    write_calibration(tmp_path / "w" / FILE, calibration)
    assert load_planner(tmp_path / "w").options.risk == 0.05
    export(capsys, tmp_path / "w", tmp_path / "none")
    assert load_planner(tmp_path / "w").options.risk == 0.05, "nobody asked for a gamma"
    export(capsys, tmp_path / "w", tmp_path / "none", "--gamma", "1.7")
    options = load_planner(tmp_path / "w").options
    assert (options.gamma, options.risk) == (1.7, None)
    assert load_planner(tmp_path / "w", risk=0.05).options.risk == 0.05, "the calibration is still there"


def test_the_card_says_what_the_models_are(runs, tmp_path, capsys):
    card, remarks = export(capsys, tmp_path / "w", tmp_path / "none")
    assert (card["environment"], card["licence"], card["lengths"]) == (ENV, "MIT", "gamma 1")
    assert card["updates"] == {"planner": 3, "length": 3}
    assert card["data"]["source"] == "build"
    assert card["data"]["transitions"] == 5000
    assert card["data"]["fingerprint"] == card["models"]["length"]["data_fingerprint"]
    network = TemporalUnet(4, 8, (1, 2, 4))
    assert card["models"]["planner"]["parameters"] == sum(value.numel() for value in network.parameters())
    assert card["models"]["planner"]["recipe"]["dim"] == 8
    assert card["numbers"] == {}
    assert "no rows of vhd under ss" in " ".join(remarks.split())
    words = (tmp_path / "w/README.md").read_text()
    assert all(text in words for text in ("5,000 transitions", "v_prediction", "gamma 1,", "Not measured yet", "MIT"))


@pytest.mark.slow
def test_numbers_come_from_rows_of_these_very_models(runs, tmp_path, capsys):
    """Of the files in the folder, in half precision; not of the run they were made from."""
    bench(tmp_path / "before", "--weights", "trained")
    card, remarks = export(capsys, tmp_path / "w" / ENV, tmp_path / "before")
    assert card["numbers"] == {}
    assert "another planner model, not with this file" in " ".join(remarks.split())
    bench(tmp_path / "r", "--weights", str(tmp_path / "w"))
    capsys.readouterr()
    assert run(["models", "card", str(tmp_path / "w" / ENV), "--results", str(tmp_path / "r"), "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    measured = json.loads(printed.out)
    assert {**measured, "numbers": {}} == card, "all else is as before"
    card = measured
    assert card["numbers"].keys() == {"ss", "rp"}
    assert card["numbers"]["ss"]["n"] == 3
    rows = [json.loads(line) for line in (tmp_path / f"r/{ENV}/vhd-rp-0.jsonl").read_text().splitlines()[1:]]
    assert card["numbers"]["rp"]["average_executed_steps"] == pytest.approx(np.mean([row["steps"] for row in rows]))
    table = (tmp_path / "w" / ENV / "README.md").read_text()
    assert "| SS | 3 |" in table
    assert "97.1" in table, "the paper's figure stands beside"

    bench(tmp_path / "wide", "--weights", str(tmp_path / "w"), "--gamma", "2.0")
    assert run(["models", "card", str(tmp_path / "w" / ENV), "--results", str(tmp_path / "wide")]) == 0
    assert "gamma 2.0, not 1.0" in " ".join(capsys.readouterr().err.split())

    assert run(["train", "planner", ENV, "--dim", "8", "--batch-size", "4", "--seed", "9", "--restart", *TINY]) == 0
    card, remarks = export(capsys, tmp_path / "w" / ENV, tmp_path / "r")
    assert card["numbers"] == {}
    assert "another planner model" in " ".join(remarks.split())


@pytest.mark.slow
def test_shipped_models_are_listed_and_benched(runs, tmp_path, capsys, monkeypatch):
    weights = tmp_path / "package"
    monkeypatch.setattr(places, "files", lambda package: weights)
    assert run(["models"]) == 0
    assert "ships no weights" in capsys.readouterr().out
    assert run(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []

    export = ["models", "export", ENV, "--out", str(weights / "weights" / ENV), "--results", str(tmp_path / "r")]
    assert run([*export, "--quiet"]) == 0
    bench(tmp_path / "r", "--weights", "shipped")
    capsys.readouterr()
    # The same bytes again, and now with numbers: of the half-precision files themselves.
    assert run(export) == 0
    assert capsys.readouterr().err == ""
    assert run(["models"]) == 0
    listed = capsys.readouterr().out
    assert ENV in listed
    assert "RP: SR %" in listed
    assert run(["models", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)
    assert card["numbers"]["rp"]["n"] == 3
    assert load_planner(ENV).spec.name == ENV


def test_export_writes_where_the_user_is_and_not_into_the_package(runs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(places, "files", lambda package: tmp_path / "package")
    assert run(["models", "export", ENV, "--quiet"]) == 0
    assert f"out/models/{ENV}" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out/models" / ENV).iterdir()} == {
        "planner.safetensors",
        "length.safetensors",
        "route.safetensors",
        "route.table.npz",
        "card.json",
        "README.md",
        "config.json",
    }
    assert not (tmp_path / "package").exists()


def test_the_card_of_a_fine_tuned_model_counts_all_its_updates(runs, tmp_path, capsys):
    tuned = ["--begin-with", "vhd", "--name", "tuned", "--dim", "8", "--batch-size", "4"]
    assert run(["train", "planner", ENV, *tuned, *TINY, "--updates", "2"]) == 0
    card, _ = export(capsys, tmp_path / "w", tmp_path / "none", "--planner", "tuned")
    assert card["updates"] == {"planner": 5, "length": 3}
    assert (card["models"]["planner"]["updates"], card["models"]["planner"]["began_with"]["updates"]) == (2, 3)
    words = (tmp_path / "w/README.md").read_text()
    assert "| 5 (3 + 2) |" in words
    assert "(of the last 2) |" in words


@pytest.mark.parametrize("name", places.shipped_environments())
def test_shipped_cards_say_the_same_in_words(name):
    words = places.shipped_path(name, "planner").with_name("README.md").read_text()
    assert words == card_markdown(places.shipped_card(name))


def test_unfit_models_are_refused_and_nothing_is_written(runs, tmp_path, capsys, monkeypatch):
    command = ["models", "export", ENV, "--out", str(tmp_path / "w"), "--results", str(tmp_path)]
    assert run([*command, "--planner", "none"]) == 1
    assert "no such model file" in capsys.readouterr().err
    assert run([*command, "--gamma", "0"]) == 1
    assert "gamma must be > 0" in capsys.readouterr().err
    assert run([*command, "--length", "vhd"]) == 1
    assert "contains a planner model" in capsys.readouterr().err
    monkeypatch.setattr(exporting, "LIMIT", 20_000)
    assert run(command) == 1
    assert "at most 0 MB may ship" in capsys.readouterr().err
    fixed = ["--horizon", "64", "--dim", "8", "--batch-size", "4"]
    assert run(["train", "planner", ENV, *fixed, *TINY]) == 0
    assert run([*command, "--planner", "fh-64"]) == 1
    assert "fixed horizon 64" in capsys.readouterr().err
    assert run(["models", "export", "antmaze-medium", "--out", str(tmp_path / "w")]) == 1
    assert not (tmp_path / "w").exists()


def test_half_precision_keeps_integers_and_refuses_what_it_cannot_hold(tmp_path):
    tensors = {"w": np.float32([0.1, -3.0]), "count": np.array([70_000])}
    halved = half_precision(tensors)
    assert halved["w"].dtype == np.float16
    save_model(tmp_path / "m.safetensors", halved, ModelHeader("length", {}, {}, {}, ""))
    back, _ = load_model(tmp_path / "m.safetensors", "length")
    assert (back["w"].dtype, back["count"].dtype) == (np.float32, np.int64)
    assert back["count"].item() == 70_000
    np.testing.assert_allclose(back["w"], tensors["w"], rtol=1e-3)
    with pytest.raises(DataError, match="'w' exceeds the range of half precision"):
        half_precision({"w": np.float32([1e6])})


@pytest.mark.slow
def test_an_archive_holds_the_very_files_behind_the_rows(runs, tmp_path, capsys):
    archive = tmp_path / "weights"
    assert run(["models", "archive", ENV, "--out", str(archive), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert set(written) == {"vhd", "length", "route"}
    with safe_open(written["vhd"], "pt") as file:
        assert {file.get_tensor(key).dtype for key in file.keys()} == {torch.float16}  # noqa: SIM118
    bench(tmp_path / "r", "--weights", str(archive))
    (rows,) = (tmp_path / "r" / ENV).glob("vhd-ss*.jsonl")
    used = json.loads(rows.read_text().splitlines()[0])["config"]["models"]
    assert used == {"planner": sha256(Path(written["vhd"])), "length": sha256(Path(written["length"]))}
    # Another user has the archive and no runs: the same rows again, and failures found with the same weights.
    shutil.rmtree(runs / "runs")
    bench(tmp_path / "again", "--weights", str(archive))
    assert [row["steps"] for row in results_of(tmp_path / "again")] == [
        row["steps"] for row in results_of(tmp_path / "r")
    ]
    capsys.readouterr()
    failures = [
        "failures",
        ENV,
        "--rows",
        str(tmp_path / "r"),
        "--speed",
        "0.05",
        "--workers",
        "1",
        "--json",
        "--quiet",
    ]
    assert run([*failures, "--weights", str(archive)]) == 0
    assert json.loads(capsys.readouterr().out)["same_weights"] is True


def results_of(folder: Path) -> list[dict]:
    return [json.loads(line) for path in sorted(folder.rglob("*.jsonl")) for line in path.read_text().splitlines()[1:]]


def test_an_archive_of_nothing_and_a_folder_that_is_none_are_refused(runs, tmp_path, capsys):
    assert run(["models", "archive", ENV, "--runs", "fh-9", "--out", str(tmp_path / "w")]) == 1
    assert "unknown finished run of maze2d-umaze 'fh-9'. Known: length, route, vhd." in capsys.readouterr().err
    assert run(["models", "archive", "maze2d-large", "--out", str(tmp_path / "w")]) == 1
    assert "no finished run of maze2d-large" in capsys.readouterr().err
    assert not (tmp_path / "w").exists()
    assert (
        run(["bench", ENV, "--methods", "vhd", "--weights", str(tmp_path / "nowhere"), "--out", str(tmp_path / "r")])
        == 1
    )
    assert "Known: auto, trained, shipped, a folder of weights" in capsys.readouterr().err
    assert run(["models", "card", str(tmp_path)]) == 1
    assert "no planner.safetensors" in capsys.readouterr().err
