"""Held-out windows, and what following them measures, on a point that moves by its action and on the real bodies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from toy_point import ENVIRONMENT, ToyEnv
from toy_point import SPEC as POINT

from vhdiffuser.benchmark.dynamics_eval import (
    CONDITIONS,
    Condition,
    action_errors,
    evaluate_tracking,
    held_out_windows,
    shifts,
)
from vhdiffuser.control.dynamics_network import InverseDynamics
from vhdiffuser.control.inverse_dynamics import DynamicsConfig, InverseDynamicsController
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.execution.recorded import RecordedStart
from vhdiffuser.execution.simulators import Simulators
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.types import Episodes, Instance

CONFIG = DynamicsConfig(hidden=1, layers=1, ahead=(1,), held_out=0.5)
LIMITS = Normalizer(-np.ones(2, np.float32), np.ones(2, np.float32))


class Straight(InverseDynamicsController):
    """Moves to the plan's next state: the right action for the toy point, scaled by what a test wants."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__(InverseDynamics(POINT, CONFIG), POINT, CONFIG, LIMITS)
        self.gain = gain

    def _forward(self, body: np.ndarray, relative: np.ndarray) -> np.ndarray:
        return self.gain * relative[:, 0] * self.reach


def walks(episodes: int = 4, length: int = 60) -> Episodes:
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(episodes):
        actions = rng.uniform(-0.05, 0.05, (length - 1, 2))
        parts.append((np.concatenate([np.zeros((1, 2)), np.cumsum(actions, axis=0)]), actions))
    return Episodes.from_parts(parts)


def track(controller: Straight, conditions: tuple[Condition, ...] = CONDITIONS, n: int = 6, steps: int = 30):
    rng = np.random.default_rng(0)
    return evaluate_tracking(controller, ENVIRONMENT, Simulators(ToyEnv, 4), walks(), rng, n, steps, conditions)


def test_the_right_actions_have_no_error_and_half_of_them_half_an_error() -> None:
    right = action_errors(Straight(), walks(), np.random.default_rng(0))
    assert right["mae"] < 1e-6
    assert right["r2"] == pytest.approx(1.0)
    assert right["samples"] == 2 * 59, "the last two episodes are held out"
    half = action_errors(Straight(0.5), walks(), np.random.default_rng(0))
    assert len(half["dimensions"]) == 2
    assert half["mae"] == pytest.approx(np.mean([row["mae"] for row in half["dimensions"]]))
    assert half["mae"] == pytest.approx(0.0125, rel=0.15), "half of a mean of 0.025"
    assert half["mae"] < half["rmse"]


def test_a_right_controller_follows_and_comes_back_from_beside_and_behind() -> None:
    results = {result.condition: result for result in track(Straight())}
    assert results["exact"].mean_distance < 1e-5
    for result in results.values():
        assert result.mean_final_distance < 1e-5
        assert (result.within_epsilon, result.reached, result.falls) == (1.0, 1.0, 0.0)
    assert results["beside 2 eps"].mean_distance > results["exact"].mean_distance


def test_one_that_does_not_move_stays_as_far_beside_and_behind_as_it_began() -> None:
    aside = Condition("aside", beside=3.0)
    (result,) = track(Straight(0.0), (aside,), steps=1)
    path = np.linalg.norm(np.diff(walks().observations, axis=0), axis=1).max()
    assert 0.15 - path <= result.mean_distance <= 0.15 * np.sqrt(2) + path
    assert result.within_epsilon == 0.0


def test_windows_are_of_held_out_episodes_and_cross_no_end() -> None:
    episodes = walks()
    windows = held_out_windows(Straight(), ENVIRONMENT, episodes, np.random.default_rng(0), 50, 40)
    held = episodes.observations[episodes.ends[1] :].reshape(2, 60, 2)
    found = [any(np.array_equal(w, e[t : t + 40]) for e in held for t in range(21)) for w in windows]
    assert all(found)
    with pytest.raises(DataError, match="longest has 60"):
        held_out_windows(Straight(), ENVIRONMENT, episodes, np.random.default_rng(0), 1, 61)
    with pytest.raises(VhdError, match="at least 1 window"):
        held_out_windows(Straight(), ENVIRONMENT, episodes, np.random.default_rng(0), 0, 5)


def test_shifts_are_one_epsilon_long_in_every_direction() -> None:
    scale = np.array([2.0, 0.5])
    moves = shifts(POINT, scale, np.random.default_rng(0), 500)
    np.testing.assert_allclose(np.abs(moves / scale).max(axis=1), POINT.epsilon)
    assert np.abs(moves.mean(axis=0) / scale).max() < 0.1 * POINT.epsilon * 2


def ant(up: tuple[float, float, float, float]) -> np.ndarray:
    observation = np.zeros(29, np.float32)
    observation[3:7] = up
    return observation


