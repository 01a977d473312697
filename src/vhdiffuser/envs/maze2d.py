"""D4RL's maze2d on the current MuJoCo: the same frame, mazes and physics, no old gym and no mujoco-py.

A ball of radius 0.1 on two slide joints, pushed by two motors. Its state is (x, y, vx, vy); in that
frame cell (row, column) is centred at (row - 0.2, column - 0.2): the walls stand one unit off the
origin while the ball rests at 1.2.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
import numpy as np

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.envs.walls import draw_free, extent, inside, wall_distance
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import FloatArray, Instance

MAZES: dict[str, tuple[str, ...]] = {
    "umaze": ("#####", "#GOO#", "###O#", "#OOO#", "#####"),
    "medium": ("########", "#OO##OO#", "#OO#OOO#", "##OOO###", "#OO#OOO#", "#O#OO#O#", "#OOO#OG#", "########"),
    "large": (
        "############",
        "#OOOO#OOOOO#",
        "#O##O#O#O#O#",
        "#OOOOOO#OOO#",
        "#O####O###O#",
        "#OO#O#OOOOO#",
        "##O#O#O#O###",
        "#OO#OOO#OGO#",
        "############",
    ),
}
"""`#` wall, `O` free, `G` free and D4RL's fixed goal; rows are x, columns are y."""

EPISODE_STEPS = {"umaze": 300, "medium": 600, "large": 800}
"""D4RL's episode lengths (v1)."""

BALL_RADIUS = 0.1
CELL_OFFSET = -0.2
"""Centre of cell (0, 0) in the ball's coordinates."""
MAX_SPEED = 5.0
"""Velocities are clipped to this before each step."""
GOAL_RADIUS = 0.5
"""Distance within which D4RL's sparse reward is 1."""


def free_cells(maze: str) -> np.ndarray:
    """(n, 2) rows and columns of the cells that are not walls."""
    rows = _rows(maze)
    return np.array([(r, c) for r, row in enumerate(rows) for c, tile in enumerate(row) if tile != "#"])


def goal_cell(maze: str) -> np.ndarray:
    """(2,) row and column of D4RL's fixed goal."""
    return np.array(next((r, row.index("G")) for r, row in enumerate(_rows(maze)) if "G" in row))


def wall_boxes(maze: str) -> np.ndarray:
    """(n, 4) walls as x_low, x_high, y_low, y_high in the ball's coordinates."""
    rows = _rows(maze)
    cells = np.array([(r, c) for r, row in enumerate(rows) for c, tile in enumerate(row) if tile == "#"])
    x, y = cells[:, 0] + CELL_OFFSET, cells[:, 1] + CELL_OFFSET
    return np.stack([x - 0.5, x + 0.5, y - 0.5, y + 0.5], axis=1)


def clearance(maze: str, positions: FloatArray) -> np.ndarray:
    """Distance from (..., 2) positions to the nearest wall; 0 inside a wall and outside the maze."""
    return wall_distance(wall_boxes(maze), positions)


def _rows(maze: str) -> tuple[str, ...]:
    try:
        return MAZES[maze]
    except KeyError:
        raise UnknownNameError("maze", maze, list(MAZES)) from None


