"""A* on the data's graph: cells that the data visits often, linked where it moved from one to the other.

    vhd data get maze2d-umaze
    vhd bench maze2d-umaze --planner examples/planners/a_star.py:AStar

It uses what a learned planner uses, the recorded states, and does not know the walls.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np
from paths import ACCELERATION, SPEED, timed
from scipy.ndimage import uniform_filter1d
from scipy.spatial import cKDTree

from vhdiffuser import load_dataset

CELL = 0.1
"""Width of a cell, in units."""
RARE = 0.3
"""Cells with fewer visits than this share of the median, which lie along walls, are left out."""
WINDOW = 0.6
"""Length over which corners are rounded, in units."""


class AStar:
    name = "a-star"

    def __init__(self, environment):
        self.spec = environment.spec
        episodes = load_dataset(environment.name).episodes
        places = self.spec.goal_of(self.spec.planning_state(episodes.observations))
        # A cell is a complex number, x + iy in units of CELL.
        cells, number, visits = np.unique(np.round(places / CELL) @ [1, 1j], return_inverse=True, return_counts=True)
        often = visits >= RARE * np.median(visits)
        steps = np.stack([number[:-1], number[1:]], axis=1)
        steps = np.delete(steps, np.asarray(episodes.ends[:-1]) - 1, axis=0)  # not across episodes
        steps = np.sort(steps[often[steps].all(axis=1) & (steps[:, 0] != steps[:, 1])], axis=1)
        self.places, self.links = CELL * cells, defaultdict(set)
        for link in np.unique(steps @ [len(cells), 1]).tolist():
            one, other = divmod(link, len(cells))
            self.links[one].add(other)
            self.links[other].add(one)
        self.known = np.array(sorted(self.links))
        self.tree = cKDTree(self.flat(self.known))

    def flat(self, cells):
        """(n, 2) cell centres."""
        return np.stack([self.places[cells].real, self.places[cells].imag], axis=1)

    def plan(self, start, goal):
        begin, end = self.known[self.tree.query([self.spec.goal_of(start), goal])[1]].tolist()
        way = self.flat(self.search(begin, end))
        return timed(self.spec, start, self.rounded(np.vstack([self.spec.goal_of(start), way, goal])))

    def search(self, begin, end):
        """Cells of the shortest path; the straight-line distance is the heuristic."""

        def distance(one, other):
            return abs(self.places[one] - self.places[other])

        queue, cost, before = [(0.0, begin)], {begin: 0.0}, {begin: begin}
        while queue:
            _, cell = heapq.heappop(queue)
            if cell == end:
                break
            for other in self.links[cell]:
                length = cost[cell] + distance(cell, other)
                if length < cost.get(other, np.inf):
                    cost[other], before[other] = length, cell
                    heapq.heappush(queue, (length + distance(other, end), other))
        if end not in before:
            return [begin]  # no path: stay
        way = [end]
        while way[-1] != begin:
            way.append(before[way[-1]])
        return way[::-1]

    def rounded(self, way):
        """The path with rounded corners: a moving average over WINDOW, with fixed ends."""
        along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(way, axis=0), axis=1))])
        even = np.arange(0.0, along[-1], CELL / 4)
        points = np.stack([np.interp(even, along, column) for column in way.T], axis=1)
        smooth = uniform_filter1d(points, int(WINDOW / (CELL / 4)), axis=0, mode="nearest") if len(points) else points
        return np.vstack([way[:1], smooth, way[-1:]])

    def describe(self):
        return {"cell": CELL, "rare": RARE, "window": WINDOW, "speed": SPEED, "acceleration": ACCELERATION}
