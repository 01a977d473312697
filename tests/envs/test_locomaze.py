"""OGBench's point and ant mazes are OGBench's: maps, tasks, tolerances, sizes, and the recipe of each kind of data."""

import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")


import gymnasium
import numpy as np
import ogbench.locomaze  # noqa: F401  (registers the environments)

from vhdiffuser.envs.gym_ids import gym_id
from vhdiffuser.envs.locomaze.building import build_chunks
from vhdiffuser.envs.locomaze.datasets import DataRecipe, data_recipe
from vhdiffuser.envs.locomaze.maze import MAZES, cell_centre, cell_of, map_of
from vhdiffuser.envs.locomaze.oracle import cells_at, free_cells, steps_to, subgoal_table, vertex_cells
from vhdiffuser.envs.pointmaze.building import follow
from vhdiffuser.envs.pointmaze.simulator import PointPhysics
from vhdiffuser.envs.registry import environments, get_environment

POINT = [f"pointmaze-{maze}-{kind}" for kind in ("navigate", "stitch") for maze in MAZES]
ANT = [f"antmaze-{maze}-{kind}" for kind in ("navigate", "stitch") for maze in MAZES]
ANT += ["antmaze-medium-explore", "antmaze-large-explore"]
NAMES = [*POINT, *ANT]


def ogbench_env(body: str, maze: str) -> gymnasium.Env:
    return gymnasium.make(f"{body}maze-{maze}-v0", terminate_at_goal=False)


def recipe_of(name: str) -> DataRecipe:
    return get_environment(name).builder.make.args[0]


@pytest.fixture(scope="module", params=MAZES)
def point(request) -> PointPhysics:
    return PointPhysics(request.param)


# The datasets


def test_every_dataset_is_registered_by_ogbenchs_name() -> None:
    assert list(environments())[5:] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_is_ogbenchs(name: str) -> None:
    """Map, five tasks, tolerance and steps of an evaluation, as the package has them."""
    environment = get_environment(name)
    body, maze = name.split("maze-")[0], name.split("-")[1]
    theirs = ogbench_env(body, maze)
    env = environment.make()
    np.testing.assert_array_equal(map_of(MAZES[maze]), theirs.unwrapped.maze_map)
    np.testing.assert_array_equal(env.maze_map, theirs.unwrapped.maze_map)
    np.testing.assert_array_equal(environment.geometry.walls, env.walls)
    assert environment.spec.observation_dim == theirs.observation_space.shape[0]
    assert environment.spec.action_dim == theirs.action_space.shape[0]
    assert environment.spec.control_dt == pytest.approx(theirs.unwrapped.dt)
    tasks = env.ogbench_tasks(np.random.default_rng(0))
    cells = [(info["init_ij"], info["goal_ij"]) for info in theirs.unwrapped.task_infos]
    assert [(cell_of(task.start), cell_of(task.goal)) for task in tasks] == cells
    tolerance = theirs.unwrapped._goal_tol
    assert environment.goal_radius == tolerance == recipe_of(name).tolerance
    protocol = environment.protocols["ogbench"]
    assert protocol.tasks == len(cells)
    assert protocol.rule(0.1, 10).budget == theirs.spec.max_episode_steps == environment.episode_steps
    off = np.array([[0.0, tolerance - 1e-6], [0.0, tolerance + 1e-6]])
    assert protocol.hit(off, np.zeros((2, 2))).tolist() == [True, False]
    assert gymnasium.spec(gym_id(environment)).max_episode_steps == 1000


@pytest.mark.parametrize(
    ("name", "states", "episodes", "noise"),
    [
        ("pointmaze-medium-navigate", 1001, 1000, 0.5),
        ("pointmaze-giant-navigate", 2001, 500, 0.5),
        ("pointmaze-giant-stitch", 201, 5000, 0.5),
        ("antmaze-large-navigate", 1001, 1000, 0.2),
        ("antmaze-giant-navigate", 2001, 500, 0.2),
        ("antmaze-giant-stitch", 201, 5000, 0.2),
        ("antmaze-large-explore", 501, 10_000, 1.0),
    ],
)
def test_sizes_and_noise_are_those_of_ogbenchs_commands(name: str, states: int, episodes: int, noise: float) -> None:
    environment, recipe = get_environment(name), recipe_of(name)
    assert (recipe.episode + 1, recipe.episodes, recipe.noise) == (states, episodes, noise)
    assert environment.builder.transitions == (states - 1) * episodes
    assert environment.builder.chunk % recipe.episode == 0
    assert environment.official.files == (f"{name}-v0.npz", f"{name}-v0-val.npz")


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_fits_into_an_episode_and_its_tolerance_into_ogbenchs(name: str) -> None:
    environment, recipe = get_environment(name), recipe_of(name)
    assert environment.spec.T_max <= recipe.episode
    walls = environment.geometry.walls
    half_width = (np.ptp(walls[:, :2]) - 8) / 2  # of the free cells, in x; mazes are at least as wide as high
    assert environment.spec.epsilon * half_width == pytest.approx(recipe.tolerance, rel=0.03)


