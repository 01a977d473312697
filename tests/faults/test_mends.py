"""Each defect that the campaign found, mended: files, locks, workers, checkpoints, arguments."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import vhdiffuser
from vhdiffuser import files
from vhdiffuser.cli import run
from vhdiffuser.data.store import dataset_path, writing_dataset
from vhdiffuser.diffusion.config import PlannerConfig
from vhdiffuser.diffusion.networks import as_network
from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.files import atomic_path, scratch_folder
from vhdiffuser.locks import exclusive
from vhdiffuser.planner.load import load_planner
from vhdiffuser.reading import read_hdf5, read_npz
from vhdiffuser.weights.format import read_tensors, save_tensors
from vhdiffuser.weights.places import run_folder, shipped_path
from vhdiffuser.workers import run_in_workers


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    script = """
        import os, sys
        from pathlib import Path
        from vhdiffuser.files import atomic_path
        with atomic_path(Path(sys.argv[1])) as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "file")])
    (left,) = tmp_path.glob(".*.part")
    living = tmp_path / left.name.replace(left.name.split("-")[1], str(os.getppid()))
    living.mkdir()
    files._swept.clear()
    with atomic_path(tmp_path / "file") as temporary:
        temporary.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["file", living.name])


def test_scratch_folders_of_killed_processes_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / f"vhdiffuser-{files._HOST}-{dead.stdout.strip()}-00000000").mkdir()
    files._swept.clear()
    with scratch_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_is_refused_and_a_lock_left_behind_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("99999999\n")  # of a killed process
    refused = pytest.raises(DataError, match=rf"another process \(process {os.getpid()}\) is baking")
    with exclusive(tmp_path, "baking"), refused, exclusive(tmp_path, "baking"):
        pass
    assert list(tmp_path.iterdir()) == []
    with exclusive(tmp_path, "baking"):
        pass


def test_the_same_build_and_the_same_training_twice_at_once(trained_umaze: Path, vhd_home: Path, capsys) -> None:
    import shutil

    shutil.copytree(trained_umaze, vhd_home)
    with writing_dataset("maze2d-umaze"):
        build = ["data", "get", "maze2d-umaze", "--source", "build", "--size", "5000", "--quiet", "--replace"]
        assert run(build) == 1
    assert "is building or importing the dataset maze2d-umaze. Wait for it" in capsys.readouterr().err
    with exclusive(run_folder("maze2d-umaze", "length"), "training in it"):
        assert run(["train", "length", "maze2d-umaze", "--updates", "4", "--quiet", "--threads", "1"]) == 1
    assert "is training in it" in capsys.readouterr().err
    assert not dataset_path("maze2d-umaze").with_name(".lock").exists()


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    if number == 1:
        os._exit(1)
    if number == 2:
        raise ValueError("odd number")
    return number


def test_workers_answer_report_their_death_and_end_at_once() -> None:
    assert sorted(run_in_workers(square, [(n,) for n in range(5)], 2)) == [(n, n * n) for n in range(5)]
    with pytest.raises(VhdError, match="ended unexpectedly"):
        list(run_in_workers(fail, [(1,)], 1))
    with pytest.raises(VhdError, match="odd number"):
        list(run_in_workers(fail, [(2,)], 1))
    results = run_in_workers(time.sleep, [(600,), (0,)], 2)
    next(results)
    began = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 60
    assert not multiprocessing.active_children()


