"""`vhd failures` and `vhd eval-dynamics`: mechanics, on models and data too small to be good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from pictures import RED, WALL, YELLOW, picture, pixels_of

from vhdiffuser.cli import run
from vhdiffuser.data.motion import FastestMotion, fastest_motion
from vhdiffuser.data.store import Dataset, save_dataset
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.execution.recorded import RecordedStart
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import load_model

ENV = "maze2d-umaze"
QUICK = ["--workers", "1", "--quiet"]


@pytest.fixture(scope="module")
def benched(trained_umaze, tmp_path_factory) -> Path:
    """A cache of tiny models, and rows of four instances that they fail, or nearly all."""
    folder = tmp_path_factory.mktemp("benched")
    shutil.copytree(trained_umaze, folder, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(folder))
        rows = ["--methods", "vhd", "--protocols", "ss", "--n", "4", "--keep", "0", "--out", str(folder / "rows")]
        assert run(["bench", ENV, *rows, "--gamma", "0.9", *QUICK]) == 0
    return folder


@pytest.mark.slow
def test_failures_fail_again_and_are_counted_and_drawn(benched, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(benched))
    command = ["failures", ENV, "--rows", str(benched / "rows"), "--out", str(tmp_path), "--video", "top", *QUICK]
    capsys.readouterr()
    assert run([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    lines = (benched / "rows" / ENV / "vhd-ss-0.jsonl").read_text().splitlines()[1:]
    failed = {row["instance"]: row for row in map(json.loads, lines) if not row["success"]}
    assert len(failed) >= 2, "three updates make no planner"
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
    shown = picture(tmp_path / "failures.png")
    assert all(len(pixels_of(shown, colour)) > 20 for colour in (WALL, YELLOW, RED))
    assert len(list(tmp_path.glob("*.gif"))) == len(failed)
    assert run(command) == 0
    text = capsys.readouterr().out
    assert f"{len(failed)} of 4 instances failed" in text
    assert "did not fail again" not in text


@pytest.mark.slow
def test_rows_of_other_weights_are_planned_with_those_there_are_and_it_is_said(benched, monkeypatch, capsys) -> None:
    (weights,) = {path.parent for path in benched.rglob("vhd/model.safetensors")}
    monkeypatch.setenv("VHD_HOME", str(benched))
    kept = weights.rename(weights.with_name("elsewhere"))  # umaze's own weights ship
    try:
        assert run(["failures", ENV, "--rows", str(benched / "rows"), "--speed", "0.07", "--workers", "1"]) == 0
    finally:
        kept.rename(weights)
    captured = capsys.readouterr()
    assert "not found" in captured.err
    assert "did not fail again" in captured.out


def test_no_dataset_is_needed_where_the_planner_s_file_says_how_fast_it_was(benched, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(benched))
    command = ["failures", ENV, "--rows", str(benched / "rows"), "--json", *QUICK]
    capsys.readouterr()
    assert run(command) == 0
    with_data = json.loads(capsys.readouterr().out)
    kept = (benched / "data").rename(benched / "elsewhere")
    try:
        assert run(command) == 0
    finally:
        kept.rename(benched / "data")
    assert json.loads(capsys.readouterr().out) == with_data
    path = next(benched.rglob("vhd/model.safetensors"))
    motion = fastest_motion(load_dataset(ENV).episodes, get_spec(ENV))
    assert FastestMotion.from_notes(load_model(path, "planner")[1].notes) == motion


def test_failures_say_what_is_missing(benched, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(benched))
    rows = ["--rows", str(benched / "rows")]
    assert run(["failures", ENV, *rows, "--protocol", "rp"]) == 1
    assert "no rows of vhd under rp" in capsys.readouterr().err
    assert run(["failures", ENV, *rows, "--speed", "0", *QUICK]) == 1
    assert "must be > 0" in capsys.readouterr().err
    assert run(["failures", "maze9d", *rows]) == 1
    assert "Known: maze2d-umaze" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.ogbench
def test_the_shipped_model_of_the_arm_is_judged_on_recorded_paths(capsys) -> None:
    env, rng, parts = RecordedStart(get_environment("cube")), np.random.default_rng(0), []
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
    assert "different dataset" in captured.err
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
