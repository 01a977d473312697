"""Why random crops bear too short a horizon less well than fixed ones: the pace of their plans, on maze2d-umaze.

    python benchmarks/short_horizons.py            400 instances of development seed 25

Lengths are those of the paper's Length Predictor, which are too short for many pairs. A plan made for a longer time and
sped up (`retime`) shows whether the network or its pace is at fault. Speeds are in units per second, means over the
plans of at least 50 states; the ball's top speed is 5.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import vhdiffuser
from vhdiffuser.benchmark.failures import BODY_SHARE
from vhdiffuser.benchmark.methods import load_choice
from vhdiffuser.envs.walls import wall_distance
from vhdiffuser.results.rows import Row
from vhdiffuser.trajectories import Plan
from vhdiffuser.weights.places import shipped_path

ENVIRONMENT, LONG, END = "maze2d-umaze", 50, 10
WEIGHTS = Path(__file__).parents[1] / "weights" / ENVIRONMENT


def pace(plans: list[Plan], dt: float) -> dict[str, float]:
    """Largest speed, speed at the end, and the share of the way covered in half of the time."""
    speeds = [np.linalg.norm(np.diff(plan.states[:, :2], axis=0), axis=1) / dt for plan in plans]
    return {
        "top speed": float(np.mean([v.max() for v in speeds])),
        "at the end": float(np.mean([v[-END:].mean() for v in speeds])),
        "half-way %": 100 * float(np.mean([v[: len(v) // 2].sum() / v.sum() for v in speeds])),
    }


def main() -> None:
    """One row per planner."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=25)
    options = parser.parse_args()
    environment = vhdiffuser.get_environment(ENVIRONMENT)
    geometry, dt = environment.geometry, environment.spec.control_dt
    near = BODY_SHARE * geometry.radius
    planners = {
        "random crops": (shipped_path(ENVIRONMENT, "planner"), None),
        "random crops, retimed": (shipped_path(ENVIRONMENT, "planner"), 1.6),
        "crops of 128": (WEIGHTS / "fh-128.safetensors", None),
    }
    for name, (path, retime) in planners.items():
        models = {"planner": path, "length": WEIGHTS / "length-paper.safetensors"}
        choice = load_choice(models, environment, retime=retime)
        rows: list[Row] = []
        vhdiffuser.evaluate(choice, ENVIRONMENT, options.n, protocols="ss", seeds=options.seed, on_row=rows.append)
        lengths = [row.planned_length for row in rows]
        plans = choice.planner.plan_batch([row.start for row in rows], [row.goal for row in rows], lengths)
        walls = [wall_distance(geometry.walls, plan.states[:, :2]).min() < near for plan in plans]
        failed = [not row.success for row in rows]
        values = {
            "SR %": 100 - 100 * float(np.mean(failed)),
            "in walls %": 100 * float(np.mean(walls)),
            "failed in walls %": 100 * float(np.mean(np.array(walls)[failed])),
            **pace([plan for plan in plans if plan.length >= LONG], dt),
        }
        print(f"{name:24}" + "  ".join(f"{key} {value:.1f}" for key, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
