"""Simulators stepped together return, to the bit, what each returns alone."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from vhdiffuser.envs.base import PlanningEnv
from vhdiffuser.envs.maze2d.simulator import Maze2dEnv
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.execution.simulators import Simulators

N, STEPS = 8, 25


@pytest.fixture(scope="module", params=["maze2d-large", "pointmaze-large-stitch", "antmaze-medium"])
def environment(request):
    environment = get_environment(request.param)
    if environment.missing_extra is not None:
        pytest.skip(f"needs the extra '{environment.missing_extra}'")
    return environment


def random_walks(env: PlanningEnv, simulators: Simulators) -> list[np.ndarray]:
    """All observations of N random walks in shuffled slots; one walk after the other leaves."""
    rng = np.random.default_rng(0)
    slots = rng.permutation(N).tolist()
    seen = [simulators.reset(slots, [env.sample_instance(rng) for _ in slots])]
    actions = np.zeros((N, env.spec.action_dim), np.float32)
    for step in range(STEPS):
        if step % 5 == 0:
            actions = rng.uniform(-1.2, 1.2, actions.shape).astype(np.float32)
        seen.append(simulators.step(slots, actions))
        if step % 8 == 7:
            slots, actions = slots[:-1], actions[:-1]
    return seen


def test_simulators_stepped_together_are_as_each_alone_with_any_number_of_threads(environment) -> None:
    env = environment.make()
    alone = random_walks(env, Simulators(environment.simulator, N))
    assert max(np.abs(one[:7] - other[:7]).max() for one, other in zip(alone[1:8], alone[:7], strict=True)) > 0
    for threads in (1, 2, 3):
        together = random_walks(env, Simulators(environment.simulator, N, threads, environment.make()))
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


class Windy(Maze2dEnv):
    """A maze with a step of its own."""

    def step(self, action):
        return super().step(action + np.float32(0.3))


def test_a_subclass_with_a_step_of_its_own_is_stepped_by_it() -> None:
    calm = get_environment("maze2d-umaze").make()
    windy = partial(Windy, calm.spec, calm.maze)
    assert windy().vector(4, 1) is None
    instances = [calm.sample_instance(np.random.default_rng(seed)) for seed in range(4)]

    def first_steps(make, first):
        with Simulators(make, 4, 1, first) as simulators:
            simulators.reset(range(4), instances)
            return simulators.step(range(4), np.zeros((4, 2), np.float32))

    assert (first_steps(windy, windy())[:, 2:] - first_steps(lambda: calm, None)[:, 2:] > 0.05).all()