def test_an_ant_has_fallen_when_it_lies_on_its_back() -> None:
    turned = np.stack([ant((1, 0, 0, 0)), ant((0, 0, 0, 1)), ant((0, 1, 0, 0)), ant((0, 0.6, 0.8, 0))])
    np.testing.assert_array_equal(get_environment("antmaze-medium").has_fallen(turned), [False, False, True, True])
    assert not get_environment("cube").has_fallen(np.ones((3, 28))).any()


def test_windows_with_a_fallen_ant_are_left_out() -> None:
    environment = get_environment("antmaze-medium")
    spec = environment.spec
    states = np.tile(ant((1, 0, 0, 0)), (30, 1))
    states[:, 0] = np.arange(30)
    states[20:] = ant((0, 1, 0, 0))
    episodes = Episodes.from_parts([(states, np.zeros((29, 8), np.float32))] * 2)
    limits = Normalizer.fit(episodes.observations)
    controller = InverseDynamicsController(InverseDynamics(spec, CONFIG), spec, CONFIG, limits)
    windows = held_out_windows(controller, environment, episodes, np.random.default_rng(0), 40, 10)
    assert not environment.has_fallen(windows).any()
    assert set(windows[:, 0, 0].astype(int)) <= set(range(11))
    with pytest.raises(DataError, match="without a fall or grasp"):
        held_out_windows(controller, environment, episodes, np.random.default_rng(0), 1, 21)


def test_windows_with_a_grasp_are_left_out() -> None:
    environment = get_environment("cube")
    spec = environment.spec
    states = np.zeros((40, 28), np.float32)
    states[:, 12] = np.arange(40)
    states[15:25, 18] = 0.5
    assert environment.is_hindered(states).sum() == 10
    episodes = Episodes.from_parts([(states, np.zeros((39, 5), np.float32))] * 2)
    limits = Normalizer.fit(episodes.observations)
    controller = InverseDynamicsController(InverseDynamics(spec, CONFIG), spec, CONFIG, limits)
    windows = held_out_windows(controller, environment, episodes, np.random.default_rng(0), 60, 12)
    assert set(windows[:, 0, 12].astype(int)) == {0, 1, 2, 3, 25, 26, 27, 28}


@pytest.mark.slow
@pytest.mark.ogbench
@pytest.mark.parametrize("name", ["antmaze-medium", "cube"])
def test_a_recorded_moment_is_restored_and_goes_on_as_it_did(name: str) -> None:
    env = RecordedStart(get_environment(name))
    rng = np.random.default_rng(0)
    observation = env.env.reset(env.env.sample_instance(rng))
    actions = rng.uniform(-0.5, 0.5, (12, env.spec.action_dim))
    actions[:, 4:] = 0.0 if name == "cube" else actions[:, 4:]  # the gripper stays open, as it is restored
    record = [observation] + [env.step(action) for action in actions]
    goal = env.spec.goal_of(env.spec.planning_state(record[-1]))
    start = env.reset(Instance(record[6], goal, 3))
    np.testing.assert_allclose(start[:12], record[6][:12], atol=1e-4)
    # MuJoCo's step leaves the effector's place one of its 25 substeps old, the arm's observation too.
    np.testing.assert_allclose(start[12:15], record[6][12:15], atol=1e-2)
    for action in actions[6:]:
        observation = env.step(action)
    places = [env.spec.goal_of(env.spec.planning_state(state)) for state in (observation, record[-1], record[6])]
    moved = np.abs(places[1] - places[2]).max()
    assert np.abs(places[0] - places[1]).max() < 0.1 * moved


@pytest.mark.ogbench
def test_recorded_starts_together_are_as_one_by_one() -> None:
    make = partial(RecordedStart, get_environment("antmaze-medium"))
    env, rng = make(), np.random.default_rng(0)
    starts = [env.env.reset(env.env.sample_instance(rng)) for _ in range(3)]
    instances = [Instance(start, start[:2], 0) for start in starts]
    actions = rng.uniform(-1, 1, (3, 8)).astype(np.float32)
    seen = []
    for first in (None, env):
        with Simulators(make, 3, 1, first) as simulators:
            seen.append((simulators.reset(range(3), instances), simulators.step(range(3), actions)))
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0][0], starts)


def test_recorded_starts_are_for_bodies_that_can_be_restored() -> None:
    with pytest.raises(VhdError, match="maze2d-umaze: .* cannot be set to a recorded observation"):
        RecordedStart(get_environment("maze2d-umaze"))
    env = RecordedStart(get_environment("antmaze-medium"))
    with pytest.raises(VhdError, match="29 numbers"):
        env.check(Instance(np.zeros(2), np.zeros(2), 0))
    with pytest.raises(VhdError, match="cannot be drawn"):
        env.sample_instance(np.random.default_rng(0))
