"""Low-level control: what turns a plan of states into actions, and the registry of those who can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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
    """Sees observations and plans, and nothing else: no goal, no simulator, no clock but the plan's index."""

    @abstractmethod
    def act(self, observations: FloatArray, plans: Sequence[Plan], indices: IntArray) -> FloatArray:
        """(B, o) observations, B plans, (B,) plan indices -> (B, m) actions.

        At index t the robot should be at `plan.states[t]`; the action leads towards `states[t + 1]`.
        From the last index on, the plan's last state is to be held. A row's action must not depend
        on the other rows.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name and settings as JSON can hold them: every result records the controller that made it."""


ControllerFactory = Callable[[EnvSpec, "Path | None"], Controller]
"""(environment, model file or None) -> controller."""


def _make_pd(spec: EnvSpec, model: Path | None) -> Controller:
    from vhdiffuser.control.pd import PDController

    return PDController(spec)


def _make_displacement(spec: EnvSpec, model: Path | None) -> Controller:
    from vhdiffuser.control.displacement import DisplacementController

    return DisplacementController(spec, environment_of(spec).displacement)


def _make_inverse_dynamics(spec: EnvSpec, model: Path | None) -> Controller:
    from vhdiffuser.control.inverse_dynamics import InverseDynamicsController

    if model is None:
        raise VhdError(
            f"{spec.name}: its controller is an inverse dynamics model, and no model file was given. "
            f"Train one with `vhd train dynamics {spec.name}`."
        )
    return InverseDynamicsController.load(model)


CONTROLLERS: Registry[ControllerFactory] = Registry("controller", "vhdiffuser.controllers")
"""Controllers by name: ours, registered ones, and those of installed packages."""
CONTROLLERS.add("pd", _make_pd)
CONTROLLERS.add("displacement", _make_displacement)
CONTROLLERS.add("inverse_dynamics", _make_inverse_dynamics)


def register_controller(name: str, factory: ControllerFactory, replace: bool = False) -> None:
    """Make a controller known by a name, under which an `Environment` asks for it."""
    CONTROLLERS.register(name, factory, replace)


def make_controller(name: str, spec: EnvSpec, model: Path | None = None) -> Controller:
    """The controller of that name for an environment."""
    return CONTROLLERS.get(name)(spec, model)


def default_controller(spec: EnvSpec, source: Source = "auto") -> Controller:
    """The environment's controller; an inverse dynamics model is the one that you trained or that ships, unless
    told."""
    name = environment_of(spec).controller
    if name != "inverse_dynamics":
        return make_controller(name, spec)
    path = find_model(spec.name, "dynamics", source)
    if not path.is_file() and spec.action_dim == 0:
        raise VhdError(f"{spec.name}: its data has no actions, so no controller can be learned. Give one of your own.")
    if not path.is_file():
        raise VhdError(f"{spec.name}: no inverse dynamics model. Make it with `vhd train dynamics {spec.name}`.")
    return make_controller(name, spec, path)


def reference_states(plans: Sequence[Plan], indices: IntArray, ahead: int = 1) -> FloatArray:
    """(B, d): each plan's state `ahead` steps after its index, the last one where the plan has ended."""
    steps = (np.asarray(indices) + ahead).tolist()
    return np.stack([plan.states[min(step, plan.length - 1)] for plan, step in zip(plans, steps, strict=True)])
