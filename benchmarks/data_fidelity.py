"""Compare regenerated maze2d with the statistics of D4RL's official sets; print what antmaze and cube have.

    python benchmarks/data_fidelity.py            the datasets in the cache (vhd data get ENV --source build)

The published segment lengths come from 20,000-row samples with a few hundred targets, so their mean
depends on which targets were drawn. `matched` is our mean over the same mix of path lengths as the
sample's; it is given where the sample's mix is known.
"""

from __future__ import annotations

import itertools
import sys

import numpy as np

from vhdiffuser.data.build_maze2d import stream
from vhdiffuser.data.store import load_dataset, summary
from vhdiffuser.errors import DataError

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


def segments(maze: str, steps: int = 500_000) -> tuple[float, float | None]:
    """Mean segment of a fresh stream, and the mean over the published sample's mix of path lengths."""
    from vhdiffuser.data.build_maze2d import _next_cells

    states, _, changes = stream(maze, steps, np.random.default_rng(11))
    cells = [(round(float(states[t, 0])), round(float(states[t, 1]))) for t in changes]
    lengths = np.diff(changes)

    def path(here: tuple[int, int], there: tuple[int, int]) -> int:
        step, count = _next_cells(maze, there), 0
        while here != there:
            here, count = step[here], count + 1
        return count

    apart = np.array([path(a, b) for a, b in itertools.pairwise(cells)])
    mix = SAMPLE_MIX.get(maze)
    if mix is None:
        return float(lengths.mean()), None
    matched = sum(count * lengths[apart == cells].mean() for cells, count in mix.items()) / sum(mix.values())
    return float(lengths.mean()), float(matched)


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
    good = True
    for maze, published in PUBLISHED.items():
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
            velocity = dataset.episodes.observations[:, 2:]
            quartiles = np.quantile(np.hypot(velocity[:, 0], velocity[:, 1]), [0.25, 0.5, 0.75]).tolist()
            good &= row("speed quartiles", quartiles, published["speed quartiles"], 0.05, True)
            plain, matched = segments(maze)
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
