"""Ctrl-C and SIGTERM to real processes: exit codes, what is kept, what is said; and a finished run left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vhdiffuser.cli import run
from vhdiffuser.errors import Interrupted
from vhdiffuser.files import sha256
from vhdiffuser.signals import held_signals
from vhdiffuser.weights.places import run_folder, run_name

# A shell that starts us in the background may have told us to ignore Ctrl-C, nohup SIGHUP, and children inherit that.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from vhdiffuser.cli import main
main()
"""
PLANNER = ["train", "planner", "maze2d-umaze", "--dim", "8", "--dim-mults", "1", "2", "--batch-size", "2", "--quiet"]
LOOP = ["--threads", "1", "--device", "cpu", "--precision", "fp32", "--log-every", "1"]


def stopped(arguments: list[str], number: signal.Signals, under_way: Callable[[], bool]) -> tuple[int, str]:
    """Exit code and stderr of `vhd` when it gets the signal once it is under way; nobody of its group lives on."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        given_up = time.monotonic() + 600  # a loaded machine is slow, and a test must end
        while not under_way() and time.monotonic() < given_up:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate()
        assert _gone(process.pid), "a worker process was left behind"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


def _gone(group: int) -> bool:
    for _ in range(3000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    os.killpg(group, signal.SIGKILL)
    return False


def has_content(folder: Path, pattern: str) -> Callable[[], bool]:
    return lambda: any(path.stat().st_size for path in folder.rglob(pattern))


@pytest.fixture
def data(vhd_home: Path) -> None:
    assert run(["data", "get", "maze2d-umaze", "--source", "build", "--size", "3000", "--quiet"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_training_keeps_its_checkpoint_and_says_how_to_go_on(data, number, code):
    folder = run_folder("maze2d-umaze", run_name("planner"))
    arguments = [*PLANNER, *LOOP, "--updates", "1000000"]
    ended, said = stopped(arguments, number, has_content(folder, "log.jsonl"))
    assert ended == code, said
    assert "the checkpoint in" in said
    assert "Run the same command to continue." in said
    assert (folder / "checkpoint.safetensors").is_file()
    assert not (folder / "model.safetensors").exists()


@pytest.mark.slow
def test_a_stopped_build_keeps_its_chunks_and_leaves_no_worker(vhd_home):
    arguments = ["data", "get", "maze2d-umaze", "--source", "build", "--workers", "2", "--quiet"]
    ended, said = stopped(arguments, signal.SIGTERM, has_content(vhd_home, "chunk-*.safetensors"))
    assert ended == 143, said
    assert "Run the same command to continue." in said
    assert list(vhd_home.rglob("chunk-*.safetensors"))


@pytest.mark.slow
def test_a_stopped_benchmark_keeps_its_rows_and_leaves_no_worker(tmp_path):
    out = tmp_path / "rows"
    arguments = ["bench", "maze2d-umaze", "--weights", "shipped", "--methods", "vhd", "--protocols", "d4rl-fixed"]
    arguments += ["--n", "5000", "--keep", "1", "--workers", "2", "--out", str(out), "--quiet"]
    ended, said = stopped(arguments, signal.SIGINT, has_content(out, "*.jsonl"))
    assert ended == 130, said
    assert "Run the same command to continue." in said
    assert list(out.rglob("*.jsonl"))


def test_a_finished_training_run_again_leaves_its_files_alone(data, capsys):
    folder = run_folder("maze2d-umaze", run_name("planner"))
    arguments = [*PLANNER, *LOOP, "--updates", "3"]
    assert run(arguments) == 0
    names = ("model.safetensors", "checkpoint.safetensors", "log.jsonl")
    before = {name: sha256(folder / name) for name in names}
    assert run(arguments) == 0
    assert str(folder / "model.safetensors") in capsys.readouterr().out
    assert {name: sha256(folder / name) for name in names} == before
    assert run([*PLANNER, *LOOP, "--updates", "2"]) == 0, "fewer updates than there are: nothing to train either"
    assert sha256(folder / "model.safetensors") == before["model.safetensors"]
    assert run([*PLANNER, *LOOP, "--updates", "4"]) == 0
    assert sha256(folder / "model.safetensors") != before["model.safetensors"], "one more update, another model"


def test_the_message_of_a_stop_and_its_exit_code(monkeypatch, capsys):
    class Stopping:
        def run(self) -> None:
            raise Interrupted(signal.SIGTERM, "stopped half way.")

    monkeypatch.setattr("vhdiffuser.cli.parse", lambda name, arguments: Stopping())
    assert run(["envs"]) == 143
    assert capsys.readouterr().err == "vhd: stopped half way.\n"


LOADING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100_000):
        pass
except BaseException as error:
    raise ImportError("initialization failed") from error
"""
"""As a C extension does: what is raised while it is loaded becomes an ImportError."""


def test_ctrl_c_while_onnx_runtime_is_loaded_is_no_missing_package(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text(LOADING)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130, done.stderr
    assert "pip install" not in done.stderr
    assert "Traceback" not in done.stderr


def test_held_signals_come_after_the_block_and_only_there() -> None:
    begun = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: begun.append(number))
    try:
        with held_signals():
            signal.raise_signal(signal.SIGTERM)
            assert not begun
        assert begun == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(begun) == 2
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as nohup does
        with held_signals():
            signal.raise_signal(signal.SIGTERM)
        assert len(begun) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
