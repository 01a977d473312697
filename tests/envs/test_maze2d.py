from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import vhdiffuser  # noqa: F401  (registers the mazes)
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, LARGE, MEDIUM, UMAZE
from vhdiffuser.envs.maze2d.simulator import Maze2dEnv, MazePhysics
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.types import Instance

MAZES = {"umaze": UMAZE, "medium": MEDIUM, "large": LARGE}


def make(maze: str) -> Maze2dEnv:
    return Maze2dEnv(get_spec(f"maze2d-{maze}"), MAZES[maze])


def test_one_full_push_from_rest_changes_the_velocity_as_the_mass_says():
    # F = 100, m = 1000 * 4/3 pi 0.1^3, implicit damping 1: dv = dt F / (m + dt).
    mass = 1000 * 4 / 3 * np.pi * 0.1**3
    physics = MazePhysics(UMAZE)
    physics.set(np.array([1.0, 2.0, 0.0, 0.0]))
    physics.step(np.array([0.0, 1.0]))
    velocity = 0.01 * 100 / (mass + 0.01)
    np.testing.assert_allclose(physics.state(), [1.0, 2.0 + 0.01 * velocity, 0.0, velocity], atol=1e-6)


def test_velocity_is_clipped_before_a_step():
    physics = MazePhysics(LARGE)
    physics.set(np.array([1.0, 1.0, 0.0, 9.0]))
    physics.step(np.array([0.0, 1.0]))
    assert physics.state()[3] == pytest.approx(5.2263, abs=2e-3)  # D4RL's largest observed velocity


@pytest.mark.parametrize("maze", list(MAZES))
def test_the_ball_stays_out_of_the_walls(maze, rng):
    env = make(maze)
    observation = env.reset(env.sample_instance(rng))
    smallest = np.inf
    push = rng.uniform(-1, 1, 2)
    for step in range(1500):
        if step % 25 == 0:
            push = rng.uniform(-1, 1, 2) * 2
        observation = env.step(push)
        smallest = min(smallest, env.maze.clearance(observation[:2]))
    # MuJoCo's contacts are soft: at full speed the ball presses in by up to half its radius, and is thrown back.
    assert smallest > 0.4 * BALL_RADIUS


def test_cells_lie_where_d4rl_has_them():
    assert UMAZE.clearance(np.array([0.8, 0.8])) == pytest.approx(0.5)  # centre of cell (1, 1)
    assert UMAZE.clearance(np.array([1.8, 0.8])) == 0.0  # cell (2, 1) is a wall
    assert UMAZE.clearance(np.array([[-0.8, 0.8], [0.8, 4.4], [40.0, 40.0]])).tolist() == [0.0] * 3, "outside"
    assert len(UMAZE.free_cells) == 7
    assert len(MEDIUM.free_cells) == 26
    assert len(LARGE.free_cells) == 47 - 1
    assert UMAZE.walls.shape == (25 - 7, 4)


@pytest.mark.parametrize("maze", list(MAZES))
def test_instances_are_free_and_repeatable(maze):
    env = make(maze)
    for distribution in ("reset", "uniform"):
        drawn = [env.sample_instance(np.random.default_rng([3, i]), distribution) for i in range(200)]
        for instance in drawn:
            env.check(instance)
        again = env.sample_instance(np.random.default_rng([3, 7]), distribution)
        np.testing.assert_array_equal(again.start, drawn[7].start)
        np.testing.assert_array_equal(again.goal, drawn[7].goal)
    cells = env.maze.free_cells
    starts = np.array([env.sample_instance(np.random.default_rng([4, i])).start for i in range(600)])
    near = np.abs(starts[:, None, :2] - cells).max(-1) <= 0.1 + 1e-6
    assert near.any(1).all(), "D4RL resets at integer cells +- 0.1"
    assert near.any(0).all(), "and at every free cell"


@pytest.mark.parametrize("maze", list(MAZES))
def test_uniform_points_lie_in_free_cells(maze):
    env = make(maze)
    free = {tuple(cell) for cell in env.maze.free_cells.tolist()}
    drawn = [env.sample_instance(np.random.default_rng([9, number]), "uniform") for number in range(1000)]
    points = np.array([end for instance in drawn for end in (instance.start[:2], instance.goal)])
    cells = {
        tuple(cell) for cell in np.rint(points + 0.2).astype(int).tolist()
    }  # a cell is centred at its number - 0.2
    assert cells == free, "in free cells only, and in all of them"
    assert env.maze.clearance(points).min() >= BALL_RADIUS - 1e-5
    for instance in drawn:
        env.check(instance)


def test_same_start_same_actions_same_bytes(rng):
    env = make("medium")
    instance = env.sample_instance(rng)
    actions = rng.uniform(-1, 1, (50, 2))
    runs = []
    for _ in range(2):
        env.step(np.ones(2))  # whatever happened before must not matter
        runs.append(np.stack([env.reset(instance), *(env.step(action) for action in actions)]))
    np.testing.assert_array_equal(runs[0], runs[1])


@pytest.mark.parametrize(
    ("start", "goal", "message"),
    [
        ([1.8, 0.8, 0, 0], [1, 1], "start .* inside a wall"),
        ([1, 1, 0, 0], [0.35, 1], "goal .* inside a wall"),
        ([-1, 1, 0, 0], [1, 1], "start .* outside the maze, which spans -0.7 to 4.3 in x"),
        ([1, 1, 0, 0], [1, 4.6], "goal .* outside the maze"),
        ([1, 1, 0], [1, 1], "start needs 2 or 4 numbers"),
        ([1, 1], [1, 1, 1], "goal needs 2 numbers"),
        ([1, np.nan], [1, 1], "NaN"),
    ],
)
def test_bad_instances_are_refused(start, goal, message):
    with pytest.raises(VhdError, match=message):
        make("umaze").check(Instance(np.array(start, float), np.array(goal, float), 0))


@pytest.mark.parametrize("maze", list(MAZES))
def test_gymnasium_makes_and_checks_it(maze):
    env = gymnasium.make(f"vhdiffuser/Maze2d-{maze}-v1", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def test_gymnasium_task_is_d4rls():
    env = gymnasium.make("vhdiffuser/Maze2d-umaze-v1")
    observation, info = env.reset(seed=1, options={"start": [1.0, 1.0]})
    np.testing.assert_array_equal(observation, [1, 1, 0, 0])
    np.testing.assert_array_equal(info["goal"], [1, 1])
    rewards, truncated = [], False
    while not truncated:
        _, reward, terminated, truncated, _ = env.step(np.zeros(2, np.float32))
        assert not terminated
        rewards.append(reward)
    assert rewards == [1.0] * 300
    assert env.reset(seed=2)[0].tolist() == env.reset(seed=2)[0].tolist()
    with pytest.raises(VhdError, match="inside a wall"):
        env.reset(options={"goal": [1.8, 0.8]})


def test_picture_shows_ball_goal_and_walls_where_they_are():
    env = make("umaze")
    env.reset(Instance(np.array([2.8, 0.8, 0, 0]), np.array([0.8, 0.8]), 0))
    picture = env.render(500, 500)
    assert picture.shape == (500, 500, 3)
    assert picture.dtype == np.uint8
    # Cell (x, y) has 100 pixels around column 100 x + 50 and row 450 - 100 y.
    assert picture[350, 350].tolist() == [31, 111, 235]
    assert picture[350, 150].tolist() == [214, 69, 65]
    assert picture[350, 250].tolist() == [120, 124, 138]
    assert picture[250, 150].tolist() == [255, 255, 255]
