"""Compare regenerated maze2d with the statistics of D4RL's official sets; print what antmaze and cube have.

    python benchmarks/data_fidelity.py            the datasets in the cache (vhd data get ENV --source build)
    python benchmarks/data_fidelity.py --official maze2d-umaze-sparse-v1.hdf5     beside a file of D4RL's instead

What D4RL's users publish of its sets is written here. The published segment lengths come from 20,000-row
samples with a few hundred targets, so their mean depends on which targets were drawn. `matched` is our mean
over the same mix of path lengths as theirs; it is given where their mix is known. An official file has all
of it: means, deviations, speeds, segments and the mix.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from vhdiffuser.data.readers import read_d4rl_maze2d
from vhdiffuser.data.store import summary
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.maze2d.building import _next_cells, stream
from vhdiffuser.envs.maze2d.maze import LARGE, MEDIUM, UMAZE
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError

MAZES = {"umaze": UMAZE, "medium": MEDIUM, "large": LARGE}

PUBLISHED = {
    "umaze": {
        "mean": [1.9328, 2.3745, 0.0002, -0.0010],
        "std": [0.8997, 0.7093, 2.2129, 2.4682],
        "action std": [0.7043, 0.7506],
        "speed quartiles": [2.26, 3.20, 4.03],
        "segment": 79.9,
    },
    "medium": {
        "mean": [3.5093, 3.4766, 0.0, 0.0],
        "std": [1.3371, 1.5210, 2.3408, 2.3694],
        "action std": [0.7398, 0.7459],
        "speed quartiles": [2.33, 3.19, 4.03],
        "segment": 158.3,
    },
    "large": {
        "mean": [3.7296, 5.3047, 0.0, 0.0],
        "std": [1.8070, 2.5688, 2.4368, 2.6494],
        "action std": [0.7249, 0.7395],
    },
}
SAMPLE_MIX = {
    "umaze": {0: 36, 1: 64, 2: 47, 3: 42, 4: 33, 5: 16, 6: 11},
    "medium": {0: 4, 1: 12, 2: 10, 3: 20, 4: 13, 5: 18, 6: 19, 7: 18, 8: 5, 9: 5},
}
"""Targets of the published 20,000-row samples by cells from the one before (medium: without one single far pair)."""


def steps_apart(maze: str, cells: list[tuple[int, int]]) -> np.ndarray:
    """Cells of the shortest path from each of these cells to the next."""

    def path(here: tuple[int, int], there: tuple[int, int]) -> int:
        step, count = _next_cells(MAZES[maze], there), 0
        while here != there:
            here, count = step[here], count + 1
        return count

    return np.array([path(a, b) for a, b in itertools.pairwise(cells)])


def rounded(places: np.ndarray) -> list[tuple[int, int]]:
    return [(round(float(x)), round(float(y))) for x, y in places[:, :2]]


def segments(maze: str, mix: dict[int, int] | None, steps: int = 500_000) -> tuple[float, float | None]:
    """Mean segment of a fresh stream, and the mean over this mix of path lengths: cells apart -> how many."""
    patience = get_environment(f"maze2d-{maze}").episode_steps
    assert patience is not None
    states, _, changes = stream(MAZES[maze], patience, steps, np.random.default_rng(11))
    lengths = np.diff(changes)
    if mix is None:
        return float(lengths.mean()), None
    apart = steps_apart(maze, rounded(states[changes]))
    seen = {cells: count for cells, count in mix.items() if (apart == cells).any()}
    matched = sum(count * lengths[apart == cells].mean() for cells, count in seen.items()) / sum(seen.values())
    return float(lengths.mean()), float(matched)


def speed_quartiles(observations: np.ndarray) -> list[float]:
    return np.quantile(np.hypot(observations[:, 2], observations[:, 3]), [0.25, 0.5, 0.75]).tolist()


def official_statistics(path: Path) -> tuple[str, dict[str, Any], dict[int, int]]:
    """Maze, statistics and mix of path lengths of one of D4RL's files, whose name tells its maze."""
    maze = next((maze for maze in PUBLISHED if maze in path.name), None)
    if maze is None:
        raise DataError(f"{path}: the name must say which maze it is ({', '.join(PUBLISHED)}).")
    episodes = read_d4rl_maze2d(path)
    observations = episodes.observations
    with h5py.File(path) as file:
        changes = np.flatnonzero(file["timeouts"][()])
    apart = steps_apart(maze, rounded(observations[changes]))
    statistics = {
        "mean": observations.mean(axis=0, dtype=np.float64).tolist(),
        "std": observations.std(axis=0, dtype=np.float64).tolist(),
        "action std": episodes.actions.std(axis=0, dtype=np.float64).tolist(),
        "speed quartiles": speed_quartiles(observations),
        "segment": float(np.diff(changes).mean()),
    }
    return maze, statistics, dict(Counter(apart.tolist()))


def row(name: str, ours: list[float], theirs: list[float], tolerance: float, relative: bool) -> bool:
    off = np.abs(np.array(ours) - theirs) / (np.abs(theirs) if relative else 1.0)
    good = bool(off.max() <= tolerance)
    shown = " ".join(f"{value:8.4f}" for value in ours)
    unit = "%" if relative else ""
    print(
        f"  {name:16} {shown:40} published {' '.join(f'{v:8.4f}' for v in theirs):40} "
        f"off {off.max() * (100 if relative else 1):6.3f}{unit} {'ok' if good else 'MISSED'}"
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--official", type=Path, nargs="+", default=[], help="HDF5 files of D4RL's to compare with")
    theirs_of, mixes = dict(PUBLISHED), dict(SAMPLE_MIX)
    for path in parser.parse_args().official:
        maze, statistics, mix = official_statistics(path)
        theirs_of[maze], mixes[maze] = statistics, mix
    good = True
    for maze, published in theirs_of.items():
        try:
            dataset = load_dataset(f"maze2d-{maze}")
        except DataError as error:
            print(f"maze2d-{maze}: {error}")
            continue
        facts = summary(dataset)
        print(f"maze2d-{maze}: {facts['transitions']:,} transitions, source {facts['source']}")
        good &= row("mean", facts["observation_mean"], published["mean"], 0.06, False)
        good &= row("std", facts["observation_std"], published["std"], 0.02, True)
        good &= row("action std", facts["action_std"], published["action std"], 0.02, True)
        if "segment" in published:
            quartiles = speed_quartiles(dataset.episodes.observations)
            good &= row("speed quartiles", quartiles, published["speed quartiles"], 0.05, True)
            plain, matched = segments(maze, mixes.get(maze))
            row("segment", [plain], [published["segment"]], 0.05, True)
            if matched is not None:
                good &= row("segment, matched", [matched], [published["segment"]], 0.05, True)
    for name in ("antmaze-medium", "cube"):
        try:
            facts = summary(load_dataset(name))
        except DataError as error:
            print(f"{name}: {error}")
            continue
        dims = (0, 1) if name == "antmaze-medium" else (12, 13, 14)
        theirs = "published 10.08 9.52 / 6.20 5.73" if name == "antmaze-medium" else "not published"
        print(
            f"{name}: {facts['transitions']:,} transitions in {facts['episodes']:,} episodes, position mean "
            f"{[round(facts['observation_mean'][d], 2) for d in dims]} std "
            f"{[round(facts['observation_std'][d], 2) for d in dims]} ({theirs})"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
