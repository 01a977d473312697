"""The ant behind the planning interface is OGBench's ant, and an instance fixes its episode."""

import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")


from dataclasses import replace

import gymnasium
import numpy as np
import ogbench.locomaze  # noqa: F401  (registers the environments)

from vhdiffuser.envs import offscreen
from vhdiffuser.envs.antmaze.simulator import AntMazeEnv
from vhdiffuser.envs.locomaze.maze import CLEARANCE, NOISE, cell_centre, cell_of
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import Instance


@pytest.fixture(scope="module")
def env() -> AntMazeEnv:
    return AntMazeEnv(get_spec("antmaze-medium"))


@pytest.fixture(scope="module")
def ogbench_env() -> gymnasium.Env:
    return gymnasium.make("antmaze-medium-v0", terminate_at_goal=False)


def test_physics_are_ogbenchs_to_the_bit(env, ogbench_env):
    instance = env.sample_instance(np.random.default_rng(0))
    ogbench_env.reset(seed=instance.seed)
    ogbench_env.unwrapped.set_xy(instance.start)
    first = env.reset(instance)
    np.testing.assert_array_equal(first, ogbench_env.unwrapped.get_ob().astype(np.float32))
    rng = np.random.default_rng(1)
    for _ in range(50):
        action = rng.uniform(-1, 1, 8).astype(np.float32)
        env.step(action)
        theirs, *_ = ogbench_env.step(action)
        np.testing.assert_array_equal(env.physics.observation(), theirs)


def test_same_instance_gives_the_same_bytes_whatever_the_global_state(env):
    instance = env.sample_instance(np.random.default_rng(2))
    actions = np.random.default_rng(3).uniform(-1, 1, (20, 8))

    def roll() -> bytes:
        return np.stack([env.reset(instance), *[env.step(action) for action in actions]]).tobytes()

    first = roll()
    np.random.seed(99)  # noqa: NPY002
    assert roll() == first
    env.reset(replace(instance, seed=instance.seed + 1))
    assert roll() == first


def test_a_whole_observation_sets_the_whole_body(env):
    rng = np.random.default_rng(5)
    env.reset(env.sample_instance(rng))
    moving = [env.step(rng.uniform(-1, 1, 8)) for _ in range(10)][-1]
    goal = np.array([4.0, 0.0])
    first = env.reset(Instance(moving, goal, seed=0))
    np.testing.assert_array_equal(first, moving)
    np.testing.assert_array_equal(env.reset(Instance(moving, goal, seed=1)), moving)
    position_only = env.reset(Instance(moving[:2], goal, seed=0))
    np.testing.assert_array_equal(position_only[:2], moving[:2])
    assert np.abs(position_only[2:] - moving[2:]).max() > 0.1


def test_a_planning_state_of_the_whole_observation_is_none(env):
    """Where the planning state has as many numbers as the observation, the body comes from the seed as ever."""
    dims = tuple(range(29))
    whole = AntMazeEnv(replace(env.spec, state_dims=dims, state_names=tuple(map(str, dims))))
    instance = whole.sample_instance(np.random.default_rng(6))
    assert len(instance.start) == 29
    np.testing.assert_array_equal(whole.reset(instance), env.reset(replace(instance, start=instance.start[:2])))


def test_seed_changes_the_body_and_not_the_position(env):
    instance = env.sample_instance(np.random.default_rng(4))
    one, other = env.reset(instance), env.reset(replace(instance, seed=instance.seed + 1))
    np.testing.assert_array_equal(one[:2], instance.start)
    np.testing.assert_array_equal(other[:2], instance.start)
    assert np.abs(one[2:] - other[2:]).max() > 1e-3


@pytest.mark.parametrize("distribution", ["reset", "uniform"])
def test_samples_lie_in_free_space_and_differ(env, distribution):
    rng = np.random.default_rng(5)
    instances = [env.sample_instance(rng, distribution) for _ in range(200)]
    points = np.concatenate([[i.start for i in instances], [i.goal for i in instances]])
    assert env.clearance(points).min() >= CLEARANCE - 1e-5
    assert all(env.maze_map[cell_of(point)] == 0 for point in points)
    assert len({cell_of(point) for point in points}) == (env.maze_map == 0).sum()
    for instance in instances:
        env.check(instance)
    if distribution == "reset":
        centres = np.array([cell_centre(cell_of(point)) for point in points])
        assert np.abs(points - centres).max() <= NOISE + 1e-5
        assert np.abs(points - centres).max() > 0.95 * NOISE


def test_samples_come_from_the_generator_alone(env):
    one, other = (env.sample_instance(np.random.default_rng(6)) for _ in range(2))
    assert one.seed == other.seed
    np.testing.assert_array_equal(one.start, other.start)
    np.testing.assert_array_equal(one.goal, other.goal)


