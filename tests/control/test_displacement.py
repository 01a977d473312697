"""Plans followed by a robot whose actions are displacements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhdiffuser.control.base import default_controller, make_controller
from vhdiffuser.control.displacement import DisplacementController
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import VhdError
from vhdiffuser.trajectories import Plan

SPEC = get_spec("pointmaze-medium-stitch")


def plan_of(states) -> Plan:
    states = np.asarray(states, np.float32)
    return Plan(states, states[-1])


def test_the_law_by_hand() -> None:
    controller = DisplacementController(SPEC, 0.2)
    plan = plan_of([[0.0, 0.0], [0.1, 0.05], [0.2, 0.1]])
    here = np.array([[0.0, 0.0], [0.1, 0.05], [0.3, 0.1]], np.float32)
    actions = controller.act(here, [plan] * 3, np.array([0, 1, 7]))
    np.testing.assert_allclose(actions, [[0.5, 0.25], [0.5, 0.25], [-0.5, 0.0]], atol=1e-6)
    far = controller.act(np.array([[5.0, -5.0]], np.float32), [plan], np.array([0]))
    np.testing.assert_array_equal(far, [[-1.0, 1.0]])


def test_it_is_the_points_own_controller() -> None:
    controller = default_controller(SPEC)
    assert controller.describe() == {"name": "displacement", "step_length": 0.2}


def test_what_it_needs_is_said() -> None:
    with pytest.raises(VhdError, match=r"maze2d-umaze.*Environment\.displacement"):
        make_controller("displacement", get_spec("maze2d-umaze"))
    with pytest.raises(VhdError, match="one action per goal dimension"):
        DisplacementController(replace(SPEC, action_dim=3), 0.2)


@pytest.mark.ogbench
@pytest.mark.parametrize("aside", [0.0, 0.3])
def test_it_follows_a_recorded_path_to_well_within_the_tolerance(aside: float) -> None:
    """Also from beside it, and past walls that the recorded point touched."""
    environment = get_environment("pointmaze-giant-navigate")
    env, controller = environment.make(), default_controller(environment.spec)
    ((states, _),) = environment.builder.make()([(600, np.random.default_rng(0))])[0]
    plan = plan_of(states)
    env.physics.restore(states[0] + aside * np.array([1.0, 0.0]))
    errors = []
    for t in range(plan.length - 1):
        observation = env.step(controller.act(env.physics.observation()[None], [plan], np.array([t]))[0])
        errors.append(np.linalg.norm(observation - states[t + 1]))
    assert max(errors[3:]) < 0.15 * environment.goal_radius
