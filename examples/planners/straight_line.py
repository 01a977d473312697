"""The simplest planner: straight to the goal, through walls. A lower bound for every maze.

vhd bench maze2d-umaze --planner examples/planners/straight_line.py:StraightLine
"""

from __future__ import annotations

import numpy as np
from paths import ACCELERATION, SPEED, timed


class StraightLine:
    name = "straight-line"

    def __init__(self, environment):
        self.spec = environment.spec

    def plan(self, start, goal):
        return timed(self.spec, start, np.stack([self.spec.goal_of(start), goal]))

    def describe(self):
        return {"speed": SPEED, "acceleration": ACCELERATION}
