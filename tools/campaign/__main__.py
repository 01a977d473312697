"""Run the campaign: `make campaign`, or `python tools/campaign --kills 2 --inputs 500` for a short one.

It can be stopped at any time and goes on where it stopped. The report is printed and kept beside the trials.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign import arguments, files, kills, stops, surroundings, trainings
from campaign.ledger import Ledger, Trial
from vhdiffuser.console import progress_bar
from vhdiffuser.workers import available_cores

PARTS = ("kills", "stops", "trainings", "surroundings", "files", "arguments")
KINDS = (
    "npz", "ogbench npz", "HDF5", "D4RL HDF5", "dataset", "instances npz", "instances HDF5", "Minari main_data.hdf5",
    "Minari metadata.json", "planner", "Length Predictor", "config.json", "route graph", "inverse dynamics", "rows",
    "rollout", "sheet of plans", "card", "plan npz", "plan json", "plan csv", "checkpoint", "walker",
    "Diffuser checkpoint",
)  # fmt: skip
BATCH = 100
Tell = Callable[[str, int, int], None]


def fuzz(ledger: Ledger, root: Path, tell: Tell, what: str, kinds: dict[str, int], seed: int, workers: int) -> None:
    """Batches of inputs of every kind, in worker processes."""
    part = f"fuzz {what}"
    function = files.batch if what == "files" else arguments.batch
    plan = [(kind, at, min(BATCH, count - at)) for kind, count in kinds.items() for at in range(0, count, BATCH)]
    waiting = [batch for batch in plan if not ledger.has(part, batch[0], batch[1])]
    while waiting:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            jobs = {pool.submit(function, *batch, seed, str(root)): batch for batch in waiting}
            try:
                for job in as_completed(jobs):
                    failed, examples = job.result()
                    kind, at, count = jobs[job]
                    ledger.add(Trial(part, kind, at, "; ".join(examples), count, failed))
                    waiting.remove(jobs[job])
                    tell(f"{what}: {kind}", len(plan) - len(waiting), len(plan))
            except BrokenProcessPool:  # a crash, or a hang that was ended
                kind, at, count = waiting.pop(0)
                marks = ", ".join(path.read_text(encoding="utf-8") for path in sorted(root.glob(f"{what}-*/current")))
                ledger.add(Trial(part, kind, at, f"crash or hang at one of: {marks}", count, 1))
        for folder in root.glob(f"{what}-*"):  # of the workers
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run what is missing, print the report; 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/campaign"), help="folder of trials and report")
    parser.add_argument("--kills", type=int, default=20, help="kills of each command (default 20)")
    parser.add_argument("--inputs", type=int, default=12_000, help="malformed inputs in all (default 12,000)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default: all)")
    parser.add_argument("--workers", type=int, default=available_cores(), help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other moments and inputs")
    parser.add_argument("--fresh", action="store_true", help="forget earlier trials")
    parser.add_argument("--again", action="store_true", help="try anew what had a fault, after it was mended")
    chosen = parser.parse_args()
    ledger = Ledger(chosen.out / "trials.jsonl", chosen.fresh, chosen.again)
    root = (chosen.out / "work").resolve()
    root.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    share = chosen.inputs // 12
    per_kind = max(8 * share // len(KINDS), 1)
    with progress_bar("campaign", "trials") as bar:

        def tell(case: str, done: int, total: int) -> None:
            bar(done, total, note=case)

        if "kills" in chosen.parts:
            kills.run(ledger, root, tell, chosen.kills, chosen.seed)
        if "stops" in chosen.parts:
            stops.run(ledger, root, tell)
        if "trainings" in chosen.parts:
            trainings.run(ledger, root, tell, chosen.kills, chosen.seed)
        if "surroundings" in chosen.parts:
            surroundings.run(ledger, root, tell)
        if "files" in chosen.parts:
            fuzz(ledger, root, tell, "files", dict.fromkeys(KINDS, per_kind), chosen.seed, chosen.workers)
        if "arguments" in chosen.parts:
            kinds = {"Python": 3 * share, "command line": share}
            fuzz(ledger, root, tell, "arguments", kinds, chosen.seed, chosen.workers)
    report = ledger.report()
    (chosen.out / "report.md").write_text(report, encoding="utf-8")
    print(report)
    return 1 if ledger.faults else 0


if __name__ == "__main__":
    sys.exit(main())
