"""The arm behind the planning interface is OGBench's arm, and really stands at the start."""

import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")


from dataclasses import replace

import gymnasium
import numpy as np
import ogbench.manipspace  # noqa: F401  (registers the environments)

from vhdiffuser.envs.cube.simulator import REACHABLE, SAMPLED, START_TOLERANCE, CubeEnv, _cube_aside
from vhdiffuser.envs.cube.workspace import WORKSPACE, to_metres, to_units
from vhdiffuser.envs.registry import get_spec
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.types import Instance


@pytest.fixture(scope="module")
def env() -> CubeEnv:
    return CubeEnv(get_spec("cube"))


def test_physics_are_ogbenchs_to_the_bit(env):
    theirs = gymnasium.make("cube-single-v0", mode="data_collection", terminate_at_goal=False)
    first, _ = theirs.reset(seed=3)
    ours, _ = env.physics.reset(seed=3)
    np.testing.assert_array_equal(ours, first)
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = rng.uniform(-1, 1, 5)
        np.testing.assert_array_equal(env.step(action), theirs.step(action)[0].astype(np.float32))
    np.testing.assert_array_equal(theirs.unwrapped._workspace_bounds, WORKSPACE)


def test_a_whole_observation_sets_joints_and_their_velocities(env):
    rng = np.random.default_rng(7)
    instance = env.sample_instance(rng)
    env.reset(instance)
    moving = [env.step(np.array([0.3, -0.2, 0.1, 0.0, 0.0])) for _ in range(4)][-1]
    first = env.reset(replace(instance, start=moving))
    np.testing.assert_allclose(first[:12], moving[:12], atol=1e-6)
    assert np.abs(moving[6:12]).max() > 0.05, "it moves"
    np.testing.assert_allclose(first[12:15], moving[12:15], atol=0.05)
    broken = moving.copy()
    broken[0] += 0.5
    with pytest.raises(VhdError, match="joint angles .* effector"):
        env.reset(replace(instance, start=broken))


def test_start_is_really_reached_and_at_rest(env):
    rng = np.random.default_rng(1)
    for distribution in ("reset", "uniform"):
        for _ in range(100):
            instance = env.sample_instance(rng, distribution)
            observation = env.reset(instance)
            assert np.abs(observation[12:15] - instance.start).max() <= START_TOLERANCE
            assert not observation[6:12].any()
            depth = min((contact.dist for contact in env.physics.data.contact), default=0.0)
            assert depth > -0.002, "the arm starts inside the table, itself or the cube"


def test_every_goal_can_be_reached(env):
    """A proportional-integral law in the effector's space comes within 1 mm: the arm can get there."""
    rng = np.random.default_rng(2)
    for number in range(12):
        instance = env.sample_instance(rng, "uniform" if number % 2 else "reset")
        observation, bias, nearest = env.reset(instance), np.zeros(3), np.inf
        for _ in range(120):
            error = (instance.goal - observation[12:15]) / 10
            if np.abs(error).max() < 0.02:
                bias += 0.3 * error
            observation = env.step(np.concatenate([(error + bias) / 0.05, [0.0, 0.0]]))
            nearest = min(nearest, float(np.abs(error).max()))
            if nearest < 1e-3:
                break
        assert nearest < 1e-3, f"{to_metres(instance.goal)} missed by {1000 * nearest:.1f} mm"


def test_same_instance_gives_the_same_bytes_whatever_the_global_state(env):
    instance = env.sample_instance(np.random.default_rng(3))
    actions = np.random.default_rng(4).uniform(-1, 1, (10, 5))

    def roll() -> bytes:
        return np.stack([env.reset(instance), *[env.step(action) for action in actions]]).tobytes()

    first = roll()
    np.random.seed(99)  # noqa: NPY002
    env.reset(env.sample_instance(np.random.default_rng(5)))
    env.step(np.ones(5))
    assert roll() == first
    assert env.reset(replace(instance, seed=instance.seed + 1)).tobytes() != env.reset(instance).tobytes()