def test_the_papers_ant_and_its_sibling_are_made_of_the_same_data() -> None:
    assert recipe_of("antmaze-medium") == recipe_of("antmaze-medium-navigate")
    assert get_environment("antmaze-medium").official == get_environment("antmaze-medium-navigate").official
    spec = get_environment("antmaze-medium").spec
    assert (spec.T_max, spec.epsilon, spec.L_min) == (640, 0.05, 16)


# The oracle


@pytest.mark.parametrize("maze", MAZES)
def test_subgoals_are_ogbenchs(maze: str) -> None:
    theirs, table = ogbench_env("point", maze).unwrapped, subgoal_table(map_of(MAZES[maze]))
    rows, columns = map_of(MAZES[maze]).shape
    rng = np.random.default_rng(6)
    for start, goal in rng.uniform(-2, [4 * columns - 6, 4 * rows - 6], (200, 2, 2)):
        subgoal, _ = theirs.get_oracle_subgoal(start, goal)
        np.testing.assert_array_equal(table[cell_of(goal)][cell_of(start)], subgoal)


@pytest.mark.parametrize("maze", MAZES)
def test_following_subgoals_reaches_every_goal(maze: str) -> None:
    maze_map = map_of(MAZES[maze])
    table, free = subgoal_table(maze_map), [tuple(cell) for cell in free_cells(maze_map)]
    for goal in free:
        steps = steps_to(goal, maze_map)
        for here in free:
            following = cell_of(table[goal][here])
            assert steps[following] == max(steps[here] - 1, 0)


def test_vertex_cells_leave_out_straight_corridors() -> None:
    corridor = np.ones((5, 5), int)
    corridor[1:4, 2] = 0
    assert vertex_cells(corridor).tolist() == [[1, 2], [3, 2]]
    vertices = {tuple(cell) for cell in vertex_cells(map_of(MAZES["medium"])).tolist()}
    assert (5, 6) not in vertices, "between (4, 6) and (6, 6), walls on both sides"
    assert (6, 6) in vertices, "a corner"


def test_cells_at_a_distance_by_hand() -> None:
    medium = map_of(MAZES["medium"])
    # From (1, 1) the only way leads through (2, 2) and (3, 2), where it forks.
    assert cells_at((1, 1), 3, medium).tolist() == [[3, 2]]
    assert cells_at((1, 1), 4, medium).tolist() == [[3, 3], [4, 2]]
    assert cells_at((1, 1), 99, medium).tolist() == [[1, 1]], "where there are none, the start itself"


# The recipe of each kind


class Recorder:
    """A policy that notes the directions it is given."""

    def __init__(self) -> None:
        self.directions: list[np.ndarray] = []

    def __call__(self, rest, direction):
        self.directions += list(direction)
        return direction


