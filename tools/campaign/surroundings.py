"""Full disks, read-only folders, no HOME, odd paths, the same job twice at once, a clock that jumps."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from campaign.commands import ENV, JOBS, contents, environment, finish, fresh, leftovers, start
from campaign.ledger import Ledger, Trial

PART = "surroundings"
LIMITS = (0, 1_000, 20_000, 200_000)
"""Bytes that a file may have: every write beyond fails, whichever library makes it, as on a full disk."""
WRITERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "data get": ("build", (*JOBS["build"].arguments,)),
    "data draw": ("train", ("data", "draw", ENV, "--out", "a.png")),
    "train planner": ("train", (*JOBS["train"].arguments,)),
    "train route": ("train", ("train", "route", ENV)),
    "plan": ("data", ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--out", "plan.json")),
    "plan picture": ("data", ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--out", "plan.png")),
    "bench": ("benchmark", (*JOBS["benchmark"].arguments,)),
    "calibrate": ("calibrate", (*JOBS["calibrate"].arguments,)),
    "sweep": (
        "train",
        ("sweep", ENV, "--grid", "planning.gamma=1.2,1.3", "--n", "2", "--workers", "1", "--out", "sweep", "--quiet"),
    ),
    "export onnx": ("data", ("export", "onnx", ENV, "--weights", "shipped", "--out", "onnx")),
    "demo": ("benchmark", ("demo", ENV, "--n", "2", "--quiet", "--workers", "1")),
    "models export": ("export", (*JOBS["export"].arguments,)),
    "models archive": ("export", ("models", "archive", ENV, "--out", "archive")),
    "completion": ("data", ("completion", "bash")),
}
"""Every command that writes, and the job whose needs it has."""
WORDS = ("cannot be written", "cannot write temporary files", "MB needed")
ODD = ("with space", "ünïcödé-路径", "quote'\"", "[bold]x[/bold]", "new\nline", "-dash", "percent%s{}", "x" * 200)


def run(ledger: Ledger, root: Path, tell: Callable[[str, int, int], None]) -> None:
    """Every command that writes, under every limit; then the other surroundings."""
    trials: dict[str, Callable[[], str]] = {}
    for name, (needs, arguments) in WRITERS.items():
        for limit in LIMITS:
            trials[f"disk full at {limit:,} bytes, {name}"] = partial(full_disk, needs, arguments, limit, root)
        trials[f"read-only folder, {name}"] = partial(read_only, needs, arguments, root)
    for number, odd in enumerate(ODD):
        trials[f"odd path {number}"] = partial(odd_path, odd, root)
    trials["no HOME"] = partial(no_home, root)
    for job in (name for name, job in JOBS.items() if job.killed):
        trials[f"the same {job} twice at once"] = partial(twice, job, root)
    trials["the clock jumps during a training"] = partial(clock_jumps, root)
    for done, (case, trial) in enumerate(trials.items()):
        if not ledger.has(PART, case, 0):
            tell(case, done, len(trials))
            ledger.add(Trial(PART, case, 0, trial()))


def _refused_in_words(code: int, said: str) -> str:
    if code not in (0, 1) or "Traceback" in said or "Exception ignored" in said:
        return f"exit code {code}: {said[-400:]}"
    if code == 1 and not any(words in said for words in WORDS):
        return f"another message than documented: {said[-300:]}"
    return ""


def full_disk(needs: str, arguments: tuple[str, ...], limit: int, root: Path) -> str:
    """The command where no file may grow beyond `limit` bytes; then without the limit, to the end."""
    folder = fresh(needs, root)

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, said = finish(start(arguments, folder, preexec_fn=small, stdout=subprocess.DEVNULL))
    if fault := _refused_in_words(code, said):
        return fault
    code, said = finish(start(arguments, folder, stdout=subprocess.DEVNULL))
    if code:
        return f"with room again it ended with {code}: {said[-300:]}"
    left = leftovers(folder)
    return f"left behind: {', '.join(left)}" if left else ""


def read_only(needs: str, arguments: tuple[str, ...], root: Path) -> str:
    """The command where it may write nowhere: its folder is the kernel's /proc/sys, read-only even for root."""
    folder = fresh(needs, root)
    env = environment(folder)
    if needs in ("data", "benchmark", "build"):  # it needs nothing of its cache
        env["VHD_HOME"] = "/proc/sys/vhd"
    reads = env["VHD_HOME"] != "/proc/sys/vhd" and "train" in arguments
    if reads:
        runs = folder / "home" / "runs"
        if not runs.exists():
            runs.symlink_to("/proc/sys", target_is_directory=True)
    code, said = finish(start(arguments, Path("/proc/sys"), env, stdout=subprocess.DEVNULL))
    return _refused_in_words(code, said)


