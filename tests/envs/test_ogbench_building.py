"""Regenerated antmaze and cube data: exact counts, same seed same bytes, and OGBench's rules."""

import pytest

pytest.importorskip("ogbench", reason="needs the extra 'ogbench'")


from dataclasses import replace

import gymnasium
import numpy as np
import ogbench.manipspace  # noqa: F401  (registers the environments)
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle

from vhdiffuser.data.build import Parts
from vhdiffuser.envs.antmaze.building import chunks_maker
from vhdiffuser.envs.antmaze.simulator import AntMazeEnv
from vhdiffuser.envs.antmaze.walker import PROPRIOCEPTION, Walker
from vhdiffuser.envs.cube import building as build_cube
from vhdiffuser.envs.cube.workspace import WORKSPACE, to_metres
from vhdiffuser.envs.locomaze.datasets import data_recipe
from vhdiffuser.envs.registry import get_environment, get_spec

RECIPE = data_recipe("medium", "navigate", noise=0.2, tolerance=0.5)


@pytest.fixture(scope="module")
def walker() -> Walker:
    """A stand-in that pushes at random: these tests are of the builder, not of the shipped walker."""
    rng = np.random.default_rng(0)
    return Walker(((rng.normal(0, 0.3, (PROPRIOCEPTION + 2, 8)).astype(np.float32), np.zeros(8, np.float32)),))


@pytest.fixture(scope="module")
def env() -> AntMazeEnv:
    return AntMazeEnv(get_spec("antmaze-medium"))


def ant_chunk(transitions: int, seed: int, walker: Walker) -> Parts:
    (parts,) = chunks_maker(RECIPE, walker)([(transitions, np.random.default_rng(seed))])
    return parts


def test_ant_chunk_has_the_asked_transitions(walker):
    parts = ant_chunk(1130, 0, walker)
    assert [(len(states), len(actions)) for states, actions in parts] == [(1001, 1000), (131, 130)]
    for states, actions in parts:
        assert states.dtype == actions.dtype == np.float32
        assert states.shape[1] == 29
        assert actions.shape[1] == 8
    assert get_environment("antmaze-medium").builder.chunk % RECIPE.episode == 0


def test_ant_chunk_is_a_function_of_its_generator(walker):
    def chunk(seed: int) -> bytes:
        parts = ant_chunk(60, seed, walker)
        return b"".join(array.tobytes() for part in parts for array in part)

    first = chunk(1)
    np.random.seed(5)  # noqa: NPY002
    assert chunk(2) != first
    assert chunk(1) == first


@pytest.mark.parametrize("kind", ["navigate", "stitch", "explore"])
def test_a_chunk_is_the_same_alone_and_among_others_of_any_length(walker, kind):
    recipe = replace(RECIPE, kind=kind, episode=25)
    sizes = (60, 25, 90)

    def chunks(numbers: tuple[int, ...]) -> list[bytes]:
        made = chunks_maker(recipe, walker)([(sizes[i], np.random.default_rng(i)) for i in numbers])
        return [b"".join(array.tobytes() for part in parts for array in part) for parts in made]

    together = chunks((0, 1, 2))
    assert together == [*chunks((0,)), *chunks((1,)), *chunks((2,))]
    assert len(set(together)) == 3


def test_ant_states_follow_from_their_actions(walker, env):
    """Stored actions, replayed from the stored start by the environment, give the stored states."""
    ((states, actions),) = ant_chunk(40, 3, walker)
    env.physics.reset(states[0, :2], np.random.default_rng(0))
    env.physics.position[:], env.physics.velocity[:] = states[0, :15], states[0, 15:]
    for t in range(5):
        env.physics.step(actions[t])
        np.testing.assert_allclose(env.physics.observation(), states[t + 1], atol=2e-3)