def record(physics: PointPhysics, recipe: DataRecipe, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    recorder = Recorder()
    (((states, actions),),) = build_chunks(recipe, physics, recorder, [(recipe.episode, np.random.default_rng(seed))])
    return states.astype(np.float64), actions, np.array(recorder.directions)


def agree(states, directions, goal: tuple[int, int], table) -> np.ndarray:
    """(T,) whether the direction at each step leads to the next cell on the way to a goal."""
    ways = np.array([table[goal][cell_of(xy)] - xy for xy in states[:-1]])
    ways /= np.linalg.norm(ways, axis=1, keepdims=True) + 1e-6
    return np.abs(ways - directions).max(axis=1) < 1e-3


def maze_of(physics: PointPhysics) -> str:
    return next(maze for maze in MAZES if map_of(MAZES[maze]).shape == physics.maze_map.shape)


@pytest.mark.parametrize("seed", range(3))
def test_stitch_goes_to_one_goal_four_cells_away_and_stays(point: PointPhysics, seed: int) -> None:
    table = subgoal_table(point.maze_map)
    states, _, directions = record(point, data_recipe(maze_of(point), "stitch", 0.5, 1.0), seed)
    start = cell_of(states[0])
    goal = cell_of(states[-1])
    assert agree(states, directions, goal, table).all()
    assert steps_to(start, point.maze_map)[goal] == 4
    assert np.abs(states[0] - cell_centre(start)).max() <= 1
    assert np.linalg.norm(states[150:] - cell_centre(goal), axis=1).max() < 2


def test_navigate_goes_from_vertex_to_vertex_and_draws_anew_where_it_arrives(point: PointPhysics) -> None:
    table = subgoal_table(point.maze_map)
    recipe = data_recipe(maze_of(point), "navigate", 0.5, 1.0)
    states, _, directions = record(point, recipe, 0)
    vertices = [tuple(cell) for cell in vertex_cells(point.maze_map)]
    fits = {goal: agree(states, directions, goal, table) for goal in vertices}
    begin, goals = 0, 0
    while begin < recipe.episode:
        # The goal of a stretch is the one that explains its directions longest.
        lasts = {goal: int(np.argmin(np.append(fit[begin:], False))) for goal, fit in fits.items()}
        goal = max(lasts, key=lasts.get)
        assert lasts[goal] > 0, f"no vertex explains the direction at step {begin}"
        begin += lasts[goal]
        if begin < recipe.episode:
            assert np.abs(states[begin] - cell_centre(goal)).max() <= 1 + recipe.tolerance + 1e-3
        goals += 1
    assert goals >= 4


def test_explore_keeps_a_random_direction_for_ten_steps(point: PointPhysics) -> None:
    _, actions, directions = record(point, data_recipe(maze_of(point), "explore", 1.0, 1.0), 0)
    blocks = directions.reshape(-1, 10, 2)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-4)
    assert (blocks == blocks[:, :1]).all()
    assert len(np.unique(blocks[:, 0], axis=0)) == 50
    assert np.abs(blocks[:, 0].mean(axis=0)).max() < 0.35, "from all around"
    noise = actions - directions
    inside = np.abs(actions) < 1
    assert 0.3 < 1 - inside.mean() < 0.6, "noise of 1 clips about half of the actions"
    assert noise[inside].std() > 0.6


def test_noise_is_put_on_the_action_and_the_sum_is_clipped(point: PointPhysics) -> None:
    recipe = data_recipe(maze_of(point), "navigate", 0.2, 1.0)
    (((_, actions),),) = build_chunks(
        recipe, point, lambda rest, way: 0.1 * np.ones((1, 2)), [(500, np.random.default_rng(0))]
    )
    assert actions.mean() == pytest.approx(0.1, abs=0.02)
    assert actions.std() == pytest.approx(0.2, abs=0.02)
    assert actions.dtype == np.float32


def test_starts_cover_the_maze(point: PointPhysics) -> None:
    recipe = DataRecipe(maze_of(point), "stitch", 1, 1, 0.5, 1.0)
    (parts,) = build_chunks(recipe, point, follow, [(800, np.random.default_rng(1))])
    cells = {cell_of(states[0]) for states, _ in parts}
    assert cells == {tuple(cell) for cell in free_cells(point.maze_map).tolist()}


def test_point_data_is_what_ogbenchs_environment_makes_of_its_actions(point: PointPhysics) -> None:
    """To the bit, walls touched or not."""
    maze = maze_of(point)
    theirs = ogbench_env("point", maze).unwrapped
    recipe = DataRecipe(maze, "explore", 1500, 1, 1.0, 1.0)
    (((states, actions),),) = build_chunks(recipe, point, follow, [(1500, np.random.default_rng(2))])
    theirs.reset(seed=0)
    rng = np.random.default_rng(2)
    start = cell_centre(rng.choice(free_cells(point.maze_map))) + rng.uniform(-1, 1, 2)
    theirs.set_xy(start)
    for t in range(1500):
        observation, *_ = theirs.step(actions[t])
        np.testing.assert_array_equal(states[t + 1], observation.astype(np.float32))


def test_touched_walls_push_the_point_as_in_ogbench(point: PointPhysics) -> None:
    theirs = ogbench_env("point", maze_of(point)).unwrapped
    theirs.reset(seed=0)
    rng = np.random.default_rng(3)
    theirs.set_xy(np.zeros(2))
    point.restore(np.zeros(2))
    touched = 0
    for push in rng.choice([-1.0, 0.0, 1.0], (40, 2)).repeat(30, axis=0):
        observation, *_ = theirs.step(push)
        before = point.observation()
        point.step(push)
        np.testing.assert_array_equal(point.observation(), observation)
        touched += not np.allclose(point.observation(), before + 0.2 * push)
    assert touched > 100
