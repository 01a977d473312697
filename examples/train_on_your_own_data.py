"""Your own trajectories, from a file to a plan. Any state dimension; no simulator is needed.

    python examples/train_on_your_own_data.py

The same from the command line:

    vhd data import drone drone.npz --goal-dims 0 1 2 --t-max 96
    vhd train planner drone
    vhd train length drone
    vhd plan drone --start 0.1 0.1 0.1 0.5 --goal 0.9 0.9 0.9 --out plan.json

This is toy-sized (seconds of training). For real data, use the command line's defaults: thousands of updates.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

import vhdiffuser
from vhdiffuser.data.store import save_dataset
from vhdiffuser.envs.importing import import_dataset
from vhdiffuser.training.loop import Status

SPEED = 0.02


def write_trajectories(path: Path) -> None:
    """A drone that flies between random places in a unit cube, and a battery that drains: 4 numbers per row.

    Row by row, episode after episode; `episode_ends` says where each ends. Actions are optional.
    """
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(40):
        place, target, rows = rng.uniform(size=3), rng.uniform(size=3), []
        for step in range(250):
            way = target - place
            if np.linalg.norm(way) < 0.05:
                target = rng.uniform(size=3)
            place = place + SPEED * way / np.linalg.norm(way) + 0.003 * rng.standard_normal(3)
            rows.append([*place, 1 - step / 250])
        episodes.append(rows)
    ends = np.cumsum([len(rows) for rows in episodes])
    np.savez(path, observations=np.concatenate(episodes), episode_ends=ends)


def report(status: Status) -> None:
    print(f"  update {status.update} of {status.updates}: loss {status.metrics['loss']:.3f}")


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    os.environ.setdefault("VHD_HOME", str(folder))  # leaves your own cache alone
    write_trajectories(folder / "drone.npz")

    # Import. A goal specifies x, y, z (dimensions 0 to 2); the battery is part of the state but not of the goal.
    dataset = import_dataset("drone", str(folder / "drone.npz"), goal_dims=(0, 1, 2), T_max=96)
    save_dataset(dataset)
    print(f"{dataset.episodes.transitions:,} transitions of {dataset.spec.state_dim} numbers")

    # Train both networks, smaller and shorter than usual. Training writes checkpoints and resumes from them.
    loop = {"updates": 300, "warmup": 20, "ema": 0.98, "log_every": 100, "threads": 1}
    recipe = vhdiffuser.get_recipe(vhdiffuser.get_environment("drone")).changed(
        planner={"dim": 16, "batch_size": 32, "diffusion_steps": 64},
        planner_loop=loop,
        length={"batch": 128},
        length_loop=loop,
    )
    print("planner")
    vhdiffuser.train_planner(dataset, recipe, on_status=report)
    print("Length Predictor")
    vhdiffuser.train_length(dataset, recipe, on_status=report)

    # Plan. Far goals get long plans, near goals short ones.
    planner = vhdiffuser.load_planner("drone", source="trained")
    start = np.array([0.1, 0.1, 0.1, 0.5])
    for name, goal in (("near", [0.25, 0.1, 0.1]), ("far", [0.9, 0.9, 0.9])):
        plan = planner.plan(start, goal)
        shortest = np.linalg.norm(goal - start[:3]) / SPEED
        print(f"{name} goal: {plan.length} states, from {plan.states[0].round(2)} to {plan.states[-1].round(2)}")
        print(f"  straight there at full speed: {shortest:.0f} steps")


if __name__ == "__main__":
    main()