def bomb(path: Path, shape: str, size: int) -> Path:
    """An npz whose array claims a shape; `size` zero bytes stand for it."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(size)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("observations.npy", content)
    return path


def test_a_bomb_and_a_shape_of_terabytes_are_refused_from_their_headers(tmp_path: Path) -> None:
    import h5py

    with pytest.raises(DataError, match=r"would unpack to 0.2 GB from 0.2 MB in the file"):
        read_npz(bomb(tmp_path / "a.npz", "(50000000,)", 200_000_000), ("observations",))
    with pytest.raises(DataError, match=r"declares shape \(1000000000000, 4\)"):
        read_npz(bomb(tmp_path / "b.npz", "(1000000000000, 4)", 64), ("observations",))
    with h5py.File(tmp_path / "c.hdf5", "w") as file:
        file.create_dataset("observations", (10**12, 4), "f4", chunks=(1000, 4))
    with pytest.raises(DataError, match="would unpack to 16,000.0 GB"):
        read_hdf5(tmp_path / "c.hdf5", ("observations",))
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        file["observations"] = h5py.ExternalLink(tmp_path / "c.hdf5", "observations")
    with pytest.raises(DataError, match="missing"):
        read_hdf5(tmp_path / "d.hdf5", ("observations",))


def test_an_ordinary_constant_column_is_no_bomb(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", observations=np.zeros((10**6, 4), np.float32))
    assert read_npz(tmp_path / "a.npz", ("observations",))["observations"].shape == (10**6, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--goal-dims", "0", "1", "--velocity-dims", "9", "9"], "velocity dimensions"),
        (["--epsilon", "nan"], "epsilon must be"),
        (["--goal-dims", "0", "0"], "twice"),
        (["--state-dims", "0", "0"], "twice"),
        (["--t-max", "-1"], "T_max must be"),
        (["--control-dt", "nan"], "control_dt must be"),
    ],
)
def test_accepted_but_wrong_is_refused(options: list[str], said: str, tmp_path: Path, capsys) -> None:
    np.savez(tmp_path / "own.npz", observations=np.random.default_rng(0).random((40, 4)), episode_ends=[40])
    assert run(["data", "import", "mine", str(tmp_path / "own.npz"), *options]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--updates", "-1"],
        ["--minutes", "0"],
        ["--threads", "0"],
        ["--seed", "-1"],
        ["--name", "[/bold]"],
        ["--name", "x" * 300],
        ["--dim", "0"],
        ["--learning-rate", "nan"],
    ],
)
def test_trainings_of_odd_options_are_refused(options, trained_umaze, monkeypatch, capsys) -> None:
    monkeypatch.setenv("VHD_HOME", str(trained_umaze))
    assert run(["train", "planner", "maze2d-umaze", "--quiet", *options]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_numbers_beyond_reason_are_refused() -> None:
    predictor = vhdiffuser.load_planner("maze2d-umaze").length_predictor
    for start in ([1e38, 0, 0, 0], [1e300, 0, 0, 0], ["1", 0, 0, 0]):
        with pytest.raises(VhdError, match="must be numbers|must not exceed"):
            predictor.predict_steps(start, [1.0, 1.0])  # type: ignore[union-attr]


def test_without_a_home_the_message_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VHD_HOME")

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(DataError, match="Set VHD_HOME"):
        files.home()


def test_planning_leaves_no_trace_of_telemetry(tmp_path: Path) -> None:
    """ONNX Runtime's builds keep a device id and send what they run, unless they are told not to."""
    script = "import vhdiffuser; vhdiffuser.load_planner('maze2d-umaze', steps=1).plan([1, 1, 0, 0], [3, 1])"
    # Its makers turn it off themselves where automatic tests run.
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("ORT_", "CI", "GITHUB", "XDG"))}
    places = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", script], env={**ours, **places}, check=True)
    assert [path.name for path in tmp_path.rglob("*") if path.name == ".ses" or "onnxruntime" in path.name] == []


@pytest.mark.parametrize("kind", ["length", "planner"])
def test_weights_that_are_no_real_numbers_are_refused(kind: str, tmp_path: Path) -> None:
    """As the campaign's Length Predictor 103: an integer tensor, signed anew."""
    from vhdiffuser.weights.format import load_model, save_model
    from vhdiffuser.weights.places import shipped_path

    tensors, header = load_model(shipped_path("maze2d-umaze", kind), kind)
    key = next(name for name, value in tensors.items() if value.ndim > 1)
    save_model(tmp_path / "model.safetensors", {**tensors, key: tensors[key].astype(np.int64)}, header)
    load = vhdiffuser.LengthPredictor.load if kind == "length" else vhdiffuser.Planner.load
    with pytest.raises(DataError, match=f"tensor '{key}' contains int64"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("odd", [np.array("a"), np.zeros((3, 3)), [[1], None]])
@pytest.mark.parametrize("name", ["seeds", "protocols"])
def test_odd_seeds_and_protocols_of_evaluate_are_refused(name: str, odd: object) -> None:
    planner = vhdiffuser.load_planner("maze2d-umaze", steps=1)
    with pytest.raises(VhdError):
        vhdiffuser.evaluate(planner, n=1, workers=1, **{name: odd})  # type: ignore[arg-type]


def test_an_array_is_no_source_of_weights() -> None:
    with pytest.raises(VhdError, match="source of weights"):
        vhdiffuser.load_method("vhd", "maze2d-umaze", source=np.zeros((3, 3)))  # type: ignore[arg-type]


def test_a_folder_that_was_deleted_meanwhile_is_told_as_documented(tmp_path: Path, monkeypatch) -> None:
    """So is one that holds no files, such as the kernel's."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(DataError, match="plan.json: cannot be written"), atomic_path(Path("plan.json")):
        pass
    monkeypatch.chdir(tmp_path)


def test_without_room_for_temporary_files_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(DataError, match="cannot write temporary files .*TMPDIR"), scratch_folder():
        pass


@pytest.mark.parametrize("kind", ["planner", "length"])
def test_double_precision_weights_plan_as_single_ones(tmp_path: Path, kind: str) -> None:
    folder = shutil.copytree(shipped_path("maze2d-umaze", "planner").parent, tmp_path / "weights")
    tensors, header = read_tensors(folder / f"{kind}.safetensors")
    double = {key: value.astype(np.float64) if value.dtype.kind == "f" else value for key, value in tensors.items()}
    save_tensors(folder / f"{kind}.safetensors", double, header)
    ends = [1, 1, 0, 0], [3, 1]
    assert load_planner(folder).plan(*ends) == load_planner("maze2d-umaze").plan(*ends)
    huge = {key: value * 1e300 if value.dtype.kind == "f" else value for key, value in double.items()}
    save_tensors(folder / f"{kind}.safetensors", huge, header)
    with pytest.raises(DataError, match="exceeds the range of single precision"):
        load_planner(folder)


def test_a_network_of_other_precision_is_refused_in_words() -> None:
    config, spec = PlannerConfig(dim=8, dim_mults=(1, 2)), get_environment("maze2d-umaze").spec
    with pytest.raises(DataError, match="contains float64, but should contain float32"):
        as_network(TemporalUnet(spec.state_dim, config.dim, config.dim_mults).double(), config, spec)