def test_ant_moves_without_jumps_and_stays_out_of_walls(walker, env):
    parts = ant_chunk(1000, 4, walker)
    for states, actions in parts:
        assert np.abs(np.diff(states[:, :2], axis=0)).max() < 1.0
        assert env.clearance(states[:, :2]).min() > 0.0
        assert np.abs(actions).max() <= 1.0
        np.testing.assert_allclose(np.linalg.norm(states[:, 3:7], axis=1)[1:], 1.0, atol=1e-4)


def test_ant_actions_are_the_walkers_with_noise(env):
    """A walker that always says 0.1 leaves N(0.1, 0.2): nothing is clipped, so the moments are known."""
    still = Walker(((np.zeros((PROPRIOCEPTION + 2, 8), np.float32), np.full(8, np.arctanh(0.1), np.float32)),))
    ((_, actions),) = ant_chunk(1000, 5, still)
    assert actions.mean() == pytest.approx(0.1, abs=0.01)
    assert actions.std() == pytest.approx(0.2, abs=0.01)


@pytest.mark.slow
def test_cube_chunk_has_the_asked_transitions_and_stays_in_the_workspace():
    parts = build_cube.build_chunk(build_cube.EPISODE + 50, np.random.default_rng(0))
    assert [(len(states), len(actions)) for states, actions in parts] == [(1001, 1000), (51, 50)]
    assert get_environment("cube").builder.chunk % build_cube.EPISODE == 0
    for states, actions in parts:
        assert states.dtype == actions.dtype == np.float32
        assert states.shape[1] == 28
        assert actions.shape[1] == 5
        effector = to_metres(states[:, 12:15])
        assert (effector > WORKSPACE[0] - 0.015).all()
        assert (effector < WORKSPACE[1] + 0.015).all()
        assert np.abs(np.diff(effector, axis=0)).max() < 0.06
        assert np.abs(actions).max() <= 1.0
    assert np.ptp(to_metres(parts[0][0][:, 12:15]), axis=0).min() > 0.15, "the arm has hardly moved"
    assert np.ptp(parts[0][0][:, 19:21], axis=0).max() > 0.5, "the cube was never carried"


@pytest.mark.slow
def test_cube_chunk_is_a_function_of_its_generator_and_leaves_the_global_state_alone():
    def chunk(seed: int) -> bytes:
        parts = build_cube.build_chunk(60, np.random.default_rng(seed))
        return b"".join(array.tobytes() for part in parts for array in part)

    np.random.seed(7)  # noqa: NPY002
    expected = np.random.rand()  # noqa: NPY002
    first = chunk(1)
    np.random.seed(7)  # noqa: NPY002
    assert chunk(2) != first
    assert np.random.rand() == expected  # noqa: NPY002
    assert chunk(1) == first


@pytest.mark.slow
def test_cube_episodes_are_those_of_ogbenchs_own_environment_and_oracle():
    """To the bit, over a change of target: what is written out for speed changes nothing."""
    rng = np.random.default_rng(2)
    ((states, actions),) = build_cube.build_chunk(150, np.random.default_rng(2))
    env = gymnasium.make("cube-single-v0", mode="data_collection", terminate_at_goal=False, max_episode_steps=1000)
    targets = 0
    with build_cube._global_numpy_seeded(rng):
        oracle = CubePlanOracle(env, noise=build_cube.PLAN_NOISE, noise_smoothing=build_cube.NOISE_SMOOTHING)
        observation, info = env.reset(seed=int(rng.integers(2**31)))
        oracle.reset(observation, info)
        for t in range(150):
            np.testing.assert_array_equal(states[t], observation.astype(np.float32))
            action = np.clip(oracle.select_action(observation, info), -1, 1).astype(np.float32)
            np.testing.assert_array_equal(actions[t], action)
            observation, _, _, _, info = env.step(action.astype(np.float64))
            if oracle.done:
                targets += 1
                oracle.reset(*env.unwrapped.set_new_target(p_stack=0.0))
    assert targets >= 1
