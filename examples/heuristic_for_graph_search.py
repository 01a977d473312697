"""The Length Predictor as a heuristic for A*: it knows about walls, a straight line does not.

    python examples/heuristic_for_graph_search.py
    python examples/heuristic_for_graph_search.py path/to/length.safetensors

It needs neither the planner nor a simulator. Where no weights ship for maze2d-umaze, a small predictor is trained
first (some ten seconds). Its estimates lean to the low side of what was observed, but they are learned: paths are
nearly the shortest, not provably so.
"""

from __future__ import annotations

import heapq
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from vhdiffuser import LengthPredictor
from vhdiffuser.cli import run as vhd
from vhdiffuser.envs.datasets import load_dataset
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, UMAZE
from vhdiffuser.length.config import LengthConfig
from vhdiffuser.length.task import LengthTask
from vhdiffuser.training.config import LoopConfig
from vhdiffuser.training.loop import train
from vhdiffuser.weights.places import run_folder, shipped_path

SPACING = 0.1  # between two nodes, in units of the maze
SPEED = 0.03  # units a control step, about what the data's ball makes
PAIRS = 30
MOVES = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]

Node = tuple[int, int]


def find_predictor() -> Path:
    """The file named, the one that ships, or one trained on the spot."""
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    if shipped_path("maze2d-umaze", "length").exists():
        return shipped_path("maze2d-umaze", "length")
    os.environ.setdefault("VHD_HOME", tempfile.mkdtemp())  # so that trying this leaves your own cache alone
    vhd(["data", "get", "maze2d-umaze", "--source", "build", "--size", "50000", "--quiet"])
    data, config = load_dataset("maze2d-umaze"), LengthConfig(batch=256)
    config = replace(config, warm_start=replace(config.warm_start, shortest=50, longest=100))
    return train(
        lambda on: LengthTask(data.episodes, data.spec, config, data.normalizer(), data.fingerprint(), on),
        LoopConfig(updates=500, learning_rate=1e-3, warmup=20, ema=0.98, threads=1),
        run_folder("maze2d-umaze", "length"),
        lambda status: None,
    )


def a_star(free: np.ndarray, start: Node, goal: Node, heuristic: np.ndarray) -> tuple[float, int]:
    """(steps of the path found, nodes expanded) on the grid's free places; `heuristic` holds the steps left."""
    best: dict[Node, float] = {start: 0.0}
    closed: set[Node] = set()
    queue = [(float(heuristic[start]), start)]
    while queue:
        _, node = heapq.heappop(queue)
        if node == goal:
            return best[node], len(closed)
        if node in closed:
            continue
        closed.add(node)
        for a, b in MOVES:
            place = (node[0] + a, node[1] + b)
            if min(place) < 0 or max(place) >= len(free) or not free[place]:
                continue
            steps = best[node] + SPACING * np.hypot(a, b) / SPEED
            if steps < best.get(place, np.inf):
                best[place] = steps
                heapq.heappush(queue, (steps + float(heuristic[place]), place))
    raise RuntimeError("no path")


def main() -> None:
    predictor = LengthPredictor.load(find_predictor())
    axis = np.arange(0.5, 3.3, SPACING)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)  # (n, n, 2) places
    free = UMAZE.clearance(grid) >= BALL_RADIUS
    states = np.concatenate([grid, 0 * grid], axis=-1)  # (n, n, 4), at rest

    nodes, rng = np.argwhere(free), np.random.default_rng(0)
    found: dict[str, list[tuple[float, int]]] = {"no heuristic": [], "straight line": [], "Length Predictor": []}
    for _ in range(PAIRS):
        start, goal = (tuple(map(int, node)) for node in rng.choice(nodes, 2))
        straight = np.linalg.norm(grid - grid[goal], axis=-1) / SPEED
        learned = predictor.predict_steps(states, grid[goal])  # one call for all nodes, broadcast against one goal
        for name, heuristic in zip(found, (0 * straight, straight, learned), strict=True):
            found[name].append(a_star(free, start, goal, heuristic))

    print(f"{PAIRS} random pairs among {len(nodes)} places, means:")
    for name, results in found.items():
        steps, expanded = np.mean(results, axis=0)
        print(f"{name:18}{steps:6.1f} steps, {expanded:6.1f} nodes expanded")


if __name__ == "__main__":
    main()
