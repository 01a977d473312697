"""How long a fresh process takes from `import torch` to its first plan.

    python benchmarks/first_plan.py

Five processes, one after the other; the median counts. The target is 1.5 s after torch is imported.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

TARGET = 1.5
SCRIPT = """
import json, time
begun = time.perf_counter()
import torch
imported = time.perf_counter()
import vhdiffuser
planner = vhdiffuser.load_planner("maze2d-large")
loaded = time.perf_counter()
planner.plan([1, 1, 0, 0], [7, 9])
done = time.perf_counter()
print(json.dumps([imported - begun, loaded - imported, done - loaded, done - imported]))
"""


def main() -> None:
    """Measure and print."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    torch_, load, plan, total = np.median(np.array(runs), axis=0)
    print(f"import torch {torch_:.2f} s; then: weights {load:.2f} s, first plan {plan:.2f} s, together {total:.2f} s")
    sys.exit(bool(total > TARGET))


if __name__ == "__main__":
    main()
