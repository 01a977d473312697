"""How long a fresh process takes to its first plan: from its first import without torch, and from `import torch` on.

    python benchmarks/first_plan.py

Five processes of each kind, one after the other; the medians count, and the processor times stand beside them. The
targets are 0.5 s without torch and 1.5 s after torch is imported. The exit code is 1 if one is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

SCRIPT = """
import json, sys, time
if sys.argv[2] == "torch":
    import torch
wall, processor = time.perf_counter(), time.process_time()
import vhdiffuser
planner = vhdiffuser.load_planner(sys.argv[1])
loaded = time.perf_counter()
states = (planner.normalizer.low + planner.normalizer.high) / 2
planner.plan(states, states if planner.config.clamp == "state" else planner.spec.goal_of(states))
done = time.perf_counter()
print(json.dumps([loaded - wall, done - loaded, done - wall, time.process_time() - processor]))
"""
CASES = (("maze2d-umaze", "no torch", 0.5), ("cube", "no torch", 0.5), ("maze2d-large", "no torch", 0.5))


def first_plan(environment: str, kind: str, repeats: int = 5) -> tuple[float, float, float, float]:
    """Median seconds of processes of their own: import and weights, first plan, both, and both in processor time."""
    command = [sys.executable, "-c", SCRIPT, environment, kind]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(repeats)
    ]
    load, plan, total, processor = np.median(np.array(runs), axis=0).tolist()
    return load, plan, total, processor


def main() -> None:
    """Measure and print."""
    print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    missed = False
    for environment, kind, target in (*CASES, ("maze2d-large", "torch", 1.5)):
        load, plan, total, processor = first_plan(environment, kind)
        missed |= total > target
        print(
            f"{environment:>14}, {kind:>8}: import and weights {load:.2f} s, first plan {plan:.2f} s, together "
            f"{total:.2f} s (processor {processor:.2f} s) of {target} s"
        )
    sys.exit(missed)


if __name__ == "__main__":
    main()
