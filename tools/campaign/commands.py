"""Small jobs for the real commands, run as processes of their own; what they leave behind is looked at."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENV = "maze2d-umaze"
# A command ends with the campaign, however that ends (prctl's PR_SET_PDEATHSIG). A shell that starts us in the
# background may have told us to ignore Ctrl-C, nohup SIGHUP, and children inherit that.
PROGRAM = """
import ctypes, signal
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from vhdiffuser.cli import main
main()
"""
LOOP = ["--threads", "1", "--device", "cpu", "--precision", "fp32", "--log-every", "5", "--quiet"]
PLANNER = ["train", "planner", ENV, "--dim", "8", "--dim-mults", "1", "2", "--batch-size", "4", *LOOP]
LENGTH = ["train", "length", ENV, "--length.network.width", "16", "--length.batch", "16", *LOOP]
BUILD = ["data", "get", ENV, "--source", "build", "--workers", "2", "--quiet"]
CLOCK = ("minutes", "seconds", "planning_seconds", "control_seconds", "sha256")
"""What a clock measured, and digests over that, differ between any two runs."""


@dataclass(frozen=True)
class Job:
    """A command that ends by itself, in a folder of its own."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Jobs whose results it uses."""
    killed: bool = False
    """Whether it is killed at random moments, and started twice at once."""


JOBS = {
    job.name: job
    for job in (
        Job("build", (*BUILD, "--size", "60000"), killed=True),
        Job("data", (*BUILD, "--size", "4000")),
        Job("train", (*PLANNER, "--updates", "150", "--checkpoint-minutes", "0.01"), ("data",), killed=True),
        Job("planner", (*PLANNER, "--updates", "4"), ("data",)),
        Job("length", (*LENGTH, "--updates", "4"), ("data",)),
        Job(
            "benchmark",
            (
                *("bench", ENV, "--weights", "shipped", "--methods", "vhd", "--n", "60", "--keep", "3"),
                *("--workers", "2", "--out", "rows", "--quiet"),
            ),
            killed=True,
        ),
        Job(
            "calibrate",
            (
                *("calibrate", ENV, "--weights", "shipped", "--n", "40", "--workers", "2"),
                *("--out", "calibration.json", "--quiet"),
            ),
            killed=True,
        ),
        Job("export", ("models", "export", ENV, "--out", "exported", "--quiet"), ("planner", "length"), killed=True),
    )
}


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Environment variables of a command whose cache and temporary files are in `folder`."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    own = {"VHD_HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, "PYTHONUNBUFFERED": "1", **more}


def start(arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None, **more: Any) -> Any:
    """Start `vhd` in a session of its own."""
    usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    usual |= {"cwd": folder, "env": env or environment(folder), "start_new_session": True}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], **{**usual, **more})


def finish(process: Any, seconds: float = 600.0) -> tuple[int, str]:
    """Exit code and stderr; a command that does not end is killed and counts as a hang."""
    try:
        said = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return -1, f"still running after {seconds:.0f} s"
    return process.returncode, said


def prepared(name: str, root: Path) -> Path:
    """A folder with everything that a job needs, made once and then only copied."""
    folder = root / f"for-{name}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for needed in JOBS[name].needs:
            for job in (*JOBS[needed].needs, needed):
                code, said = finish(start(JOBS[job].arguments, folder))
                if code:
                    raise SystemExit(f"the campaign cannot begin: {job} ended with {code}: {said}")
        (folder / "ready").touch()
    return folder


def fresh(name: str, root: Path) -> Path:
    """A copy of what a job needs, to run it in."""
    folder = root / "now"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared(name, root), folder)
    return folder


def group_lives(group: int) -> bool:
    """Whether a process of that session still runs (a dead one that nobody has waited for does not)."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            return True
    return False


def ended_within(group: int, seconds: float) -> float | None:
    """Seconds until nobody of that session runs any more, or None if some still do."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if not group_lives(group):
            return time.monotonic() - began
        time.sleep(0.02)
    return None


def present(folder: Path, pattern: str) -> bool:
    """Whether there is a file of that name with content; others may come and go while we look."""
    try:
        return any(path.stat().st_size for path in folder.rglob(pattern))
    except FileNotFoundError:
        return False


def leftovers(folder: Path) -> list[str]:
    """Temporary files and locks that a finished command should not leave."""
    found = [path for path in folder.rglob("*") if path.name.endswith(".part") or path.name in (".lock", "building")]
    # torch makes a cache for all its users, and keeps it.
    temporary = [path for path in (folder / "tmp").iterdir() if not path.name.startswith("torchinductor_")]
    return [str(path.relative_to(folder)) for path in (*found, *temporary)]


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file that a job made, without what the clock measured; logs for TensorBoard are left out."""
    made = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and "tensorboard" not in name and not name.startswith("checkpoint"):
            made[name] = hashlib.sha256(_timeless(path)).hexdigest()[:16]
    return {name: digest for name, digest in made.items() if "checkpoint" not in name}


def _timeless(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        rows = [json.dumps(_without_clock(json.loads(line)), sort_keys=True) for line in content.splitlines()]
        return "\n".join(sorted(rows)).encode()
    if path.suffix == ".json":
        return json.dumps(_without_clock(json.loads(content))).encode()
    if path.suffix == ".md":
        return b""  # words about what card.json holds
    if path.suffix == ".safetensors" and path.parent.name != ENV:
        from vhdiffuser.weights.format import digest, read_tensors

        tensors, header = read_tensors(path)
        return digest(tensors, _without_clock(header)).encode()
    return content


def _without_clock(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_clock(item) for key, item in value.items() if key not in CLOCK}
    return [_without_clock(item) for item in value] if isinstance(value, list) else value
