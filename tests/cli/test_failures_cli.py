"""`vhd failures` and `vhd eval-dynamics`: mechanics, on models and data too small to be good."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vhdiffuser.benchmark.dynamics_eval import RecordedStart
from vhdiffuser.cli import run
from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.types import Episodes

ENV = "maze2d-umaze"
TINY = ["--threads", "1", "--quiet", "--updates", "2", "--log-every", "1", "--warmup", "1"]
QUICK = ["--workers", "1", "--quiet"]


@pytest.fixture(scope="module")
def benched(tmp_path_factory) -> Path:
    """A cache of tiny models, and rows of four instances that they fail, or nearly all."""
    folder = tmp_path_factory.mktemp("benched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(folder))
        assert run(["data", "get", ENV, "--source", "build", "--size", "4000", "--quiet"]) == 0
        assert run(["train", "planner", ENV, "--dim", "8", "--batch-size", "2", *TINY]) == 0
        assert run(["train", "length", ENV, *TINY]) == 0
        rows = ["--methods", "vhd", "--protocols", "ss", "--n", "4", "--keep", "0", "--out", str(folder / "rows")]
        assert run(["bench", ENV, *rows, "--gamma", "0.9", *QUICK]) == 0
    return folder


def test_failures_fail_again_and_are_counted_and_drawn(benched, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(benched))
    command = ["failures", ENV, "--rows", str(benched / "rows"), "--out", str(tmp_path), "--video", "top", *QUICK]
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    lines = (benched / "rows" / ENV / "vhd-ss.jsonl").read_text().splitlines()[1:]
    failed = {row["instance"]: row for row in map(json.loads, lines) if not row["success"]}
    assert len(failed) >= 2, "two updates make no planner"
    assert answer["same_weights"]
    assert (answer["instances"], answer["failures"]) == (4, len(failed))
    assert answer["did_not_fail_again"] == []
    assert sum(answer["kinds"].values()) == len(failed)
    for found in answer["runs"]:
        row = failed[found["instance"]]
        assert found["same_plan"]
        assert found["length"] == row["planned_length"]
        assert found["final_distance"] == pytest.approx(row["final_distance"], abs=1e-4)
    assert json.loads((tmp_path / "failures.json").read_text()) == answer
    assert (tmp_path / "failures.png").stat().st_size > 10_000
    assert len(list(tmp_path.glob("*.gif"))) == len(failed)
    assert run(command) == 0
    text = capsys.readouterr().out
    assert f"{len(failed)} of 4 instances failed" in text
    assert "did not fail again" not in text


def test_rows_of_other_weights_are_planned_with_those_there_are_and_it_is_said(benched, monkeypatch, capsys) -> None:
    (weights,) = {path.parent for path in benched.rglob("vhd/model.safetensors")}
    monkeypatch.setenv("VHD_HOME", str(benched))
    kept = weights.rename(weights.with_name("elsewhere"))  # umaze's own weights ship
    try:
        assert run(["failures", ENV, "--rows", str(benched / "rows"), "--speed", "0.07", "--workers", "1"]) == 0
    finally:
        kept.rename(weights)
    captured = capsys.readouterr()
    assert "other weights" in captured.err
    assert "did not fail again" in captured.out


def test_failures_say_what_is_missing(benched, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(benched))
    rows = ["--rows", str(benched / "rows")]
    assert run(["failures", ENV, *rows, "--protocol", "rp"]) == 1
    assert "vhd-rp.jsonl" in capsys.readouterr().err
    assert run(["failures", ENV, *rows, "--speed", "0", *QUICK]) == 1
    assert "above 0" in capsys.readouterr().err
    assert run(["failures", "maze9d", *rows]) == 1
    assert "Known: maze2d-umaze" in capsys.readouterr().err


@pytest.mark.ogbench
def test_the_shipped_model_of_the_arm_is_judged_on_recorded_paths(capsys) -> None:
    env, rng, parts = RecordedStart("cube"), np.random.default_rng(0), []
    for _ in range(2):
        states = [env.env.reset(env.env.sample_instance(rng))]
        actions = np.repeat(rng.uniform(-0.3, 0.3, (4, 5)), 8, axis=0)
        actions[:, 4] = 0.0  # a gripper that closes touches itself, and such windows are left out
        states += [env.step(action) for action in actions]
        parts.append((np.stack(states), actions))
    save_dataset(Dataset(get_spec("cube"), Episodes.from_parts(parts), "import"))
    command = ["eval-dynamics", "cube", "--n", "2", "--steps", "10", "--weights", "shipped", "--workers", "1"]
    assert run([*command, "--json"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert "other data" in captured.err
    assert not answer["held_out_data"]
    assert len(answer["actions"]["dimensions"]) == 5
    assert answer["actions"]["samples"] == 32
    assert [row["condition"] for row in answer["tracking"]][:2] == ["exact", "beside 1 eps"]
    assert 0 < answer["tracking"][0]["mean_distance"] < 0.5
    assert {row["falls"] for row in answer["tracking"]} == {0.0}
    assert run([*command, "--quiet"]) == 0
    assert "within eps" in capsys.readouterr().out


def test_a_controller_that_is_not_trained_is_not_judged(capsys) -> None:
    assert run(["eval-dynamics", "maze2d-umaze"]) == 1
    assert "'pd', which is not trained" in capsys.readouterr().err
    assert run(["eval-dynamics", "cube", "--weights", "trained"]) == 1
    assert "vhd train dynamics" in capsys.readouterr().err
