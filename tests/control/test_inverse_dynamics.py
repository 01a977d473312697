from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_point import SPEC as POINT

from vhdiffuser.control.dynamics_network import InverseDynamics
from vhdiffuser.control.dynamics_task import DynamicsTask, action_error, held_out_actions
from vhdiffuser.control.inverse_dynamics import (
    DynamicsConfig,
    InverseDynamicsController,
    proprioception_dims,
    reach,
)
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.normalizer import Normalizer
from vhdiffuser.recipes.recipe import get_recipe
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import Episodes
from vhdiffuser.weights.format import save_model

# A point with a heading it cannot change: observation (x, y, heading), p <- p + 0.1 * action.
SPEC = replace(POINT, observation_dim=3)
SMALL = DynamicsConfig(hidden=64, layers=2, ahead=(1, 4), batch_size=256, max_lag=3, jitter=0.0, held_out=0.2)


def wander(rng: np.random.Generator, episodes: int = 10, length: int = 200) -> Episodes:
    parts = []
    for _ in range(episodes):
        actions = np.repeat(rng.uniform(-1, 1, (length // 10, 2)), 10, axis=0)[: length - 1]
        places = np.concatenate([np.zeros((1, 2)), np.cumsum(0.1 * actions, axis=0)])
        heading = np.full((length, 1), rng.uniform(-1, 1))
        parts.append((np.concatenate([places, heading], axis=1), actions))
    return Episodes.from_parts(parts)


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    return wander(np.random.default_rng(0))


@pytest.fixture(scope="module")
def normalizer(episodes: Episodes) -> Normalizer:
    return Normalizer.fit(episodes.observations)


@pytest.fixture(scope="module")
def trained(episodes: Episodes, normalizer: Normalizer) -> InverseDynamicsController:
    torch.manual_seed(0)
    task = DynamicsTask(episodes, SPEC, replace(SMALL, disturbed=0.0, ending=0.0), normalizer, "test")
    network = task.make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for update in range(300):
        loss, metrics = task.loss(network, network, generator, update)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert isinstance(network, InverseDynamics)
    assert metrics["action_mae"] < 0.15
    return InverseDynamicsController(network, SPEC, SMALL, normalizer)


def test_it_learns_actions_it_never_saw(trained: InverseDynamicsController, episodes: Episodes) -> None:
    error = action_error(*held_out_actions(trained, episodes, np.random.default_rng(0), samples=300))
    assert error["r2"] > 0.95
    assert error["mae"] <= error["rmse"] < 0.15


def test_it_goes_where_the_plan_goes(trained: InverseDynamicsController) -> None:
    line = np.stack([0.06 * np.arange(30), -0.03 * np.arange(30)], axis=1).astype(np.float32)
    plan, place = Plan(line, line[-1]), np.zeros(2)
    for index in range(25):
        observation = np.array([[*place, 0.3]], np.float32)
        place = place + 0.1 * trained.act(observation, [plan], np.array([index]))[0]
    assert np.abs(place - line[25]).max() < 0.1


def test_with_a_pace_the_plans_own_timing_does_not_matter(trained: InverseDynamicsController) -> None:
    own = InverseDynamicsController(trained.network, SPEC, replace(SMALL, pace=0.05), trained.normalizer, by_path=True)
    observation = np.array([[0.31, 0.02, 0.3]], np.float32)
    actions = [
        own.act(observation, [Plan(line, line[-1])], np.array([index]))
        for line in (np.linspace([0, 0], [3, 0], n).astype(np.float32) for n in (301, 601))
        for index in (0, 40)
    ]
    for action in actions[1:]:
        np.testing.assert_allclose(action, actions[0], atol=2e-2)


def test_by_path_a_robot_may_be_ahead_of_its_plan_but_not_behind(trained: InverseDynamicsController) -> None:
    config = replace(SMALL, pace=0.05)
    own = InverseDynamicsController(trained.network, SPEC, config, trained.normalizer, by_path=True)
    line = np.stack([0.1 * np.arange(31), np.zeros(31)], axis=1).astype(np.float32)
    plan = Plan(line, line[-1])
    here = np.array([[1.0, 0.2, 0.3]], np.float32)  # beside the plan's state 10
    for index, state in ((0, 10), (9, 10), (10, 10), (17, 17), (30, 30), (40, 30)):
        np.testing.assert_array_equal(own.due(here, [plan], np.array([index])), line[[state]])
        np.testing.assert_array_equal(trained.due(here, [plan], np.array([index])), line[[min(index, 30)]])


def test_a_row_has_the_same_bytes_in_any_batch(trained: InverseDynamicsController) -> None:
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(150, 3)).astype(np.float32)
    plans = [Plan(rng.normal(size=(6, 2)).astype(np.float32), np.zeros(2)) for _ in range(150)]
    together = trained.act(observations, plans, np.full(150, 2))
    for row in (0, 63, 64, 149):
        alone = trained.act(observations[[row]], [plans[row]], np.array([2]))
        np.testing.assert_array_equal(alone[0], together[row])


def test_moving_everything_changes_nothing(trained: InverseDynamicsController) -> None:
    """Absolute position is not seen: plans are read relative to the robot."""
    observation, shift = np.array([[0.1, -0.2, 0.5]], np.float32), np.array([4.0, -8.0])
    states = np.linspace([0.1, -0.2], [0.6, 0.3], 8).astype(np.float32)
    moved = observation.copy()
    moved[:, :2] += shift
    here = trained.act(observation, [Plan(states, states[-1])], np.array([1]))
    there = trained.act(moved, [Plan((states + shift).astype(np.float32), states[-1])], np.array([1]))
    np.testing.assert_allclose(here, there, atol=1e-4)


def test_disturbed_samples_are_read_later_and_never_past_the_episode(normalizer: Normalizer) -> None:
    # One step a row: relative positions then tell exactly how far ahead each was read.
    length = 40
    places = np.stack([np.arange(length), 0 * np.arange(length), 0 * np.arange(length)], axis=1).astype(np.float32)
    actions = np.arange(length - 1, dtype=np.float32)[:, None].repeat(2, axis=1)
    data = Episodes.from_parts([(places, actions)] * 5)
    unit = Normalizer(np.full(3, -10.0, np.float32), np.full(3, 10.0, np.float32))  # reach = 1 unit
    config = replace(SMALL, disturbed=1.0, max_lag=3, ending=0.0, batch_size=4000)
    task = DynamicsTask(data, SPEC, config, unit, "test")
    _, relative, action = task.sample(torch.Generator().manual_seed(0))
    row, ahead = action[:, 0], relative[..., 0]
    lag = ahead[:, 0] - 1
    inside = row < length - 10
    assert set(lag[inside].tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert torch.equal(ahead[inside, 1], lag[inside] + 4)
    assert (row[:, None] + ahead).max() == length - 1
    calm = DynamicsTask(data, SPEC, replace(config, disturbed=0.0), unit, "test")
    _, relative, action = calm.sample(torch.Generator().manual_seed(0))
    assert torch.equal(relative[action[:, 0] < length - 10, 0, 0].unique(), torch.tensor([1.0]))
    ending = DynamicsTask(data, SPEC, replace(config, disturbed=0.0, ending=1.0), unit, "test")
    _, relative, action = ending.sample(torch.Generator().manual_seed(0))
    assert set(relative[action[:, 0] < length - 10, 1, 0].tolist()) == {1.0, 2.0, 3.0, 4.0}


def test_a_teacher_labels_the_plan_it_is_shown(episodes: Episodes, normalizer: Normalizer) -> None:
    """The target is the teacher's action in the state of the sample, heading for the plan's state 4 steps ahead."""

    def teacher(body: np.ndarray, direction: np.ndarray) -> np.ndarray:
        np.testing.assert_allclose(np.linalg.norm(direction, axis=1), 1.0, atol=1e-2)
        return 0.5 * direction + 0.1 * body

    config = replace(SMALL, teacher_ahead=4, foreign=0.5, directions=True, batch_size=500)
    task = DynamicsTask(episodes, SPEC, config, normalizer, "test", teacher=teacher)
    body, relative, action = task.sample(torch.Generator().manual_seed(0))
    way = relative[:, config.ahead.index(4)]
    expected = 0.5 * way / way.norm(dim=1, keepdim=True)
    own = torch.from_numpy(normalizer.scale[2:]) * body + torch.from_numpy(normalizer.center[2:])  # (B, 1), in units
    assert torch.allclose(action, (expected + 0.1 * own).clamp(-1, 1), atol=2e-2)
    # Plans of other states lead anywhere: they are told from the data's own future by the distance of the next state.
    calm = replace(config, disturbed=0.0, ending=0.0)
    far = {
        share: DynamicsTask(episodes, SPEC, replace(calm, foreign=share), normalizer, "test", teacher=teacher)
        .sample(torch.Generator().manual_seed(1))[1]
        .norm(dim=-1)
        .max()
        for share in (0.0, 1.0)
    }
    assert far[1.0] == pytest.approx(far[0.0], rel=0.5), "a foreign plan starts at the robot, too"


def test_half_of_the_samples_are_states_that_the_model_visited(episodes: Episodes, normalizer: Normalizer) -> None:
    states = np.full((30, 3), 0.5, np.float32)  # the data's third number is another
    own = Episodes.from_parts([(states, np.zeros((29, 2), np.float32))])
    config = replace(SMALL, teacher_ahead=4, foreign=0.5, batch_size=4000)
    task = DynamicsTask(episodes, SPEC, config, normalizer, "test", teacher=lambda _, direction: direction, own=own)
    body, _, _ = task.sample(torch.Generator().manual_seed(0))
    mine = torch.as_tensor(normalizer.normalize(states[:1])[:, 2])
    assert torch.isclose(body[:, 0], mine).float().mean() == pytest.approx(0.5, abs=0.03)


def test_a_teacher_that_is_missing_is_named(episodes: Episodes, normalizer: Normalizer) -> None:
    with pytest.raises(DataError, match="no teacher"):
        DynamicsTask(episodes, SPEC, replace(SMALL, teacher_ahead=4), normalizer, "test")


def test_directions_keep_their_angle(episodes: Episodes) -> None:
    """The goal space may be longer than wide; the unit directions the network sees are those of the world."""
    wide = Normalizer(np.array([-10, -5, -1], np.float32), np.array([10, 5, 1], np.float32))
    np.testing.assert_allclose(reach(wide, [0, 1], replace(SMALL, directions=True)), [1, 1])
    np.testing.assert_allclose(reach(wide, [0, 1], SMALL), [1, 0.5])


def test_same_seed_same_samples(episodes: Episodes, normalizer: Normalizer) -> None:
    task = DynamicsTask(episodes, SPEC, replace(SMALL, jitter=0.1), normalizer, "test")
    first, second = (task.sample(torch.Generator().manual_seed(5)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_is_saved_is_what_is_loaded(
    trained: InverseDynamicsController, episodes: Episodes, normalizer: Normalizer, tmp_path: Path
) -> None:
    task = DynamicsTask(episodes, SPEC, SMALL, normalizer, "abc")
    save_model(tmp_path / "model.safetensors", trained.network.tensors, task.header())
    loaded = InverseDynamicsController.load(tmp_path / "model.safetensors")
    assert loaded.config == SMALL
    assert loaded.spec == SPEC
    observation, plan = np.array([[0.1, 0.2, 0.3]], np.float32), Plan(np.zeros((5, 2), np.float32), np.zeros(2))
    np.testing.assert_array_equal(
        loaded.act(observation, [plan], np.array([0])), trained.act(observation, [plan], np.array([0]))
    )
    assert loaded.describe()["model"]


def test_held_out_episodes_are_apart_from_training(episodes: Episodes) -> None:
    training, held = episodes.split(0.2)
    assert (len(training), len(held)) == (8, 2)
    np.testing.assert_array_equal(np.concatenate([training.observations, held.observations]), episodes.observations)
    np.testing.assert_array_equal(held.episode(0)[0], episodes.episode(8)[0])
    stream = Episodes.from_parts([episodes.episode(0)])
    training, held = stream.split(0.1)
    assert (len(training.observations), len(held.observations)) == (180, 20)
    np.testing.assert_array_equal(held.observations, episodes.episode(0)[0][180:])


def test_the_cube_is_not_seen_and_neither_is_the_absolute_position() -> None:
    seen = {}
    for name in ("cube", "antmaze-medium"):
        environment = get_environment(name)
        seen[name] = proprioception_dims(environment.spec, get_recipe(environment).dynamics)
    assert seen == {"cube": [*range(12), 15, 16, 17, 18], "antmaze-medium": list(range(2, 29))}


@pytest.mark.parametrize(
    "wrong",
    [
        {"ahead": ()},
        {"ahead": (0,)},
        {"disturbed": 1.5},
        {"hidden": 0},
        {"max_lag": -1},
        {"teacher_ahead": 3},
        {"foreign": 0.5},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict) -> None:
    with pytest.raises(VhdError):
        DynamicsConfig(**wrong)


def test_data_without_actions_is_refused(normalizer: Normalizer) -> None:
    data = Episodes(np.zeros((4, 3), np.float32), np.zeros((4, 0), np.float32), np.array([4]))
    with pytest.raises(DataError, match="action dimensions"):
        DynamicsTask(data, SPEC, SMALL, normalizer, "test")
    with pytest.raises(DataError, match="that this version does not know"):
        DynamicsConfig.from_json({"wings": 2})
