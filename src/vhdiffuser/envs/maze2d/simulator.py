"""D4RL's maze2d on the current MuJoCo: the same frame, mazes and physics, no old gym and no mujoco-py.

A ball of radius 0.1 on two slide joints, driven by two motors. Its state is (x, y, vx, vy); in that
frame cell (row, column) is centred at (row - 0.2, column - 0.2): the walls are offset by one unit,
the ball's rest position by 1.2.
"""

from __future__ import annotations

import mujoco
import numpy as np

from vhdiffuser.envs.base import PlanningEnv, Reset, VectorEnv
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, CELL_OFFSET, Maze
from vhdiffuser.envs.walled_batch import Bodies, BodiesVector, WalledBatch, WallGrid
from vhdiffuser.envs.walls import draw_free, extent, inside, wall_distance
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import EnvSpec, FloatArray, ImageArray, Instance, IntArray

MAX_SPEED = 5.0
"""Velocities are clipped to this before each step."""
_REST = 1.2
"""World coordinates of the ball at (0, 0)."""
_MARGIN = 0.002
"""Contacts act within this distance from either body."""
_SLACK = 0.2
"""A step moves the ball by 0.05 at most."""


def maze_xml(maze: Maze) -> str:
    """The maze as MuJoCo XML."""
    walls = "\n".join(
        f'<geom name="wall_{r}_{c}" type="box" conaffinity="1" material="wall" pos="{r + 1} {c + 1} 0" '
        'size=".5 .5 .2"/>'
        for r, row in enumerate(maze.rows)
        for c, tile in enumerate(row)
        if tile == "#"
    )
    return f"""
    <mujoco model="maze2d">
      <compiler inertiafromgeom="true" angle="radian"/>
      <option timestep="0.01" gravity="0 0 0" iterations="20" integrator="Euler"/>
      <default>
        <joint damping="1" limited="false"/>
        <geom friction=".5 .1 .1" density="1000" margin="{_MARGIN}" condim="1" contype="2" conaffinity="1"/>
      </default>
      <asset><material name="wall" rgba=".7 .5 .3 1"/></asset>
      <worldbody>
        <geom name="ground" type="plane" size="40 40 .25" pos="0 0 -.1" contype="1" conaffinity="0"/>
        <body name="ball" pos="{_REST} {_REST} 0">
          <geom type="sphere" size="{BALL_RADIUS}" contype="1"/>
          <joint name="ball_x" type="slide" axis="1 0 0"/>
          <joint name="ball_y" type="slide" axis="0 1 0"/>
        </body>
        {walls}
      </worldbody>
      <actuator>
        <motor joint="ball_x" ctrlrange="-1 1" ctrllimited="true" gear="100"/>
        <motor joint="ball_y" ctrlrange="-1 1" ctrllimited="true" gear="100"/>
      </actuator>
    </mujoco>"""


class MazePhysics:
    """The simulation alone: set, step, read. Used for data generation, at 30,000 steps/s per core."""

    def __init__(self, maze: Maze) -> None:
        self.model = mujoco.MjModel.from_xml_string(maze_xml(maze))
        self.data = mujoco.MjData(self.model)
        # Views into MuJoCo's memory: reading them costs nothing.
        self.position, self.velocity, self.control = self.data.qpos, self.data.qvel, self.data.ctrl

    def set(self, state: FloatArray) -> None:
        """Put the ball at (x, y, vx, vy)."""
        mujoco.mj_resetData(self.model, self.data)
        self.position[:], self.velocity[:] = state[:2], state[2:]
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: FloatArray | tuple[float, float]) -> None:
        """One control step of 0.01 s with an action in [-1, 1]^2."""
        velocity = self.velocity
        np.minimum(np.maximum(velocity, -MAX_SPEED, out=velocity), MAX_SPEED, out=velocity)
        self.control[:] = action
        mujoco.mj_step(self.model, self.data)

    def state(self) -> FloatArray:
        """(4,) float32 copy of (x, y, vx, vy)."""
        return np.concatenate([self.position, self.velocity]).astype(np.float32)


class MazeBatch(Bodies):
    """Balls in one maze, stepped together: bitwise equal to as many `MazePhysics`."""

    def __init__(self, maze: Maze, copies: int, threads: int = 1) -> None:
        is_wall = np.array([[tile == "#" for tile in row] for row in maze.rows])
        names = tuple(f"wall_{r}_{c}" for r, c in np.argwhere(is_wall))
        walls = WallGrid(names, is_wall, origin=(1.0, 1.0), cell=1.0, axes=(0, 1), height=0.0, offset=(_REST, _REST))
        self.simulations = WalledBatch(maze_xml(maze), walls, BALL_RADIUS + 2 * _MARGIN, _SLACK, copies, threads)

    def step(self, copies: IntArray, actions: FloatArray) -> None:
        """One control step of these copies, in ascending order, with actions (k, 2) in [-1, 1]."""
        balls = self.simulations
        balls.velocity[copies] = np.clip(balls.velocity[copies], -MAX_SPEED, MAX_SPEED)
        balls.control[copies] = actions
        balls.step(copies, 1)


