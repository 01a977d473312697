"""Signals, readers that go away and parents that die: all ends within two seconds, quietly, with the right code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.commands import BUILD, ENV, PLANNER, PROGRAM, ended_within, environment, finish, fresh, start
from campaign.ledger import Ledger, Trial

PART = "stop"
SECONDS = 2.0
"""Seconds that an ending may take where nothing else runs; on a busy machine, as much longer as everything takes."""

BENCH = ("bench", ENV, "--weights", "shipped", "--methods", "vhd", "--protocols", "d4rl-fixed", "--n", "5000")
RUNNING = {
    "build": ("build", (*BUILD,), "chunk-*.safetensors"),
    "training": ("train", (*PLANNER, "--updates", "1000000"), "log.jsonl"),
    "benchmark": ("benchmark", (*BENCH, "--workers", "2", "--quiet", "--out", "rows"), "*.jsonl"),
}
"""Long jobs: what they need, the command, and the file by which one sees that they are under way."""


@dataclass(frozen=True)
class Stop:
    """How a job is stopped."""

    name: str
    signals: tuple[signal.Signals, ...]
    code: int
    gap: float = 0.5
    """Seconds between two signals."""


STOPS = (
    Stop("Ctrl-C", (signal.SIGINT,), 130),
    Stop("Ctrl-C twice", (signal.SIGINT, signal.SIGINT), 130),
    Stop("SIGTERM", (signal.SIGTERM,), 143),
    Stop("SIGHUP", (signal.SIGHUP,), 129),
)
PIPES = (
    ("envs",),
    ("--help",),
    ("bench", "--help"),
    ("models",),
    ("recipes", "show", ENV),
    ("data", "info", ENV),
    ("completion", "bash"),
)


def run(ledger: Ledger, root: Path, tell: Callable[[str, int, int], None], times: int = 3) -> None:
    """Every way to stop every long job, `times` times."""
    for job in RUNNING:
        for stop in STOPS:
            for number in range(times):
                case = f"{stop.name}, {job}"
                if not ledger.has(PART, case, number):
                    tell(case, number, times)
                    fault, seconds = stopped(job, stop, root)
                    ledger.add(Trial(PART, case, number, fault, seconds=seconds))
        for number in range(times):
            case = f"parent dies, {job}"
            if not ledger.has(PART, case, number):
                tell(case, number, times)
                fault, seconds = orphaned(job, root)
                ledger.add(Trial(PART, case, number, fault, seconds=seconds))
    for arguments in PIPES:
        case = f"{' '.join(arguments)} | head -1"
        if not ledger.has(PART, case, 0):
            tell(case, 0, 1)
            ledger.add(Trial(PART, case, 0, unread(arguments, root)))


def under_way(job: str, root: Path) -> tuple[Any, Path]:
    """A long job that has begun to write."""
    needs, arguments, sign = RUNNING[job]
    folder = fresh(needs, root)
    process = start(arguments, folder)
    given_up = time.monotonic() + 300
    while not any(path.stat().st_size for path in folder.rglob(sign)):
        if process.poll() is not None or time.monotonic() > given_up:
            raise SystemExit(f"the campaign cannot begin: {job} ended with {finish(process)}")
        time.sleep(0.02)
    return process, folder


def slowdown() -> float:
    """How many times longer than alone a computation takes at the moment, because others compute, too."""
    wall, own = time.monotonic(), time.process_time()
    while time.process_time() - own < 0.1:
        pass
    return max((time.monotonic() - wall) / 0.1, 1.0)


def stopped(job: str, stop: Stop, root: Path) -> tuple[str, float]:
    """What went wrong, and the seconds from the last signal to the end, as on a machine with nothing else to do."""
    process, folder = under_way(job, root)
    busy = slowdown()
    for number in stop.signals:
        os.killpg(process.pid, number)  # as a terminal does: to everyone
        if number is not stop.signals[-1]:
            time.sleep(stop.gap)
    took = ended_within(process.pid, 60.0)
    if took is None:
        os.killpg(process.pid, signal.SIGKILL)
    code, said = finish(process)
    seconds = (60.0 if took is None else took) / busy
    if took is None or seconds > SECONDS:
        return f"it took {seconds:.1f} s to end", seconds
    if code != stop.code:
        return f"exit code {code}, not {stop.code}: {said[-200:]}", seconds
    if "Traceback" in said or "Exception ignored" in said:
        return f"not quiet: {said[-300:]}", seconds
    if job == "training" and len(stop.signals) == 1 and not list(folder.rglob("checkpoint.safetensors")):
        return "no checkpoint", seconds
    if len(stop.signals) == 1 and (left := [path.name for path in folder.rglob("*.part")]):
        return f"left behind: {', '.join(left)}", seconds
    return "", seconds


def orphaned(job: str, root: Path) -> tuple[str, float]:
    """Kill the process that others belong to."""
    process, _ = under_way(job, root)
    busy = slowdown()
    process.send_signal(signal.SIGKILL)
    process.wait()
    took = ended_within(process.pid, 60.0)
    if took is None:
        os.killpg(process.pid, signal.SIGKILL)
        return "worker processes were left", 60.0
    seconds = took / busy
    return ("" if seconds <= SECONDS else f"workers took {seconds:.1f} s to end"), seconds


def unread(arguments: tuple[str, ...], root: Path) -> str:
    """A command whose reader goes away after one line."""
    folder = fresh("planner", root)
    command = [sys.executable, "-c", PROGRAM, *arguments]
    reading, writing = os.pipe()
    process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    said = process.communicate(timeout=300)[1].decode()
    # A short output may have been written whole before the reader went.
    if process.returncode not in (0, 141) or "Traceback" in said or "Exception ignored" in said or "Errno" in said:
        return f"exit code {process.returncode}: {said[-300:]}"
    return ""
