from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_point import SPEC as NO_VELOCITIES
from toy_point import ToyController

from vhdiffuser.control.base import make_controller, register_controller
from vhdiffuser.control.pd import PDConfig, PDController
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment, get_spec
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.trajectories import Plan

SPEC = get_spec("maze2d-umaze")


def ramp(length: int = 5) -> Plan:
    states = np.array([[0.01 * t, 0.0, 1.0, 0.0] for t in range(length)], np.float32)
    return Plan(states, states[-1, :2])


def test_the_law_by_hand() -> None:
    controller = PDController(SPEC, PDConfig(position_gain=10.0, velocity_gain=0.5))
    observation = np.array([[0.0, 0.02, 0.4, 0.1]], np.float32)
    # Next state (0.02, 0, 1, 0): 10 * 0.02 + 0.5 * 0.6 and 10 * -0.02 + 0.5 * -0.1.
    np.testing.assert_allclose(controller.act(observation, [ramp()], np.array([1])), [[0.5, -0.25]], atol=1e-6)


def test_actions_stay_in_bounds() -> None:
    action = PDController(SPEC).act(np.array([[9.0, -9.0, 0.0, 0.0]]), [ramp()], np.array([0]))
    np.testing.assert_array_equal(action, [[-1.0, 1.0]])


def test_after_the_end_the_last_position_is_held_at_rest() -> None:
    controller = PDController(SPEC, PDConfig(0.0, 1.0))
    moving = np.array([[0.04, 0.0, 0.3, 0.0]], np.float32)
    for index in (4, 5, 100):
        np.testing.assert_allclose(controller.act(moving, [ramp()], np.array([index])), [[-0.3, 0.0]], atol=1e-6)


def test_rows_do_not_see_each_other() -> None:
    rng = np.random.default_rng(0)
    controller = PDController(SPEC)
    observations, plans = rng.normal(size=(7, 4)).astype(np.float32), [ramp(3 + number) for number in range(7)]
    together = controller.act(observations, plans, np.arange(7))
    alone = [controller.act(observations[[row]], [plans[row]], np.array([row]))[0] for row in range(7)]
    np.testing.assert_array_equal(together, np.stack(alone))


def test_it_follows_a_feasible_path_in_the_maze() -> None:
    from vhdiffuser.envs.maze2d.maze import UMAZE
    from vhdiffuser.envs.maze2d.simulator import MazePhysics

    physics = MazePhysics(UMAZE)
    physics.set(np.array([3.0, 1.0, 0.0, 0.0]))
    states = [physics.state()]
    for t in range(120):  # along the bottom corridor: speed up, then brake
        physics.step(np.array([0.0, 0.15 if t < 60 else -0.15]))
        states.append(physics.state())
    plan = Plan(np.stack(states), states[-1][:2])
    physics.set(plan.states[0] + np.array([0.05, 0.0, 0.0, 0.0]))  # beside the path at first
    controller = PDController(SPEC)
    for t in range(plan.length - 1):
        physics.step(controller.act(physics.state()[None], [plan], np.array([t]))[0])
    assert plan.states[-1, 1] > 1.8
    assert np.abs(physics.state()[:2] - plan.goal).max() < 0.005


@pytest.mark.parametrize("gains", [(-1.0, 1.0), (1.0, float("nan"))])
def test_bad_gains_are_refused(gains: tuple[float, float]) -> None:
    with pytest.raises(VhdError, match="gain"):
        PDConfig(*gains)


def test_states_without_velocities_are_refused() -> None:
    with pytest.raises(VhdError, match="velocities"):
        PDController(NO_VELOCITIES)


def test_the_registry_takes_ones_own_controller_and_lists_what_it_knows() -> None:
    register_controller("test-own", lambda spec, model: ToyController())
    assert isinstance(make_controller("test-own", SPEC), ToyController)
    assert isinstance(make_controller("pd", SPEC), PDController)
    with pytest.raises(VhdError, match="already registered"):
        register_controller("pd", lambda spec, model: ToyController())
    with pytest.raises(UnknownNameError, match="inverse_dynamics"):
        make_controller("mpc", SPEC)
    with pytest.raises(VhdError, match="vhd train dynamics antmaze-medium"):
        make_controller("inverse_dynamics", get_spec("antmaze-medium"))
    with pytest.raises(VhdError, match="no such model file"):
        make_controller("inverse_dynamics", get_spec("antmaze-medium"), Path("nowhere.safetensors"))


def test_an_environments_gains_reach_every_controller_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from vhdiffuser.benchmark.choices import Choices
    from vhdiffuser.control.base import default_controller
    from vhdiffuser.envs import registry

    cart = replace(get_environment("maze2d-umaze"), spec=replace(SPEC, name="cart-of-test-pd"), pd_gains=(3, 2.5))
    monkeypatch.setattr(registry, "find_environment", lambda name: cart)
    monkeypatch.setattr("vhdiffuser.benchmark.choices.get_environment", lambda name: cart)
    assert PDConfig.of(cart) == PDConfig(3.0, 2.5)
    assert PDConfig.of(get_environment("maze2d-umaze")) == PDConfig()
    for controller in (default_controller(cart.spec), make_controller("pd", cart.spec)):
        assert controller.describe() == {"name": "pd", "position_gain": 3.0, "velocity_gain": 2.5}
    chosen = Choices(cart.name, methods=("vhd",), gains={"position_gain": None, "velocity_gain": 7.0})
    assert chosen.make_controller().describe() == {"name": "pd", "position_gain": 3.0, "velocity_gain": 7.0}


@pytest.mark.parametrize("gains", [3.0, (1.0,), (1.0, -1.0), (1.0, float("nan")), ("a", 1.0)])
def test_bad_gains_of_an_environment_are_refused(gains: Any) -> None:
    with pytest.raises(VhdError, match="pd_gains"):
        Environment(SPEC, pd_gains=gains)
