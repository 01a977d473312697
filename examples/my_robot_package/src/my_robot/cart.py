"""The cart: spec, room and physics."""

from __future__ import annotations

import numpy as np

from vhdiffuser import Geometry, PlanningEnv
from vhdiffuser.envs.walls import draw_free, wall_distance
from vhdiffuser.errors import VhdError
from vhdiffuser.types import EnvSpec, Instance

SPEC = EnvSpec(
    name="my-robot",
    observation_dim=6,  # x, y, cos and sin of the heading, speeds of the left and the right wheel
    action_dim=2,  # commanded wheel speeds in [-1, 1] m/s
    state_dims=(0, 1, 2, 3),  # the wheels are left to the controller
    state_names=("x [m]", "y [m]", "cos heading", "sin heading"),
    goal_dims=(0, 1),
    velocity_dims=None,
    control_dt=0.1,
    epsilon=0.08,
    T_max=128,
    L_min=8,
)

RADIUS = 0.2
"""Radius of the cart's body in metres."""
TRACK = 0.3
"""Distance between the wheels, in metres."""

GEOMETRY = Geometry(
    walls=np.array(
        [  # x_low, x_high, y_low, y_high: a room of 6 x 5 m with two pillars
            [-1.0, 0.0, -1.0, 6.0],
            [6.0, 7.0, -1.0, 6.0],
            [0.0, 6.0, -1.0, 0.0],
            [0.0, 6.0, 5.0, 6.0],
            [1.5, 2.5, 1.5, 3.5],
            [3.8, 4.8, 0.8, 2.8],
        ]
    ),
    radius=RADIUS,
)


class Cart(PlanningEnv):
    """Wheels reach the commanded speed within a few steps; at a wall, the cart can turn but not move on."""

    spec = SPEC

    def __init__(self) -> None:
        self.place, self.heading, self.wheels = np.zeros(2), 0.0, np.zeros(2)

    def reset(self, instance: Instance) -> np.ndarray:
        """At the start, given as a planning state, as (x, y) with heading 0, or as a whole observation."""
        start = np.zeros(SPEC.observation_dim)
        start[: len(instance.start)] = instance.start
        self.place, self.wheels = start[:2], start[4:]
        self.heading = float(np.arctan2(start[3], start[2]))
        return self._observation()

    def step(self, action: np.ndarray) -> np.ndarray:
        """One control step of 0.1 s."""
        self.wheels = self.wheels + 0.6 * (np.clip(action, -1, 1) - self.wheels)
        left, right = self.wheels
        self.heading += SPEC.control_dt * (right - left) / TRACK
        way = np.array([np.cos(self.heading), np.sin(self.heading)])
        place = self.place + SPEC.control_dt * (left + right) / 2 * way
        if wall_distance(GEOMETRY.walls, place) >= RADIUS:
            self.place = place
        return self._observation()

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """Start and goal anywhere in the room, at any heading: `reset` and `uniform` are the same here."""
        start, goal = (draw_free(GEOMETRY.walls, RADIUS + 0.05, rng) for _ in range(2))
        heading = rng.uniform(-np.pi, np.pi)
        state = np.array([*start, np.cos(heading), np.sin(heading)], np.float32)
        return Instance(state, goal.astype(np.float32), int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        """The cart's body must not touch a wall at start and goal."""
        for name, value in self.finite_ends(instance):
            if wall_distance(GEOMETRY.walls, value[:2]) < RADIUS - 1e-4:
                raise VhdError(
                    f"my-robot: the {name} {value[:2].tolist()} is nearer than {RADIUS} m to a wall, or outside the "
                    "room (0 to 6 by 0 to 5 m). Choose one in free space."
                )

    def render(self, width: int = 480, height: int = 480) -> np.ndarray:
        """The room from above: walls grey, the cart blue, its front orange."""
        x, y = np.meshgrid(np.linspace(-0.5, 6.5, width), np.linspace(5.5, -0.5, height))
        points = np.stack([x, y], axis=-1)
        picture = np.full((height, width, 3), 255, np.uint8)
        picture[wall_distance(GEOMETRY.walls, points) == 0] = (120, 120, 120)
        front = self.place + RADIUS * np.array([np.cos(self.heading), np.sin(self.heading)])
        picture[np.linalg.norm(points - self.place, axis=-1) < RADIUS] = (40, 90, 200)
        picture[np.linalg.norm(points - front, axis=-1) < RADIUS / 2] = (240, 140, 30)
        return picture

    def _observation(self) -> np.ndarray:
        heading = np.cos(self.heading), np.sin(self.heading)
        return np.array([*self.place, *heading, *self.wheels], np.float32)
