"""What is drawn for one purpose is not drawn for another: test instances share no start with the training data."""

from __future__ import annotations

import numpy as np
import pytest

from vhdiffuser.envs.instances import draw_instances
from vhdiffuser.envs.maze2d.building import stream as data_stream
from vhdiffuser.envs.maze2d.d4rl import d4rl_instances
from vhdiffuser.envs.maze2d.maze import LARGE, MEDIUM, UMAZE, Maze
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.execution.loop import plan_seed
from vhdiffuser.streams import stream


def first_numbers(purpose: str, *key: int) -> tuple[int, ...]:
    return tuple(stream(purpose, *key).generate_state(4).tolist())


def test_a_purpose_and_a_key_name_one_stream() -> None:
    assert first_numbers("instance", 3, 5) == first_numbers("instance", 3, 5)
    keys = [("instance", 3, 5), ("plan", 3, 5), ("instance", 5, 3), ("instance", 3), ("instance", 3, 5, 0)]
    keys += [("instance", 3 + (5 << 32)), ("instance", 0, 0), ("instance", 0), ("instance",), ("", 3, 5)]
    assert len({first_numbers(*key) for key in keys}) == len(keys)
    assert first_numbers("instance", np.int64(3), np.int64(5)) == first_numbers("instance", 3, 5)


@pytest.mark.parametrize(("name", "maze"), [("umaze", UMAZE), ("medium", MEDIUM), ("large", LARGE)])
def test_no_instance_starts_where_a_training_stream_starts(name: str, maze: Maze) -> None:
    env, n = get_environment(f"maze2d-{name}").make(), 40
    for seed in (0, 100):
        data = [data_stream(maze, 300, 1, np.random.default_rng([seed, number]))[0][0, :2] for number in range(n)]
        for drawn in (draw_instances(env, n, seed), d4rl_instances(None, env, n, seed)):
            starts = np.stack([instance.start[:2] for instance in drawn])
            assert np.abs(starts[:, None] - np.stack(data)).max(axis=2).min() > 1e-6


def test_instances_follow_from_seed_and_number_alone() -> None:
    env = get_environment("maze2d-umaze").make()
    few, many, other = draw_instances(env, 3, 7), draw_instances(env, 6, 7), draw_instances(env, 6, 8)
    for one, two in zip(few, many, strict=False):
        np.testing.assert_array_equal(one.start, two.start)
        np.testing.assert_array_equal(one.goal, two.goal)
        assert one.seed == two.seed
    assert len({tuple(instance.start) for instance in many + other}) == 12


def test_plans_share_no_stream_with_training_updates() -> None:
    training = {
        int(np.random.SeedSequence([seed, 0, update]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        for seed in range(3)
        for update in range(20)
    }
    assert not training & {plan_seed(seed, number, 0) for seed in range(3) for number in range(20)}
    assert not training & {plan_seed(seed, 0, replan) for seed in range(3) for replan in range(20)}
