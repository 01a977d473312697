"""`kill -9` of a command's process at a random moment; then the same command must end as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from campaign.commands import JOBS, contents, ended_within, finish, fresh, leftovers, start
from campaign.ledger import Ledger, Trial

CASES = tuple(name for name, job in JOBS.items() if job.killed)
PART = "kill -9"


def run(ledger: Ledger, root: Path, tell: Callable[[str, int, int], None], kills: int = 20, seed: int = 0) -> None:
    """Each case `kills` times."""
    for case in CASES:
        waiting = [number for number in range(kills) if not ledger.has(PART, case, number)]
        whole, seconds = uninterrupted(case, root) if waiting else ({}, 0.0)
        for number in waiting:
            tell(case, number, kills)
            moment = random.Random(f"{seed} {case} {number}").uniform(0.1, 0.98) * seconds
            ledger.add(Trial(PART, case, number, one_kill(case, root, moment, whole)))


def uninterrupted(case: str, root: Path) -> tuple[dict[str, str], float]:
    """What the command makes if left alone, and the seconds it takes; kept for a resumed campaign."""
    kept = root / f"whole-{case}.json"
    if not kept.exists():
        folder, began = fresh(case, root), time.monotonic()
        code, said = finish(start(JOBS[case].arguments, folder))
        if code:
            raise SystemExit(f"the campaign cannot begin: {case} ended with {code}: {said}")
        kept.write_text(json.dumps([contents(folder), time.monotonic() - began]))
    whole, seconds = json.loads(kept.read_text())
    return whole, seconds


def one_kill(case: str, root: Path, moment: float, whole: dict[str, str]) -> str:
    """Kill after `moment` seconds, run again, and compare; what went wrong, or nothing."""
    folder = fresh(case, root)
    process = start(JOBS[case].arguments, folder)
    try:
        process.wait(moment)
    except Exception:  # subprocess.TimeoutExpired: it is under way
        process.send_signal(signal.SIGKILL)
    process.communicate()
    if ended_within(process.pid, 5.0) is None:
        return "a worker process was left"
    code, said = finish(start(JOBS[case].arguments, folder))
    if code:
        return f"after the kill at {moment:.1f} s the same command ended with {code}: {said[-300:]}"
    if "Traceback" in said:
        return f"a traceback: {said[-300:]}"
    if left := leftovers(folder):
        return f"left behind: {', '.join(left)}"
    made = contents(folder)
    differ = sorted(name for name in {*made, *whole} if made.get(name) != whole.get(name))
    return f"other bytes than uninterrupted: {', '.join(differ)}" if differ else ""
