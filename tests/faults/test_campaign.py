"""The campaign in its short form: `make campaign` runs the same code longer."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
pytest.importorskip("hypothesis")

from campaign import arguments, files, kills, stops, surroundings
from campaign.__main__ import KINDS
from campaign.ledger import Ledger, Trial

from vhdiffuser.cli import run

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["build", "train", "calibrate"])
def test_a_killed_command_ends_as_if_nothing_had_happened(case: str, root: Path) -> None:
    whole, seconds = kills.uninterrupted(case, root)
    assert kills.one_kill(case, root, 0.7 * seconds, whole) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("job", "way"), [("build", "Ctrl-C twice"), ("training", "SIGHUP"), ("benchmark", "SIGHUP")])
def test_a_stopped_command_ends_soon_quietly_and_with_its_code(job: str, way: str, root: Path, monkeypatch) -> None:
    monkeypatch.setattr(stops, "SECONDS", 20.0)  # two in the campaign; a test must not depend on time
    fault, _ = stops.stopped(job, next(stop for stop in stops.STOPS if stop.name == way), root)
    assert fault == ""


@pytest.mark.slow
def test_workers_do_not_outlive_their_parent(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(stops, "SECONDS", 20.0)
    assert stops.orphaned("build", root)[0] == ""


def test_the_clock_of_the_campaign_lets_an_import_finish_and_stops_what_follows(tmp_path, monkeypatch) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(1.5)\ncomplete = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(arguments, "SECONDS", 1)
    reached = False
    with arguments.limited():
        import slow_to_import

        time.sleep(60)
        reached = True
    assert slow_to_import.complete
    assert not reached


@pytest.mark.parametrize("line", [("envs",), ("--help",)])
def test_a_reader_that_goes_away_is_no_error(line: tuple[str, ...], root: Path, monkeypatch) -> None:
    monkeypatch.setattr(stops, "fresh", lambda name, folder: folder)
    assert stops.unread(line, root) == ""


@contextlib.contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


WRITERS = {
    "data get": ["data", "get", "maze2d-umaze", "--source", "build", "--size", "2000", "--quiet", "--replace"],
    "plan": ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--out", "plan.json"],
    "picture": ["plan", "maze2d-umaze", "--start", "1", "1", "--goal", "3", "1", "--out", "plan.png"],
    "train": [
        "train",
        "length",
        "maze2d-umaze",
        "--name",
        "tiny",
        "--updates",
        "3",
        "--log-every",
        "1",
        "--quiet",
        "--threads",
        "1",
    ],
    "import": ["data", "import", "mine", "walk.csv", "--goal-dims", "x", "y", "--replace"],
    "onnx": ["export", "onnx", "maze2d-umaze", "--weights", "shipped", "--out", "onnx"],
    "archive": ["models", "archive", "maze2d-umaze", "--out", "archive"],
    "completion": ["completion", "bash"],
}


@pytest.mark.parametrize("limit", [0, 100])
@pytest.mark.parametrize("name", list(WRITERS))
def test_a_full_disk_is_told_as_documented(name, limit, trained_umaze, tmp_path, monkeypatch, capsys) -> None:
    import shutil

    shutil.copytree(trained_umaze, tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    Path("walk.csv").write_text("x,y\n" + "".join(f"{0.01 * step},{0.02 * step}\n" for step in range(200)))
    with full_disk(limit):
        code = run(WRITERS[name])
    said = capsys.readouterr().err
    assert surroundings._refused_in_words(code, said) == ""
    assert code == 1
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".part" or path.name == ".lock"]
    assert run(WRITERS[name]) == 0, "with room again it works"


@pytest.fixture(scope="module")
def forms(root: Path) -> Iterator[dict[str, files.Format]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VHD_HOME", str(root / "fuzz-home"))
        patch.setenv("MINARI_DATASETS_PATH", str(root / "minari"))
        for name in ("good", "bad"):
            (root / name).mkdir()
        yield files.formats(root / "good")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_in_words(kind: str, root: Path, forms, monkeypatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root / "minari"))
    if kind not in forms:
        pytest.skip("needs an extra")
    forms[kind].read(forms[kind].path)
    assert [fault for number in range(12) if (fault := files.one_input(forms[kind], number, 1, root / "bad"))] == []


@pytest.mark.slow
def test_arguments_that_nobody_expects_are_refused_in_words(root: Path) -> None:
    (root / "python").mkdir()
    check, strategy = arguments.python_inputs(root / "python")
    assert arguments.collect(check, strategy, 150, 0) == (0, [])


def test_the_ledger_goes_on_and_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "trials.jsonl")
    ledger.add(Trial("kill -9", "build", 0))
    ledger.add(Trial("fuzz files", "npz", 0, "3: KeyError", 100, 2))
    with open(ledger.path, "a") as file:
        file.write('{"part": "cut')
    again = Ledger(ledger.path)
    assert again.has("kill -9", "build", 0)
    assert not again.has("kill -9", "build", 1)
    assert again.faults == 1
    report = again.report()
    assert "Kills survived: 1 of 1. Inputs tried: 100, tracebacks, hangs or too much memory: 2." in report
    assert "npz 0: 3: KeyError" in report
    assert all(json.loads(line) for line in ledger.path.read_text().splitlines())


@pytest.mark.parametrize(("work", "ended"), [("while True: pass", signal.SIGPROF), ("time.sleep(600)", signal.SIGALRM)])
def test_an_input_that_hangs_is_ended_whether_it_works_or_waits(work: str, ended: signal.Signals) -> None:
    lines = ["import sys, time", f"sys.path.insert(0, {str(TOOLS)!r})", "from campaign import hangs"]
    lines += [
        "hangs.WAITING = 5 if 'sleep' in sys.argv[1] else 10**6",
        "with hangs.ended_if_it_hangs(0.2):",
        f"    {work}",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines), work], timeout=600)
    assert done.returncode == -ended
    quick = [*lines[:-1], "    pass", "time.sleep(0.01)", "print('went on')"]
    assert subprocess.run([sys.executable, "-c", "\n".join(quick), work]).returncode == 0
