from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhdiffuser.envs.registry import environments, get_environment, get_spec
from vhdiffuser.errors import DataError, UnknownNameError, VhdError
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, Episodes


def parts(*lengths: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.full((n, 3), n, np.float32), np.full((n - 1, 2), n, np.float32)) for n in lengths]


def test_episodes_join_and_come_apart_again():
    episodes = Episodes.from_parts(parts(4, 2, 7))
    assert len(episodes) == 3
    assert episodes.transitions == 3 + 1 + 6
    assert episodes.starts.tolist() == [0, 4, 6]
    for number, (states, actions) in enumerate(parts(4, 2, 7)):
        np.testing.assert_array_equal(episodes.episode(number)[0], states)
        np.testing.assert_array_equal(episodes.episode(number)[1], actions)
    assert (episodes.actions[episodes.ends - 1] == 0).all()


def test_a_start_of_goal_dimensions_is_put_where_they_are():
    spec = replace(get_spec("maze2d-umaze"), goal_dims=(2, 3), velocity_dims=(0, 1))
    np.testing.assert_array_equal(spec.start_state([5, 6]), [0, 0, 5, 6])
    np.testing.assert_array_equal(spec.start_state([1, 2, 5, 6]), [1, 2, 5, 6])
    with pytest.raises(VhdError, match=r"4 numbers \(x, y, vx, vy\), or 2 \(vx, vy;"):
        spec.start_state([1, 2, 3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: (e.observations[:-1], e.actions, e.ends), "must have equal length"),
        (lambda e: (e.observations[:0], e.actions[:0], e.ends[:0]), "empty"),
        (lambda e: (e.observations, e.actions, np.array([4, 5, 13])), "at least 2"),
        (lambda e: (e.observations, e.actions, np.array([4, 6])), "ends at 6"),
        (lambda e: (e.observations[:, 0], e.actions, e.ends), "2-D"),
    ],
)
def test_episodes_refuse_what_does_not_fit(change, message):
    with pytest.raises(DataError, match=message):
        Episodes(*change(Episodes.from_parts(parts(4, 2, 7))))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["observations", "actions"])
def test_episodes_name_the_row_that_is_not_finite(field, bad):
    episodes = Episodes.from_parts(parts(4, 4))
    arrays = {"observations": episodes.observations.copy(), "actions": episodes.actions.copy(), "ends": episodes.ends}
    arrays[field][5, 1] = bad
    with pytest.raises(DataError, match=f"{field}: row 5"):
        Episodes(**arrays)


def test_a_part_needs_one_action_fewer_than_states():
    with pytest.raises(DataError, match="4 states need 3 actions"):
        Episodes.from_parts([(np.zeros((4, 2)), np.zeros((4, 1)))])


def test_registry_holds_table_one():
    papers = list(environments().values())[:5]
    assert [environment.name for environment in papers] == [
        "maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "cube",
    ]  # fmt: skip
    assert [environment.horizons for environment in papers] == [
        (64, 128, 192), (192, 288, 384), (256, 384, 512), (256, 384, 512), (32, 64, 128),
    ]  # fmt: skip
    assert [environment.spec.epsilon for environment in papers] == [0.04, 0.03, 0.03, 0.05, 0.03]
    assert get_environment("maze2d-large").step_budget == 1500


@pytest.mark.parametrize("environment", environments().values(), ids=lambda environment: environment.name)
def test_specs_survive_json(environment):
    import json

    spec = environment.spec
    assert EnvSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_unknown_environment_lists_the_known():
    with pytest.raises(UnknownNameError, match=r"maze2d-huge.*maze2d-umaze.*cube"):
        get_spec("maze2d-huge")


def test_a_plan_of_one_state_is_none():
    with pytest.raises(VhdError, match="L >= 2"):
        Plan(np.zeros((1, 4)), np.zeros(2))


@pytest.mark.parametrize("name", ["robot.py:make", "os:getcwd", "../elsewhere", ""])
def test_a_spec_s_name_is_a_name_and_nothing_that_could_be_run(name):
    """Specs are read from models and plans of others, and an environment is looked up by their names."""
    spec = get_spec("maze2d-umaze").to_json()
    with pytest.raises(DataError, match="cannot name"):
        EnvSpec.from_json({**spec, "name": name})