@pytest.mark.parametrize(("distribution", "box"), [("reset", SAMPLED), ("uniform", REACHABLE)])
def test_samples_fill_their_box(env, distribution, box):
    rng = np.random.default_rng(6)
    instances = [env.sample_instance(rng, distribution) for _ in range(300)]
    points = to_metres(np.concatenate([[i.start for i in instances], [i.goal for i in instances]]))
    assert (points >= box[0] - 1e-6).all()
    assert (points <= box[1] + 1e-6).all()
    np.testing.assert_allclose(points.mean(axis=0), box.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(np.ptp(points, axis=0), box[1] - box[0], rtol=0.05)
    assert (box[0] > WORKSPACE[0]).all()
    assert (box[1] < WORKSPACE[1]).all()
    for instance in instances[:20]:
        env.check(instance)


def test_cube_never_lies_near_the_straight_way():
    rng = np.random.default_rng(7)
    for start, goal in rng.uniform(WORKSPACE[0][:2], WORKSPACE[1][:2], (2000, 2, 2)):
        way = np.linspace(start, goal, 50)
        assert np.linalg.norm(way - _cube_aside(start, goal), axis=1).min() > 0.11


def test_units_round_trip_and_known_values():
    np.testing.assert_allclose(to_units(np.array([0.425, 0.0, 0.0])), 0.0)
    np.testing.assert_allclose(to_units(np.array([0.525, -0.1, 0.2])), [1.0, -1.0, 2.0])
    points = np.random.default_rng(8).uniform(-1, 1, (10, 3))
    np.testing.assert_allclose(to_metres(to_units(points)), points)


def test_action_moves_the_effector_the_way_it_says(env):
    start = to_units(np.array([0.42, 0.0, 0.2]))
    for axis in range(3):
        observation = env.reset(Instance(start, start, 0))
        action = np.zeros(5)
        action[axis] = 1.0
        moved = np.zeros(3)
        for _ in range(3):
            after = env.step(action)
            moved += after[12:15] - observation[12:15]
            observation = after
        assert int(np.abs(moved).argmax()) == axis
        assert moved[axis] > 0.3


@pytest.mark.parametrize(
    ("start", "goal", "message"),
    [
        ([0.0, 0.0], [0.0, 0.0, 1.0], "start needs 3 or 28 numbers"),
        ([0.0, 0.0, 1.0], [[0.0, 0.0, 1.0]], "needs 3 numbers"),
        ([0.0, np.nan, 1.0], [0.0, 0.0, 1.0], "NaN"),
        ([0.0, 0.0, 1.0], [0.0, 0.0, 9.0], "goal .* outside the workspace"),
        ([9.0, 0.0, 1.0], [0.0, 0.0, 1.0], "start .* outside the workspace"),
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


def test_larger_planning_state_keeps_the_effector_only(env):
    spec = replace(
        env.spec,
        state_dims=(*range(6), 12, 13, 14),
        state_names=("q0", "q1", "q2", "q3", "q4", "q5", "x", "y", "z"),
        goal_dims=(6, 7, 8),
    )
    plain, env.spec = env.spec, spec
    try:
        instance = env.sample_instance(np.random.default_rng(9))
        assert instance.start.shape == (9,)
        assert np.abs(env.reset(instance)[12:15] - instance.start[6:]).max() <= START_TOLERANCE
    finally:
        env.spec = plain


@pytest.mark.slow
def test_render_draws_the_arm_and_its_goal(env):
    here = to_units(np.array([0.42, 0.1, 0.2]))
    env.reset(Instance(here, to_units(np.array([0.42, -0.2, 0.2])), 0))
    try:
        picture = env.render(96, 64)
    except VhdError as error:
        pytest.skip(str(error))
    assert picture.shape == (64, 96, 3)
    assert picture.std() > 10
    env.reset(Instance(here, to_units(np.array([0.42, 0.3, 0.2])), 0))
    assert (env.render(96, 64) != picture).any(), "the goal's mark has not moved"
