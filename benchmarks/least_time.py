"""Which plans of a mismatch analysis no robot could follow: a lower bound of the steps from start to goal.

    vhd analyse mismatch maze2d-large --methods vhd --retime 1.25 --n 200
    python benchmarks/least_time.py maze2d-large

The ball of maze2d has a greatest speed and force on each axis. So the greater change of its two coordinates grows in a
step by no more than that speed, reached from its speed at the start by full force; and it must cover the shortest
path, measured in that norm. Turns and walls cost time besides: a plan above the bound may still be impossible. Success
is read from the rows of the analysis, over the plans above the bound.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mujoco
import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from vhdiffuser.benchmark.geodesic import Geodesic, make_geodesic
from vhdiffuser.benchmark.methods import load_method
from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.maze2d.simulator import MAX_SPEED, Maze2dEnv
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.results.rows import read_results
from vhdiffuser.types import FloatArray

SCALES = (0.6, 0.8, 1.0)


def chessboard_distance(grid: Geodesic, starts: FloatArray, goals: FloatArray) -> FloatArray:
    """(n, 2) starts and goals -> (n,) lengths of the shortest paths between them in the maximum norm: a king's moves,
    less two grid spacings, so that rounding to the grid never makes them longer than they are."""
    number = np.full(np.array(grid.free.shape) + 2, -1)
    number[1:-1, 1:-1][grid.free] = np.arange(grid.free.sum())
    own = number[1:-1, 1:-1]
    pairs = []
    for rows, columns in ((1, 0), (0, 1), (1, 1), (1, -1)):
        other = number[1 + rows : 1 + rows + own.shape[0], 1 + columns : 1 + columns + own.shape[1]]
        both = (own >= 0) & (other >= 0)
        pairs.append(np.stack([own[both], other[both]]))
    first, second = np.concatenate(pairs, axis=1)
    count = int(grid.free.sum())
    moves = csr_matrix((np.full(len(first), grid.spacing), (first, second)), shape=(count, count))
    begin, end = grid._node_of(starts), grid._node_of(goals)
    nodes, which = np.unique(end, return_inverse=True)
    found = dijkstra(moves, directed=False, indices=nodes)[which, begin]
    return np.maximum(found - 2 * grid.spacing, 0.0)


def least_steps(distance: FloatArray, speed: FloatArray, top: float, gain: float) -> FloatArray:
    """(n,) fewest steps over distances (n,) from speeds (n,), gaining `gain` a step up to `top` (units a step)."""
    left, pace = np.array(distance, np.float64), np.array(speed, np.float64)
    steps = np.zeros(len(left))
    while (moving := left > 0).any():
        pace = np.minimum(pace + gain, top)
        left = left - pace
        steps += moving
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="maze2d-umaze, maze2d-medium or maze2d-large")
    parser.add_argument("--n", type=int, default=200, help="instances of the analysis")
    parser.add_argument("--seed", type=int, default=100, help="its test seed")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of results")
    arguments = parser.parse_args()
    environment = get_environment(arguments.env)
    simulator, grid = environment.make(), make_geodesic(environment)
    assert isinstance(simulator, Maze2dEnv)
    assert grid is not None
    model, spec = simulator.physics.model, environment.spec
    mass = float(mujoco.mj_getTotalmass(model))
    gain = float(model.actuator_gear[0, 0]) / mass * spec.control_dt**2
    top = MAX_SPEED * spec.control_dt + gain  # speeds are clipped before the force acts

    instances = draw_instances(simulator, arguments.n, seed=arguments.seed)
    starts, goals = (np.stack([getattr(each, end) for each in instances]) for end in ("start", "goal"))
    choice = load_method("vhd", environment, "shipped")
    tolerance = spec.epsilon * float(choice.planner.normalizer.scale[list(spec.goal_dims)].max())
    way = np.maximum(chessboard_distance(grid, starts[:, :2], goals) - tolerance, 0.0)
    least = least_steps(way, np.abs(starts[:, 2:]).max(axis=1) * spec.control_dt, top, gain)
    print(f"{arguments.env}: greatest speed {top:.4f} and acceleration {gain:.5f} units a step")
    print("| planner | lambda | impossible | SR of all | SR of the others |\n| --- | ---: | ---: | ---: | ---: |")
    for folder in sorted((arguments.results / "analysis" / "mismatch").glob("VHD*")):
        name, scale = folder.name.rsplit("-", 1)
        path = folder / arguments.env / f"vhd-ss-{arguments.seed}.jsonl"
        if float(scale) not in SCALES or not path.is_file():
            continue
        rows = sorted(read_results(path).rows, key=lambda row: row.instance)
        length, success = (np.array([getattr(row, key) for row in rows]) for key in ("planned_length", "success"))
        possible = length - 1 >= least[: len(rows)]
        print(
            f"| {name} | {scale} | {1 - possible.mean():.1%} | {success.mean():.1%} | {success[possible].mean():.1%} |"
        )


if __name__ == "__main__":
    main()