def maze_xml(maze: str) -> str:
    """MuJoCo's description of the maze."""
    rows = _rows(maze)
    walls = "\n".join(
        f'<geom type="box" conaffinity="1" material="wall" pos="{r + 1} {c + 1} 0" size=".5 .5 .2"/>'
        for r, row in enumerate(rows)
        for c, tile in enumerate(row)
        if tile == "#"
    )
    return f"""
    <mujoco model="maze2d-{maze}">
      <compiler inertiafromgeom="true" angle="radian"/>
      <option timestep="0.01" gravity="0 0 0" iterations="20" integrator="Euler"/>
      <default>
        <joint damping="1" limited="false"/>
        <geom friction=".5 .1 .1" density="1000" margin="0.002" condim="1" contype="2" conaffinity="1"/>
      </default>
      <asset><material name="wall" rgba=".7 .5 .3 1"/></asset>
      <worldbody>
        <geom name="ground" type="plane" size="40 40 .25" pos="0 0 -.1" contype="1" conaffinity="0"/>
        <body name="ball" pos="1.2 1.2 0">
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
    """The simulation alone: set, step, read. Data generation runs on this, 30,000 steps/s on a core."""

    def __init__(self, maze: str) -> None:
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


class Maze2dEnv(PlanningEnv):
    """The maze behind the planning interface."""

    def __init__(self, maze: str) -> None:
        self.maze = maze
        self.spec = get_spec(f"maze2d-{maze}")
        self.walls = wall_boxes(maze)
        self.physics = MazePhysics(maze)
        self._goal = np.full(2, np.nan)

    def reset(self, instance: Instance) -> FloatArray:
        """Stand at the start; a start of 2 numbers is a position at rest."""
        self.physics.set(self.spec.start_state(instance.start))
        self._goal = np.asarray(instance.goal, dtype=np.float64)
        return self.physics.state()

    def step(self, action: FloatArray) -> FloatArray:
        """One action, clipped to [-1, 1]^2."""
        self.physics.step(np.clip(action, -1.0, 1.0))
        return self.physics.state()

    def sample_instance(self, rng: np.random.Generator, distribution: str = "reset") -> Instance:
        """`reset`: D4RL's own draw, cells +- 0.1; `uniform`: anywhere the ball fits, at rest."""
        if distribution == "reset":
            cells = free_cells(self.maze)
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
        """Refuse points outside the maze, inside a wall, or nearer to one than the ball's radius."""
        for name, value in self.finite_ends(instance):
            if not inside(self.walls, value[:2]):
                (x_low, y_low), (x_high, y_high) = extent(self.walls)
                raise VhdError(
                    f"{self.spec.name}: {name} ({value[0]:.2f}, {value[1]:.2f}) is outside the maze, which reaches "
                    f"from {x_low:g} to {x_high:g} in x and from {y_low:g} to {y_high:g} in y."
                )
            # Data touches the walls to within the contact margin, so allow as much.
            if wall_distance(self.walls, value[:2]) < BALL_RADIUS - 0.01:
                raise VhdError(
                    f"{self.spec.name}: {name} ({value[0]:.2f}, {value[1]:.2f}) is inside a wall, or nearer to one "
                    f"than the ball's radius of {BALL_RADIUS}. Free cells are centred at row - 0.2, column - 0.2; "
                    f"for example ({free_cells(self.maze)[0][0]}, {free_cells(self.maze)[0][1]}) is free."
                )

    def render(self, width: int = 480, height: int = 480) -> np.ndarray:
        """Top view, painted without any graphics library: columns to the right, rows downwards."""
        rows, columns = len(MAZES[self.maze]), len(MAZES[self.maze][0])
        # Pixel centres in the ball's coordinates; the maze fills the picture.
        x = (np.arange(height) + 0.5) / height * rows - 0.5 + CELL_OFFSET
        y = (np.arange(width) + 0.5) / width * columns - 0.5 + CELL_OFFSET
        wall = np.array([[tile == "#" for tile in row] for row in MAZES[self.maze]])
        picture = np.full((height, width, 3), 255.0)
        cell_x = np.floor(x - CELL_OFFSET + 0.5).astype(int)
        cell_y = np.floor(y - CELL_OFFSET + 0.5).astype(int)
        picture[wall[np.ix_(cell_x, cell_y)]] = (120, 124, 138)
        soft = max(rows / height, columns / width)
        for centre, radius, colour in (
            (self._goal, 0.15, (214, 69, 65)),
            (self.physics.position, BALL_RADIUS, (31, 111, 235)),
        ):
            if np.isfinite(centre).all():
                distance = np.hypot(x[:, None] - centre[0], y[None, :] - centre[1])
                cover = np.clip((radius - distance) / soft + 0.5, 0.0, 1.0)[..., None]
                picture = picture * (1 - cover) + np.array(colour) * cover
        return picture.round().astype(np.uint8)


class Maze2dGym(gymnasium.Env):
    """D4RL's maze2d task for Gymnasium: `gymnasium.make("vhdiffuser/Maze2d-large-v1")`.

    Reward is D4RL's sparse one: 1 on each step within 0.5 of the goal. An episode never terminates
    and is truncated after D4RL's 300/600/800 steps. `reset(options={"start": ..., "goal": ...})`
    sets either; otherwise the start is drawn as D4RL draws it and the goal is the maze's own
    (`random_goal=True`: drawn anew at each reset).
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 100}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, maze: str = "umaze", random_goal: bool = False, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise VhdError(f"render_mode '{render_mode}' is not known. Allowed: rgb_array, or none.")
        self.render_mode = render_mode
        self.random_goal = random_goal
        self.planning = Maze2dEnv(maze)
        self.goal = goal_cell(maze).astype(np.float64)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw (or set) start and goal."""
        super().reset(seed=seed)
        options = options or {}
        drawn = self.planning.sample_instance(self.np_random)
        if "goal" in options:
            self.goal = np.asarray(options["goal"], dtype=np.float64)
        elif self.random_goal:
            self.goal = drawn.goal.astype(np.float64)
        instance = Instance(np.asarray(options.get("start", drawn.start), np.float32), self.goal, drawn.seed)
        self.planning.check(instance)
        return self.planning.reset(instance), {"goal": self.goal.copy()}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One control step."""
        observation = self.planning.step(action)
        distance = float(np.linalg.norm(observation[:2] - self.goal))
        return observation, float(distance <= GOAL_RADIUS), False, False, {"goal": self.goal.copy()}

    def render(self) -> np.ndarray | None:
        """RGB array of the top view."""
        return self.planning.render() if self.render_mode == "rgb_array" else None
