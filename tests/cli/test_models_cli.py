"""`vhd models` and `vhd models export`: from runs to the folder that ships."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from vhdiffuser import models
from vhdiffuser.cli import run
from vhdiffuser.data.normalizer import Normalizer
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import DataError
from vhdiffuser.modelfile import ModelHeader, half_precision, load_model, save_model
from vhdiffuser.planner.load import load_planner
from vhdiffuser.training import shipping

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
    assert (trained.gamma, shipped.gamma) == (1.3, 1.7), "gamma travels with the weights"
    assert all(value.dtype == torch.float32 for value in shipped.network.state_dict().values())
    with safe_open(tmp_path / "w/planner.safetensors", "pt") as file:
        assert {file.get_tensor(key).dtype for key in file.keys()} == {torch.float16}  # noqa: SIM118
    start, goal = np.array([1, 1, 0, 0.0]), np.array([3, 1.0])
    a, b = (planner.plan(start, goal, 48, seed=3).states for planner in (trained, shipped))
    np.testing.assert_allclose(a, b, atol=0.02)
    steps = [planner.length_predictor.predict_steps(start, goal) for planner in (trained, shipped)]
    np.testing.assert_allclose(*steps, rtol=0.01)
    assert card["bytes"] == sum((tmp_path / f"w/{kind}.safetensors").stat().st_size for kind in ("planner", "length"))
    assert card["models"].keys() == {"planner", "length"}


def test_the_card_says_what_the_models_are(runs, tmp_path, capsys):
    card, remarks = export(capsys, tmp_path / "w", tmp_path / "none")
    assert (card["environment"], card["licence"], card["gamma"]) == (ENV, "MIT", 1.3)
    assert card["updates"] == {"planner": 3, "length": 3}
    assert card["data"]["source"] == "build"
    assert card["data"]["transitions"] == 5000
    assert card["data"]["fingerprint"] == card["models"]["length"]["data_fingerprint"]
    network = TemporalUnet(4, 8, (1, 2, 4))
    assert card["models"]["planner"]["parameters"] == sum(value.numel() for value in network.parameters())
    assert card["models"]["planner"]["recipe"]["dim"] == 8
    assert card["numbers"] == {}
    assert "no such file" in remarks
    words = (tmp_path / "w/card.md").read_text()
    assert all(text in words for text in ("5,000 transitions", "v_prediction", "gamma 1.3", "Not measured yet", "MIT"))


@pytest.mark.slow
def test_numbers_come_from_rows_of_these_very_models(runs, tmp_path, capsys):
    bench(tmp_path / "r")
    card, remarks = export(capsys, tmp_path / "w", tmp_path / "r")
    assert remarks == ""
    assert card["numbers"].keys() == {"ss", "rp"}
    assert card["numbers"]["ss"]["n"] == 3
    assert card["numbers"]["ss"]["weights"].startswith("full precision")
    rows = [json.loads(line) for line in (tmp_path / f"r/{ENV}/vhd-rp.jsonl").read_text().splitlines()[1:]]
    assert card["numbers"]["rp"]["average_executed_steps"] == pytest.approx(np.mean([row["steps"] for row in rows]))
    table = (tmp_path / "w/card.md").read_text()
    assert "| SS | 3 |" in table
    assert "97.1" in table, "the paper's figure stands beside"

    card, remarks = export(capsys, tmp_path / "w", tmp_path / "r", "--gamma", "2.0")
    assert card["numbers"] == {}
    assert "gamma 1.3, not 2.0" in " ".join(remarks.split())

    assert run(["train", "planner", ENV, "--dim", "8", "--batch-size", "4", "--seed", "9", "--restart", *TINY]) == 0
    card, remarks = export(capsys, tmp_path / "w", tmp_path / "r")
    assert card["numbers"] == {}
    assert "another planner model" in " ".join(remarks.split())


@pytest.mark.slow
def test_shipped_models_are_listed_and_benched(runs, tmp_path, capsys, monkeypatch):
    weights = tmp_path / "package"
    monkeypatch.setattr(models, "files", lambda package: weights)
    monkeypatch.setattr("vhdiffuser.cli.models.shipped_path", models.shipped_path)
    assert run(["models"]) == 0
    assert "No weights ship" in capsys.readouterr().out
    assert run(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []

    assert run(["models", "export", ENV, "--results", str(tmp_path / "r"), "--quiet"]) == 0
    bench(tmp_path / "r", "--weights", "shipped")
    capsys.readouterr()
    # The same bytes again, and now with numbers: of the half-precision files themselves.
    assert run(["models", "export", ENV, "--results", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().err == ""
    assert run(["models"]) == 0
    listed = capsys.readouterr().out
    assert ENV in listed
    assert "RP: SR %" in listed
    assert run(["models", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)
    assert card["numbers"]["rp"]["weights"] == "half precision, as shipped"
    assert load_planner(ENV).spec.name == ENV


def test_unfit_models_are_refused_and_nothing_is_written(runs, tmp_path, capsys, monkeypatch):
    command = ["models", "export", ENV, "--out", str(tmp_path / "w"), "--results", str(tmp_path)]
    assert run([*command, "--planner", "none"]) == 1
    assert "no such model file" in capsys.readouterr().err
    assert run([*command, "--gamma", "0"]) == 1
    assert "gamma must be above 0" in capsys.readouterr().err
    assert run([*command, "--length", "vhd"]) == 1
    assert "holds a planner model" in capsys.readouterr().err
    monkeypatch.setattr(shipping, "LIMIT", 20_000)
    assert run(command) == 1
    assert "at most 0 MB ship" in capsys.readouterr().err
    fixed = ["--horizon", "64", "--dim", "8", "--batch-size", "4"]
    assert run(["train", "planner", ENV, *fixed, *TINY]) == 0
    assert run([*command, "--planner", "fh-64"]) == 1
    assert "fixed horizon 64" in capsys.readouterr().err
    assert run(["models", "export", "antmaze-medium", "--out", str(tmp_path / "w")]) == 1
    assert not (tmp_path / "w").exists()


def test_half_precision_keeps_integers_and_refuses_what_it_cannot_hold(tmp_path):
    tensors = {"w": torch.tensor([0.1, -3.0]), "count": torch.tensor([70_000])}
    halved = half_precision(tensors)
    assert halved["w"].dtype == torch.float16
    save_model(tmp_path / "m.safetensors", halved, ModelHeader("length", {}, {}, {}, ""))
    back, _ = load_model(tmp_path / "m.safetensors", "length")
    assert (back["w"].dtype, back["count"].dtype) == (torch.float32, torch.int64)
    assert back["count"].item() == 70_000
    torch.testing.assert_close(back["w"], tensors["w"], rtol=1e-3, atol=0)
    with pytest.raises(DataError, match="'w' has values beyond half precision"):
        half_precision({"w": torch.tensor([1e6])})


def test_planner_files_from_before_gamma_still_load(tmp_path):
    config = PlannerConfig(dim=8, dim_mults=(1, 2), diffusion_steps=16, steps=4).to_json()
    del config["gamma"], config["smoothing"]
    normalizer = Normalizer(-np.ones(4, np.float32), np.ones(4, np.float32)).to_json()
    header = ModelHeader("planner", get_spec(ENV).to_json(), config, normalizer, "")
    save_model(tmp_path / "old.safetensors", TemporalUnet(4, 8, (1, 2)).state_dict(), header)
    from vhdiffuser.planner.planner import Planner

    assert Planner.load(tmp_path / "old.safetensors").gamma == 1.3
    assert Planner.load(tmp_path / "old.safetensors", gamma=1.0).gamma == 1.0
