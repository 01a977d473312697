"""An environment as one object: its defaults, mazes of any map, and the Gymnasium task of each."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from toy_point import ENVIRONMENT, SPEC

from vhdiffuser import make_maze
from vhdiffuser.data.build import BuildConfig, build
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.gym_ids import gym_id
from vhdiffuser.envs.locomaze.maze import MEDIUM as ANT_MAP
from vhdiffuser.envs.maze2d.maze import BALL_RADIUS, LARGE, UMAZE, Maze
from vhdiffuser.envs.registry import environments, get_environment, register
from vhdiffuser.errors import VhdError
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.types import Instance

HORSESHOE = """
    #######
    #OOOOO#
    #O###O#
    #OO#GO#
    #######
"""
NEEDS_OGBENCH = ("antmaze-medium", "cube", "pointmaze-giant-stitch", "antmaze-giant-navigate")
NAMES = [
    pytest.param(name, marks=pytest.mark.ogbench) if name in NEEDS_OGBENCH else name
    for name in ("maze2d-umaze", "maze2d-medium", "maze2d-large", *NEEDS_OGBENCH)
]


# What is not given


def test_horizons_and_budget_follow_from_the_longest_plan() -> None:
    bare = Environment(SPEC)
    assert bare.name == SPEC.name
    assert bare.horizons == (15, 30, 60)
    assert bare.step_budget == 4 * SPEC.T_max
    assert Environment(replace(SPEC, L_min=20)).horizons == (20, 30, 60), "none is shorter than a plan may be"
    given = Environment(SPEC, horizons=(6, 12, 30), step_budget=40)
    assert (given.horizons, given.step_budget) == ((6, 12, 30), 40)
    assert not bare.geometry.is_maze
    assert bare.missing_extra is None
    assert not bare.has_fallen(np.zeros((3, 2))).any()
    assert not bare.is_hindered(np.zeros((3, 2))).any()


def test_what_hinders_is_a_fall_unless_the_environment_says_otherwise() -> None:
    observations = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    falls = Environment(SPEC, fallen=lambda seen: seen[..., 0] > 0.5)
    assert falls.is_hindered(observations).tolist() == [False, True, False]
    held = replace(falls, hindered=lambda seen: seen[..., 1] > 0.5)
    assert held.has_fallen(observations).tolist() == [False, True, False]
    assert held.is_hindered(observations).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizons": (6, 12)}, "three horizons H1, H2, H3"),
        ({"step_budget": -1}, "must be >= 1"),
        ({"simulators": 0}, "must be >= 1"),
        ({"window_steps": 0}, "must be >= 1"),
    ],
)
def test_impossible_values_are_refused(change: dict, message: str) -> None:
    with pytest.raises(VhdError, match=f"toy: .*{message}"):
        replace(ENVIRONMENT, **change)


def test_without_a_simulator_making_one_says_what_works() -> None:
    with pytest.raises(VhdError, match=r"toy has data but no simulator.*vhd train.*vhd eval-plans.*register"):
        Environment(SPEC).make()


@pytest.mark.parametrize("name", list(environments()))
def test_ours_can_be_sent_to_worker_processes_and_copied(name: str) -> None:
    environment = get_environment(name)
    assert pickle.dumps(environment), "what multiprocessing sends"
    other = copy.deepcopy(environment)
    assert other.spec == environment.spec
    np.testing.assert_array_equal(other.geometry.walls, environment.geometry.walls)
    assert list(other.protocols) == list(environment.protocols)


# Maps


@pytest.mark.parametrize(
    "same",
    [
        "#####\n#GOO#\n###O#\n#OOO#\n#####",
        "\n    #####\n    #G  #\n    ###.#\n    #OO0#\n    #####   \n",
        ["#####", "#GOO#", "###O#", "#OOO#", "#####"],
        "11111\n1G001\n11101\n10001\n11111",
        UMAZE,
    ],
)
def test_a_map_is_read_from_text_in_any_dress(same) -> None:
    assert Maze.of(same) == UMAZE


@pytest.mark.parametrize(
    "kind", [list, np.array, lambda rows: np.array(rows, bool), lambda rows: np.array(rows, float)]
)
def test_a_map_is_read_from_an_array(kind) -> None:
    rows = [[1, 1, 1, 1, 1], [1, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]]
    maze = Maze.of(kind(rows))
    assert maze.rows == tuple(row.replace("G", "O") for row in UMAZE.rows)
    assert maze.goal_cell.tolist() == [3, 3], "the last free cell, where none is marked"
    assert UMAZE.goal_cell.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("maze", "message"),
    [
        ("", "3 to 100 rows"),
        ("####\n#OO#", "3 to 100 rows"),
        (["#" * 101, "#" + "O" * 99 + "#", "#" * 101], "3 to 100 cells"),
        ("#####\n#OO#\n#####", r"all of equal length; got 3 rows of \[4, 5\]"),
        ("#####\n#OOO \n#####", r"all of equal length"),
        ("#####\n#OOOO\n#####", "outer cells .* walls"),
        ("##O##\n#OOO#\n#####", "outer cells .* walls"),
        ("#####\n#O#O#\n#####", "disconnected parts"),
        ("#####\n#OXO#\n#####", r"# \(wall\), O \(free\) and G \(goal\); got \['X'\]"),
        ("#####\n#GOG#\n#####", "at most one fixed goal"),
        ("###\n#O#\n###", "two free cells"),
        ("###\n###\n###", "two free cells"),
        (np.full((4, 5), 2), r"1 \(wall\) and 0 \(free\)"),
        (np.ones((3, 3, 3)), r"1 \(wall\) and 0 \(free\).*\(3, 3\)"),
        ([[1, 1, 1, 1], [1, 0, 0], [1, 1, 1, 1]], r"all of equal length; got 3 rows of \[3, 4\]"),
    ],
)
def test_what_is_no_maze_is_refused(maze, message: str) -> None:
    with pytest.raises(VhdError, match=message):
        Maze.of(maze)


def test_the_longest_way_is_counted_in_cells() -> None:
    assert Maze.of(["#######", "#OOOOO#", "#######"]).longest_way == 5
    assert UMAZE.longest_way == 7
    assert LARGE.longest_way > 15


# Mazes of one's own


def test_a_maze_has_what_the_others_have() -> None:
    shoe = make_maze(HORSESHOE, name="horseshoe")
    assert shoe.spec.T_max == 11 * 32, "from one end to the other it has eleven cells"
    assert shoe.spec.T_max % 8 == 0
    assert shoe.spec.epsilon == 0.05, "0.15 of 2.5 units would be more than ever"
    assert make_maze(LARGE, name="again").spec.epsilon == 0.03, "as the paper has it"
    assert shoe.horizons == (88, 176, 352)
    assert shoe.geometry.walls.shape == (5 * 7 - 11, 4)
    assert shoe.fixed_goal == (3.0, 4.0)
    assert not shoe.protocols, "D4RL has no reference scores for it"
    assert get_recipe("maze2d-large").planning.piece == get_recipe(shoe).planning.piece == 64, "long plans are composed"
    assert get_recipe(shoe, "paper").planning.piece == 0, "the paper's plans are in one piece"
    chosen = make_maze(HORSESHOE, name="horseshoe", epsilon=0.02, T_max=100, transitions=5000)
    assert (chosen.spec.epsilon, chosen.spec.T_max) == (0.02, 100)
    assert chosen.builder is not None
    assert chosen.builder.transitions == 5000
    with pytest.raises(VhdError, match="disconnected parts"):
        make_maze("#####\n#O#O#\n#####")


def test_its_ball_is_pushed_and_stopped_by_its_walls(rng: np.random.Generator) -> None:
    shoe = make_maze(HORSESHOE, name="horseshoe")
    env = shoe.make()
    assert env.spec == shoe.spec
    env.reset(Instance(np.array([1.0, 1.0, 0, 0]), np.array([3.0, 4.0]), 0))
    for _ in range(200):
        observation = env.step(np.array([0.0, 1.0]))
    assert observation[1] == pytest.approx(5.3 - BALL_RADIUS, abs=0.01), "along the first row, to the outer wall"
    assert observation[0] == pytest.approx(1.0, abs=1e-3)
    with pytest.raises(VhdError, match="inside a wall"):
        env.check(Instance(np.array([1.8, 2.8]), np.array([1.0, 1.0]), 0))
    for distribution in shoe.distributions:
        for _ in range(50):
            env.check(env.sample_instance(rng, distribution))


@pytest.mark.slow
def test_its_data_stays_in_free_space_reaches_every_cell_and_is_the_same_twice(tmp_path, monkeypatch) -> None:
    shoe = make_maze(HORSESHOE, name="horseshoe")
    assert shoe.builder is not None
    made = []
    for home, workers in (("one", 1), ("two", 2)):
        monkeypatch.setenv("VHD_HOME", str(tmp_path / home))
        small = replace(shoe.builder, chunk=4000)
        made.append(build(shoe.spec, small, BuildConfig(size=8000, workers=workers), lambda done, total: None))
    assert made[0].fingerprint() == made[1].fingerprint()
    states = made[0].episodes.observations
    assert made[0].episodes.transitions == 8000
    maze = Maze.of(HORSESHOE)
    # MuJoCo's contacts are soft: at full speed the ball presses in by up to half its radius.
    assert maze.clearance(states[:, :2]).min() > 0.4 * BALL_RADIUS
    cells = {tuple(cell) for cell in np.rint(states[:, :2] + 0.2).astype(int).tolist()}
    assert cells == {tuple(cell) for cell in maze.free_cells.tolist()}


@pytest.mark.slow
def test_its_simulators_run_in_worker_processes() -> None:
    shoe = make_maze(HORSESHOE, name="horseshoe")
    assert shoe.simulator is not None
    instances = [shoe.make().sample_instance(np.random.default_rng(number)) for number in range(4)]
    with Simulators(shoe.simulator, 4, 2) as simulators:
        first = simulators.reset(list(range(4)), instances)
    for number, instance in enumerate(instances):
        np.testing.assert_array_equal(first[number], shoe.make().reset(instance))


# Gymnasium


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_makes_and_checks_every_registered_environment(name: str) -> None:
    env = gymnasium.make(gym_id(get_environment(name)))
    check_env(env.unwrapped, skip_render_check=True)
    assert json.loads(env.spec.to_json())["kwargs"] == {"environment": name}
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_several_are_stepped_at_once(name: str) -> None:
    environment = get_environment(name)
    envs = gymnasium.make_vec(gym_id(environment), num_envs=2)
    observations, info = envs.reset(seed=3)
    assert observations.shape == (2, environment.spec.observation_dim)
    assert info["goal"].shape == (2, environment.spec.goal_dim)
    assert not np.array_equal(observations[0], observations[1])
    for _ in range(3):
        after, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
    assert after.shape == observations.shape
    assert not np.array_equal(after, observations)
    assert set(reward.tolist()) <= {0.0, 1.0}
    assert not terminated.any()
    assert not truncated.any()
    envs.close()


@pytest.mark.parametrize(
    ("name", "reset_cell", "goal_cell", "start", "goal"),
    [
        ("maze2d-umaze", (3, 1), (1, 3), [3.0, 1.0], [1.0, 3.0]),
        pytest.param("antmaze-medium", (3, 2), (1, 6), [4.0, 8.0], [20.0, 0.0], marks=pytest.mark.ogbench),
    ],
)
def test_cells_are_where_the_maze_has_them(name: str, reset_cell, goal_cell, start, goal) -> None:
    """The point's rows are x; the ant's rows are y, 4 m each, and cell (1, 1) is the origin."""
    env = gymnasium.make(gym_id(get_environment(name)))
    observation, info = env.reset(seed=0, options={"reset_cell": reset_cell, "goal_cell": goal_cell})
    np.testing.assert_allclose(observation[:2], start)
    np.testing.assert_allclose(info["goal"], goal)
    with pytest.raises(VhdError, match=r"cell \(0, 0\) is a wall or outside the maze"):
        env.reset(options={"reset_cell": (0, 0)})
    env.close()


def test_a_start_or_goal_is_given_once_and_where_there_is_room() -> None:
    env = gymnasium.make("vhdiffuser/Maze2d-large-v1")
    observation, info = env.reset(seed=0, options={"start": [1.0, 1.0, 0.5, 0.0], "goal_cell": (7, 10)})
    np.testing.assert_allclose(observation, [1.0, 1.0, 0.5, 0.0])
    np.testing.assert_allclose(info["goal"], [7.0, 10.0])
    for options, message in (
        ({"start": [1, 1], "reset_cell": (1, 1)}, "`start` or `reset_cell`, not both"),
        ({"goal": [1, 1], "goal_cell": (1, 1)}, "`goal` or `goal_cell`, not both"),
        ({"goal_cell": (0, 0)}, r"cell \(0, 0\) is a wall or outside the maze; \(1, 1\), for example, is free"),
        ({"reset_cell": (99, 1)}, "outside the maze"),
        ({"reset_cell": (-2, 1)}, "outside the maze"),
        ({"reset_cell": 3}, r"`reset_cell` must be a row and a column"),
        ({"goal": [1.8, 1.8]}, "inside a wall"),
        ({"start": [1, 1, 1]}, "start needs 2 or 4 numbers"),
        ({"goal": ["here", "there"]}, "`goal`"),
        ({"target": [1, 1]}, r"start, goal, reset_cell and goal_cell; got \['target'\]"),
    ):
        with pytest.raises(VhdError, match=message):
            env.reset(options=options)
    with pytest.raises(VhdError, match="unknown render_mode 'human'"):
        env.unwrapped.__class__(get_environment("maze2d-large"), render_mode="human")


@pytest.mark.ogbench
def test_where_there_are_no_cells_that_is_said() -> None:
    env = gymnasium.make("vhdiffuser/Cube-v1")
    with pytest.raises(VhdError, match="cube has no cells: pass `goal`"):
        env.reset(options={"goal_cell": (1, 1)})
    env.close()


def test_goals_are_the_maze_s_own_or_drawn() -> None:
    own, drawn = (gymnasium.make("vhdiffuser/Maze2d-medium-v1", random_goal=choice) for choice in (False, True))
    own_goals, drawn_goals = ({tuple(env.reset(seed=seed)[1]["goal"]) for seed in range(5)} for env in (own, drawn))
    assert own_goals == {(6.0, 6.0)}
    assert len(drawn_goals) == 5


def test_a_task_rewards_within_epsilon_where_no_radius_is_given() -> None:
    register(ENVIRONMENT)
    env = gymnasium.make("vhdiffuser/Toy-v1")
    env.reset(seed=0, options={"start": [0.5, 0.5], "goal": [0.5, 0.62]})
    near = [env.step(np.array([0.0, push]))[1] for push in (0.05, 0.05, 0.05, 0.1)]
    assert near == [0.0, 1.0, 1.0, 0.0], "0.07, 0.02, 0.03 and 0.13 from the goal; epsilon is 0.05"
    assert env.spec.max_episode_steps == ENVIRONMENT.step_budget


def test_the_ant_s_map_has_26_free_cells() -> None:
    assert sum(row.count("O") for row in ANT_MAP) == 26
    walls = get_environment("antmaze-medium").geometry.walls
    assert walls.shape == (64 - 26, 4)
    assert (walls[:, 1] - walls[:, 0] == 4).all()
