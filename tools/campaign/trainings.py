"""Checkpoints that were damaged, and losses that explode: a training goes on from the last good checkpoint."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from campaign.commands import JOBS, PLANNER, contents, finish, fresh, leftovers, present, start
from campaign.files import break_bytes
from campaign.kills import uninterrupted
from campaign.ledger import Ledger, Trial

PART = "training"
UPDATES = ("--updates", "60", "--checkpoint-minutes", "0.01", "--warmup", "1")


def run(ledger: Ledger, root: Path, tell: Callable[[str, int, int], None], times: int = 20, seed: int = 0) -> None:
    """Checkpoints damaged in `times` ways, then losses that diverge."""
    trials = {"damaged checkpoint": (damaged, times), "exploding loss": (diverged, 3)}
    for case, (trial, count) in trials.items():
        for number in range(count):
            if not ledger.has(PART, case, number):
                tell(case, number, count)
                ledger.add(Trial(PART, case, number, trial(root, random.Random(f"{seed} {case} {number}"))))


def damaged(root: Path, rng: random.Random) -> str:
    """Kill a training that has two checkpoints, damage the last one and go on: it says so, and ends as ever."""
    whole, _ = uninterrupted("train", root)
    folder = fresh("train", root)
    process = start(JOBS["train"].arguments, folder)
    while not present(folder, "checkpoint-before.safetensors"):
        if process.poll() is not None:
            return f"no second checkpoint: {finish(process)}"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    last = next(folder.rglob("checkpoint.safetensors"))
    while (broken := break_bytes(last.read_bytes(), rng)) == last.read_bytes():
        pass
    last.unlink()  # the one before may be a link to it
    last.write_bytes(broken)
    code, said = finish(start(JOBS["train"].arguments, folder))
    if code or "Traceback" in said:
        return f"ended with {code}: {said[-300:]}"
    if "Training resumes from the previous checkpoint" not in " ".join(said.split()):
        return f"it did not say so: {said[-300:]}"
    if left := leftovers(folder):
        return f"left behind: {', '.join(left)}"
    made = contents(folder)
    differ = sorted(name for name in {*made, *whole} if made.get(name) != whole.get(name))
    return f"other bytes than undamaged: {', '.join(differ)}" if differ else ""


def diverged(root: Path, rng: random.Random) -> str:
    """A training whose learning rate becomes absurd: it stops in words, and goes on from its last good checkpoint."""
    folder = fresh("train", root)
    code, said = finish(start((*PLANNER, *UPDATES, "--updates", "10"), folder))
    if code:
        return f"could not begin: {said[-300:]}"
    rate = str(rng.choice((1e4, 1e6, 1e8)))
    code, said = finish(start((*PLANNER, *UPDATES, "--learning-rate", rate), folder))
    said = " ".join(said.split())
    if code != 1 or "Traceback" in said or "training diverged" not in said or "is finite: run the same" not in said:
        return f"with rate {rate} it ended with {code}: {said[-300:]}"
    code, said = finish(start((*PLANNER, *UPDATES), folder))
    log = [json.loads(line) for line in next(folder.rglob("log.jsonl")).read_text().splitlines()]
    if code or log[-1]["update"] != 60 or not all(row["loss"] < 1e6 for row in log):
        return f"it did not go on: {code}, {said[-300:]}, {log[-1]}"
    return ""
