"""The Length Predictor as the heuristic of A* on a grid of maze2d-large, and how often it is admissible."""

import heapq

import numpy as np

from vhdiffuser import load_planner
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, LARGE

SPACING, SPEED = 0.2, 0.0342  # units between two nodes; mean units per control step in the data
grid = np.stack(np.meshgrid(np.arange(0.4, 7.3, SPACING), np.arange(0.4, 10.3, SPACING), indexing="ij"), axis=-1)
nodes = {tuple(node) for node in np.argwhere(LARGE.clearance(grid) >= BALL_RADIUS).tolist()}
moves = [(a, b, SPACING * np.hypot(a, b) / SPEED) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]


def search(start, goal, heuristic):  # steps to the nodes seen, and nodes expanded; all of them without a goal
    best, closed, queue = {start: 0.0}, set(), [(heuristic[start], start)]
    while queue and goal not in closed:
        node = heapq.heappop(queue)[1]
        closed.add(node)
        for place, steps in (((node[0] + a, node[1] + b), best[node] + cost) for a, b, cost in moves):
            if place in nodes and steps < best.get(place, np.inf) - 1e-9:
                best[place] = steps
                heapq.heappush(queue, (steps + heuristic[place], place))
    return best, len(closed)


predictor, rng, found = load_planner("maze2d-large").length_predictor, np.random.default_rng(0), {}
for start, goal in ((tuple(a), tuple(b)) for a, b in rng.choice(sorted(nodes), (30, 2))):
    straight = np.linalg.norm(grid - grid[goal], axis=-1) / SPEED
    learned = predictor.predict_steps(np.concatenate([grid, 0 * grid], axis=-1), grid[goal])  # one call for all nodes
    true = search(goal, None, 0 * straight)[0]
    heuristics = {"none": 0 * straight, "straight line": straight, "learned": learned, "scaled": 0.8 * learned}
    for name, h in heuristics.items():
        best, expanded = search(start, goal, h)
        share = np.mean([h[node] <= steps + 1e-6 for node, steps in true.items()])
        found.setdefault(name, []).append((best[goal], expanded, 100 * share))
for name, rows in found.items():
    print("{:14}{:6.1f} steps, {:6.1f} nodes expanded, {:5.1f}% admissible".format(name, *np.mean(rows, axis=0)))
