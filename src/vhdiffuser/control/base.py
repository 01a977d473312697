"""Low-level controllers, which turn a plan of states into actions, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.envs.registry import environment_of
from vhdiffuser.errors import VhdError
from vhdiffuser.extensions import Registry
from vhdiffuser.trajectories import Plan
from vhdiffuser.types import EnvSpec, FloatArray, IntArray
from vhdiffuser.weights.places import Source, find_model


class Controller(ABC):
    """Maps observations and plans to actions. A controller sees no goal, no simulator, and no time but the plan's
    index."""

    @abstractmethod
    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """Actions (B, m) for observations (B, o), B plans and their current indices (B,).

        At index t the robot should be at `plan.states[t]`; the action moves it towards `states[t + 1]`. From the last
        index on, hold the plan's last state. A row's action must not depend on other rows.
        """

    def due(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, d) reference states; the robot replans when it deviates from them.

        By default the states at the plans' indices; a controller with its own timing overrides this.
        """
        return reference_states(plans, indices, ahead=0)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name and settings, JSON-serialisable. They are recorded with every result."""


ControllerFactory = Callable[[EnvSpec, "Path | None"], Controller]
"""(environment, model file or None) -> controller."""


def _make_pd(spec: EnvSpec, model: Path | None) -> Controller:
    from vhdiffuser.control.pd import PDConfig, PDController

    return PDController(spec, PDConfig.of(environment_of(spec)))


def _make_displacement(spec: EnvSpec, model: Path | None) -> Controller:
    from vhdiffuser.control.displacement import DisplacementController

    return DisplacementController(spec, environment_of(spec).displacement)


def _make_inverse_dynamics(spec: EnvSpec, model: Path | None, by_path: bool = False) -> Controller:
    from vhdiffuser.control.inverse_dynamics import InverseDynamicsController

    if model is None:
        raise VhdError(
            f"{spec.name}: its controller is an inverse dynamics model, but no model file was given. Train one "
            f"with `vhd train dynamics {spec.name}`."
        )
    return InverseDynamicsController.load(model, by_path=by_path)


CONTROLLERS: Registry[ControllerFactory] = Registry("controller", "vhdiffuser.controllers")
"""Controllers by name: built-in, registered, or from installed packages."""
CONTROLLERS.add("pd", _make_pd)
CONTROLLERS.add("displacement", _make_displacement)
CONTROLLERS.add("inverse_dynamics", _make_inverse_dynamics)
CONTROLLERS.add("path_following", partial(_make_inverse_dynamics, by_path=True))


def register_controller(name: str, factory: ControllerFactory, replace: bool = False) -> None:
    """Register a controller under the name that an `Environment` uses for it."""
    CONTROLLERS.register(name, factory, replace)


def make_controller(name: str, spec: EnvSpec, model: Path | None = None) -> Controller:
    """Create the controller of this name for an environment."""
    return CONTROLLERS.get(name)(spec, model)


def default_controller(spec: EnvSpec, source: Source = "auto", name: str | None = None) -> Controller:
    """The environment's controller, or the one with this name. `source` selects the inverse dynamics model (default:
    yours if you trained one, otherwise the shipped one)."""
    environment = environment_of(spec)
    if name is not None:
        environment = replace(environment, controller=name)
    name = environment.controller
    if not environment.learns_control:
        return make_controller(name, spec)
    path = find_model(spec.name, "dynamics", source)
    if not path.is_file() and spec.action_dim == 0:
        raise VhdError(
            f"{spec.name}: its data has no actions, so no controller can be learned. Pass a controller of your own."
        )
    if not path.is_file():
        raise VhdError(f"{spec.name}: no inverse dynamics model. Train it with `vhd train dynamics {spec.name}`.")
    return make_controller(name, spec, path)


def reference_states(plans: Sequence[Plan], indices: IntArray, ahead: int = 1) -> FloatArray:
    """(B, d) states `ahead` steps after each plan's index, or its last state."""
    steps = (np.asarray(indices) + ahead).tolist()
    return np.stack([plan.states[min(step, plan.length - 1)] for plan, step in zip(plans, steps, strict=True)])