class Maze2dEnv(PlanningEnv):
    """The maze behind the planning interface."""

    def __init__(self, spec: EnvSpec, maze: Maze) -> None:
        self.spec, self.maze, self.walls = spec, maze, maze.walls
        self.physics = MazePhysics(maze)
        self._goal = np.full(2, np.nan)

    def reset(self, instance: Instance) -> FloatArray:
        """Reset to the start; a start of 2 numbers is a position at rest."""
        self.physics.set(self.spec.start_state(instance.start))
        self._goal = np.asarray(instance.goal, dtype=np.float64)
        return self.physics.state()

    def step(self, action: FloatArray) -> FloatArray:
        """One action, clipped to [-1, 1]^2."""
        self.physics.step(np.clip(action, -1.0, 1.0))
        return self.physics.state()

    def vector(self, slots: int, threads: int, reset: Reset | None = None) -> VectorEnv | None:
        """Balls stepped together; None for a subclass with a `step` of its own."""
        if type(self).step is not Maze2dEnv.step:
            return None
        return BodiesVector(self, MazeBatch(self.maze, slots, threads), reset)

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """`reset`: as in D4RL, cells +- 0.1; `uniform`: anywhere the ball fits, at rest."""
        if distribution == "reset":
            cells = self.maze.free_cells
            start, goal = cells[rng.integers(len(cells), size=2)] + rng.uniform(-0.1, 0.1, size=(2, 2))
            velocity = 0.1 * rng.standard_normal(2)
        elif distribution == "uniform":
            start, goal = (draw_free(self.walls, BALL_RADIUS, rng) for _ in range(2))
            velocity = np.zeros(2)
        else:
            raise UnknownNameError("distribution", distribution, ["reset", "uniform"])
        state = np.concatenate([start, velocity]).astype(np.float32)
        return Instance(state, goal.astype(np.float32), int(rng.integers(2**31)))

    def check(self, instance: Instance) -> None:
        """Raise `VhdError` for points outside the maze, inside a wall, or closer to one than the ball's radius."""
        for name, value in self.finite_ends(instance):
            if not inside(self.walls, value[:2]):
                (x_low, y_low), (x_high, y_high) = extent(self.walls)
                raise VhdError(
                    f"{self.spec.name}: {name} ({value[0]:.2f}, {value[1]:.2f}) is outside the maze, which "
                    f"spans {x_low:g} to {x_high:g} in x and {y_low:g} to {y_high:g} in y."
                )
            # In the data, the ball touches the walls to within the contact margin, so allow as much.
            if wall_distance(self.walls, value[:2]) < BALL_RADIUS - 0.01:
                raise VhdError(
                    f"{self.spec.name}: {name} ({value[0]:.2f}, {value[1]:.2f}) is inside a wall, or closer to "
                    f"one than the ball's radius of {BALL_RADIUS}. Free cells are centred at row - 0.2, column "
                    f"- 0.2; for example ({self.maze.free_cells[0][0]}, {self.maze.free_cells[0][1]}) is free."
                )

    def render(self, width: int = 480, height: int = 480) -> ImageArray:
        """Top view, painted without any graphics library: x to the right, y up."""
        rows, columns = len(self.maze.rows), len(self.maze.rows[0])
        # Pixel centres in the ball's coordinates; the maze fills the picture.
        x = (np.arange(width) + 0.5) / width * rows - 0.5 + CELL_OFFSET
        y = (np.arange(height) + 0.5)[::-1] / height * columns - 0.5 + CELL_OFFSET
        wall = np.array([[tile == "#" for tile in row] for row in self.maze.rows])
        picture = np.full((height, width, 3), 255.0)
        cell_x = np.floor(x - CELL_OFFSET + 0.5).astype(int)
        cell_y = np.floor(y - CELL_OFFSET + 0.5).astype(int)
        picture[wall[np.ix_(cell_x, cell_y)].T] = (120, 124, 138)
        soft = max(rows / width, columns / height)
        for centre, radius, colour in (
            (self._goal, 0.15, (214, 69, 65)),
            (self.physics.position, BALL_RADIUS, (31, 111, 235)),
        ):
            if np.isfinite(centre).all():
                distance = np.hypot(x[None, :] - centre[0], y[:, None] - centre[1])
                cover = np.clip((radius - distance) / soft + 0.5, 0.0, 1.0)[..., None]
                picture = picture * (1 - cover) + np.array(colour) * cover
        return picture.round().astype(np.uint8)
