"""`vhd export onnx`: the folder plans and controls as the models do, damage is noticed, and C++ makes the same plan."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import vhdiffuser
from vhdiffuser.cli import run
from vhdiffuser.control.base import default_controller
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.execution.export_onnx import load_onnx_controller

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def umaze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "umaze"
    assert run(["export", "onnx", "maze2d-umaze", "--weights", "shipped", "--out", str(folder), "--json"]) == 0
    return folder


def test_the_folder_plans_as_the_model_files_do(umaze: Path) -> None:
    exported, shipped = vhdiffuser.load_planner(umaze), vhdiffuser.load_planner("maze2d-umaze")
    for seed in (0, 5):
        assert exported.plan([1, 1, 0, 0], [3, 1], seed=seed) == shipped.plan([1, 1, 0, 0], [3, 1], seed=seed)
    assert exported.options == shipped.options
    config = json.loads((umaze / "config.json").read_text())
    assert config["network"]["stride"] == shipped.config.stride
    assert config["network"]["clamped_dims_of_last_knot"] == [0, 1]
    assert len(config["schedule"]["levels"]) == shipped.options.steps
    with pytest.raises(VhdError, match="onnx file cannot be saved"):
        exported.save_pretrained(umaze.parent / "again")


def test_composed_plans_and_learned_controllers_are_exported_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("maze2d-large", "antmaze-medium"):
        assert run(["export", "onnx", name, "--weights", "shipped", "--out", str(tmp_path / name)]) == 0
    large = vhdiffuser.load_planner(tmp_path / "maze2d-large")
    shipped_large = vhdiffuser.load_planner("maze2d-large")  # whose windows are computed by an unrolled network
    ours, theirs = (planner.plan([1, 1, 0, 0], [7, 9]).states for planner in (large, shipped_large))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    ant = vhdiffuser.load_planner(tmp_path / "antmaze-medium")
    controller, shipped = load_onnx_controller(tmp_path / "antmaze-medium"), default_controller(ant.spec, "shipped")
    plan = ant.plan([0, 0], [4, 4])
    seen = np.random.default_rng(0).normal(size=(1, ant.spec.observation_dim)).astype(np.float32)
    given = seen, [plan], np.array([3])
    np.testing.assert_array_equal(controller.act(*given), shipped.act(*given))
    with pytest.raises(DataError, match=r"has no dynamics\.onnx"):
        load_onnx_controller(tmp_path / "maze2d-large")
    assert "dynamics.onnx" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["planner.onnx", "length.onnx", "config.json"])
def test_damage_is_noticed(umaze: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(umaze, folder)
    content = bytearray((folder / name).read_bytes())
    place = content.index(b'"smoothing": 12.0') + 14 if name == "config.json" else len(content) // 2
    content[place] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(DataError, match="does not match"):
        vhdiffuser.load_planner(folder)
    (folder / name).unlink()
    with pytest.raises(VhdError, match=r"missing or damaged|cannot be read|no such model file"):
        vhdiffuser.load_planner(folder)


def onnxruntime_headers() -> Path | None:
    """Where ONNX Runtime's C++ header is; the wheel has the library without it."""
    places = [os.environ.get("ONNXRUNTIME_INCLUDE", ""), "/usr/include/onnxruntime", "/usr/local/include/onnxruntime"]
    nested = [Path(place) / "core" / "session" for place in places if place]
    found = [
        place for place in [*map(Path, filter(None, places)), *nested] if (place / "onnxruntime_cxx_api.h").is_file()
    ]
    return found[0] if found else None


@pytest.mark.slow
def test_cpp_makes_the_same_plan(tmp_path: Path) -> None:
    compiler, headers = shutil.which("g++") or shutil.which("clang++"), onnxruntime_headers()
    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    if compiler is None or headers is None or not libraries:
        pytest.skip("needs a C++ compiler and ONNX Runtime's C++ header (set ONNXRUNTIME_INCLUDE to its folder)")
    (tmp_path / "libonnxruntime.so.1").symlink_to(libraries[0])
    source = ROOT / "examples" / "plan.cpp"
    assert len(source.read_text().splitlines()) < 200
    build = [compiler, "-std=c++17", str(source), "-I", str(headers), str(tmp_path / "libonnxruntime.so.1")]
    subprocess.run([*build, "-o", str(tmp_path / "plan")], check=True)
    umaze = tmp_path / "umaze"  # with a margin: the example does not read the calibration
    options = ["--weights", "shipped", "--gamma", "1.25", "--out", str(umaze), "--json"]
    assert run(["export", "onnx", "maze2d-umaze", *options]) == 0
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    for seed, start, goal in ((7, [1, 1, 0, 0], [3, 1]), (2**40 + 3, [3, 1.1, 0.5, 0], [1, 1])):
        command = [str(tmp_path / "plan"), str(umaze), *map(str, [*start, *goal]), "--seed", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        theirs = np.loadtxt(done.stdout.splitlines(), delimiter=",")
        ours = vhdiffuser.load_planner(umaze).plan(start, goal, seed=seed)
        np.testing.assert_allclose(theirs, ours.states, atol=1e-4)
    calibrated = tmp_path / "calibrated"
    assert run(["export", "onnx", "maze2d-umaze", "--weights", "shipped", "--out", str(calibrated), "--json"]) == 0
    command = [str(tmp_path / "plan"), str(calibrated), *map(str, [1, 1, 0, 0, 3, 1])]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (refused.returncode, "has the option risk" in refused.stderr) == (1, True)