def odd_path(name: str, root: Path) -> str:
    """Build, train, plan and benchmark where every folder has an odd name."""
    folder = root / "odd" / name
    folder.mkdir(parents=True, exist_ok=True)
    env = environment(folder, VHD_HOME=str(folder / f"home {name[:40]}"))
    for arguments in (
        JOBS["data"].arguments,
        JOBS["planner"].arguments,
        ("plan", ENV, "--start", "1", "1", "--goal", "3", "1", "--out", f"./{name[:40]}.png"),
        (
            "bench",
            ENV,
            "--weights",
            "shipped",
            "--methods",
            "vhd",
            "--n",
            "2",
            "--out",
            f"./rows {name[:40]}",
            "--quiet",
        ),
        ("report", f"./rows {name[:40]}"),
    ):
        code, said = finish(start(arguments, folder, env))
        if code or "Traceback" in said:
            return f"{arguments[0]} ended with {code}: {said[-300:]}"
    return ""


UNKNOWN = """
import pwd
def unknown(user):
    raise KeyError(user)
pwd.getpwuid = unknown
from vhdiffuser.cli import main
main()
"""


def no_home(root: Path) -> str:
    """No HOME, and a user whom the system does not know."""
    folder = fresh("data", root)
    env = {key: value for key, value in environment(folder).items() if key not in ("HOME", "VHD_HOME")}
    for arguments in (("data", "info", ENV), ("envs",), ("--version",)):
        done = subprocess.run([sys.executable, "-c", UNKNOWN, *arguments], env=env, capture_output=True, text=True)
        if "Traceback" in done.stderr or done.returncode not in (0, 1):
            return f"{arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}"
        if done.returncode == 1 and "VHD_HOME" not in done.stderr:
            return f"{arguments[0]} says {done.stderr[-200:]}"
    return ""


def twice(job: str, root: Path) -> str:
    """Two processes start the same job in the same folder: one does it, the other says why not, or waits its turn."""
    whole = fresh(job, root)
    code, said = finish(start(JOBS[job].arguments, whole))
    expected = contents(whole)
    folder = fresh(job, root)
    both = [start(JOBS[job].arguments, folder) for _ in range(2)]
    ends = [finish(process) for process in both]
    for code, said in ends:
        refused = code == 1 and "another" in said
        if "Traceback" in said or not (code == 0 or refused):
            return f"ended with {code}: {said[-300:]}"
    if all(code for code, _ in ends):
        return f"neither did it: {ends[0][1][-200:]}"
    if left := leftovers(folder):
        return f"left behind: {', '.join(left)}"
    made = contents(folder)
    differ = sorted(name for name in {*made, *expected} if made.get(name) != expected.get(name))
    return f"other bytes than alone: {', '.join(differ)}" if differ else ""


CLOCK = """
import itertools, time
real, jumps = time.time, itertools.cycle([0, 1e6, -1e6, 3e8, -3e8])
time.time = lambda: real() + next(jumps)
from vhdiffuser.cli import main
main()
"""


def clock_jumps(root: Path) -> str:
    """The time of day jumps by years, forth and back: minutes trained and time left come from another clock."""

    folder = fresh("train", root)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CLOCK, *JOBS["train"].arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - began
    if done.returncode or "Traceback" in done.stderr:
        return f"ended with {done.returncode}: {done.stderr[-300:]}"

    log = next(folder.rglob("log.jsonl")).read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in log]
    return "" if seconds == sorted(seconds) and seconds[-1] <= took else f"seconds in the log: {seconds}"