def test_ogbench_tasks_are_ogbenchs(env, ogbench_env):
    tasks = env.ogbench_tasks(np.random.default_rng(7))
    theirs = ogbench_env.unwrapped.task_infos
    assert len(tasks) == len(theirs) == 5
    for task, info in zip(tasks, theirs, strict=True):
        assert cell_of(task.start) == info["init_ij"]
        assert cell_of(task.goal) == info["goal_ij"]
        np.testing.assert_array_equal(cell_centre(info["init_ij"]), info["init_xy"])
        env.check(task)


def test_walls_are_the_boxes_of_the_simulation(env):
    model = env.physics.model
    boxes = []
    for number in range(model.ngeom):
        if model.geom(number).name.startswith("block"):
            (x, y, _), (half_x, half_y, _) = model.geom_pos[number], model.geom_size[number]
            boxes.append((x - half_x, x + half_x, y - half_y, y + half_y))
    assert sorted(map(tuple, env.walls.tolist())) == sorted(boxes)
    # And the environment's own, which need no simulator.
    np.testing.assert_array_equal(get_environment("antmaze-medium").geometry.walls, env.walls)


def test_clearance_of_known_points(env):
    points = np.array([[0.0, 0.0], [-1.0, 0.0], [-2.5, 0.0], [100.0, 0.0], [-100.0, -100.0]])
    np.testing.assert_allclose(env.clearance(points), [2.0, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("start", "goal", "message"),
    [
        ([0.0, 0.0, 0.0], [4.0, 0.0], "start needs 2 or 29 numbers"),
        ([0.0] * 29, [4.0, 0.0], "unit quaternion, but its norm is 0.00"),
        ([-4.0, 0.0, 0.7, 1.0, *[0.0] * 25], [4.0, 0.0], "start .* in a wall"),
        ([0.0, 0.0], [[4.0, 0.0]], "needs 2 numbers"),
        ([0.0, np.nan], [4.0, 0.0], "NaN"),
        ([0.0, 0.0], [np.inf, 0.0], "NaN or infinity"),
        ([-4.0, 0.0], [4.0, 0.0], r"start .* in a wall.* \(0, 0\)"),
        ([0.0, 0.0], [5.9, 0.0], r"goal .* than the body can come \(0.25 m\)"),
        ([0.0, 0.0], [60.0, 0.0], "outside the maze"),
    ],
)
def test_bad_instances_are_refused_with_advice(env, start, goal, message):
    instance = Instance(np.array(start), np.array(goal), 0)
    with pytest.raises(VhdError, match=message):
        env.check(instance)
    with pytest.raises(VhdError, match=message):
        env.reset(instance)


def test_unknown_distribution_is_refused(env):
    with pytest.raises(UnknownNameError, match="reset, uniform"):
        env.sample_instance(np.random.default_rng(0), "gaussian")


def test_larger_planning_state_keeps_the_position_only(env):
    spec = replace(env.spec, state_dims=(0, 1, 15, 16), state_names=("x", "y", "vx", "vy"), velocity_dims=(2, 3))
    wide = AntMazeEnv(spec)
    instance = wide.sample_instance(np.random.default_rng(8))
    assert instance.start.shape == (4,)
    np.testing.assert_array_equal(wide.reset(instance)[:2], instance.start[:2])


def test_actions_beyond_the_limits_are_clipped(env):
    instance = env.sample_instance(np.random.default_rng(9))
    env.reset(instance)
    one = env.step(np.full(8, 7.0))
    env.reset(instance)
    np.testing.assert_array_equal(env.step(np.ones(8)), one)


@pytest.mark.slow
def test_render_shows_the_goal_where_it_is(env):
    """From above, x to the right and y upwards: the first task's goal is the corner top right."""
    env.reset(env.ogbench_tasks(np.random.default_rng(0))[0])
    try:
        picture = env.render(96, 96).astype(int)
    except VhdError as error:
        pytest.skip(str(error))
    assert picture.shape == (96, 96, 3)
    red = (picture[..., 0] > 130) & (picture[..., 0] > picture[..., 1] + 60) & (picture[..., 0] > picture[..., 2] + 40)
    rows, columns = np.nonzero(red)
    assert len(rows) > 0
    assert rows.max() < 24
    assert columns.min() > 72


def test_render_without_graphics_says_what_to_install(env, monkeypatch):
    def fail(name: str) -> None:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(offscreen, "import_module", fail)
    with pytest.raises(VhdError, match=r"apt install libegl1"):
        env.render(50, 50)
