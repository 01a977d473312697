"""All that is known of an environment, in one object: what every command and every figure asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.data.build import Builder
from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import read_own
from vhdiffuser.envs.base import InstanceSource, PlanningEnv
from vhdiffuser.envs.checked import make_simulator
from vhdiffuser.envs.protocols import Protocol
from vhdiffuser.errors import VhdError
from vhdiffuser.types import BoolArray, EnvSpec, Episodes, FloatArray

Watch = Callable[[FloatArray], BoolArray]
"""(..., o) observations -> (...,) whether something is the case."""


@dataclass(frozen=True)
class Geometry:
    """Where the goal dimensions can be, and how to draw it. Used for drawing and for judging, never for planning."""

    walls: FloatArray = field(default_factory=lambda: np.zeros((0, 4)))
    """(n, 4) as x_low, x_high, y_low, y_high; none in open space."""
    bounds: FloatArray | None = None
    """(2, goal_dim) low and high corner of open space; a maze is bounded by its walls."""
    radius: float = 0.0
    """How near to a wall the body's centre can come."""
    clearance: float | None = None
    """Distance that the true shortest way keeps from walls (default: the radius)."""
    cell: Callable[[int, int], FloatArray] | None = None
    """Centre (2,) of a maze's cell in row i and column j."""
    unit: str = ""
    """What positions are measured in, for the axes of figures: "m", for example."""

    @property
    def is_maze(self) -> bool:
        """Whether there are walls."""
        return len(self.walls) > 0


@dataclass(frozen=True)
class Environment:
    """A planning problem, with everything beside the planner that is known of it.

    Only `spec` is needed: data without a simulator is an environment too. `vhdiffuser.register` makes an
    environment known by its name to every command.
    """

    spec: EnvSpec
    """What a planner must know: state, goal, tolerance, longest and shortest plan."""
    simulator: Callable[[], PlanningEnv] | None = None
    """Makes a simulator; an importable function, so that worker processes can call it. None: there is only data."""
    recorded: Callable[[], InstanceSource] | None = None
    """Draws instances from data, where there is no simulator."""
    held_out: float = 0.0
    """Share of the episodes that training leaves for evaluation; 0 where a simulator draws fresh instances."""
    geometry: Geometry = field(default_factory=Geometry)
    """Walls or bounds, and how to draw them."""
    controller: str = "inverse_dynamics"
    """Low-level controller: `pd`, `displacement`, `inverse_dynamics`, or the name of a registered one."""
    displacement: float | None = None
    """Units by which an action of 1 moves the robot in one control step, where actions are displacements."""
    horizons: tuple[int, ...] = ()
    """H1, H2, H3 of the fixed-horizon baselines (default: a quarter, a half and all of T_max)."""
    step_budget: int = 0
    """Control steps after which replan-on-deviation gives up (default: four times T_max)."""
    instances: str = "starts and goals are yours to give"
    """How random start/goal instances are drawn, in words."""
    distributions: tuple[str, ...] = ("reset", "uniform")
    """Ways in which the simulator draws instances."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Protocols of other benchmarks, by name, beside the paper's two."""
    official: OfficialFiles | None = None
    """Published data files."""
    builder: Builder | None = None
    """Makes the data anew."""
    reader: Callable[[Path], Episodes] = read_own
    """Reads a data file of this environment that the user has."""
    fallen: Watch | None = None
    """Whether the robot has fallen, from its observations."""
    hindered: Watch | None = None
    """Moments in the data that a benchmark never asks for (default: falls)."""
    restore: Callable[[PlanningEnv, FloatArray, FloatArray], FloatArray] | None = None
    """(simulator, observation, goal) -> observation: stand as recorded, for judging controllers on recorded paths."""
    window_steps: int = 100
    """Control steps of the recorded paths that `vhd eval-dynamics` follows."""
    simulators: int = 64
    """Simulators that fit into about 2 GB of memory together."""
    recipes: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """What differs from the general recipes: recipe name -> part (`planner`, `planning`, ...) -> field -> value."""
    goal_radius: float | None = None
    """Euclidean distance within which the Gymnasium task rewards (default: epsilon, in units)."""
    episode_steps: int | None = None
    """Steps of a Gymnasium episode (default: the step budget)."""
    fixed_goal: tuple[float, ...] | None = None
    """Goal of the Gymnasium task (default: drawn at each reset)."""
    extra: str | None = None
    """Our optional dependency that the simulator needs."""
    extra_module: str = ""
    """A module of it, whose absence means that it is not installed."""

    def __post_init__(self) -> None:
        shortest, T_max = self.spec.L_min, self.spec.T_max
        if not self.step_budget:
            object.__setattr__(self, "step_budget", 4 * T_max)
        if not self.horizons:
            object.__setattr__(self, "horizons", (max(shortest, T_max // 4), max(shortest, T_max // 2), T_max))
        if self.simulator is not None and not callable(self.simulator):
            kind = type(self.simulator).__name__
            raise VhdError(f"{self.name}: `simulator` must be a function or class that makes one, got {kind}.")
        if not isinstance(self.controller, str):
            raise VhdError(f"{self.name}: `controller` is the name of one (see `register_controller`).")
        if len(self.horizons) != 3:
            raise VhdError(f"{self.name}: the baselines have three horizons H1, H2, H3, got {self.horizons}.")
        if self.step_budget < 1 or self.simulators < 1 or self.window_steps < 1:
            raise VhdError(f"{self.name}: step_budget, simulators and window_steps must be at least 1.")

    @property
    def name(self) -> str:
        """The spec's name: under it data, runs and results are kept."""
        return self.spec.name

    @property
    def missing_extra(self) -> str | None:
        """The extra that the simulator needs and that is not installed."""
        return self.extra if self.extra is not None and find_spec(self.extra_module) is None else None

    def has_fallen(self, observations: FloatArray) -> BoolArray:
        """(..., o) -> (...,) whether the robot has fallen; never, for one that cannot."""
        return np.zeros(observations.shape[:-1], bool) if self.fallen is None else self.fallen(observations)

    def is_hindered(self, observations: FloatArray) -> BoolArray:
        """(..., o) -> (...,) moments that no benchmark asks for: falls, unless the environment says otherwise."""
        return self.has_fallen(observations) if self.hindered is None else self.hindered(observations)

    def require_simulator(self) -> Callable[[], PlanningEnv]:
        """What makes a simulator; an error where there is only data."""
        if self.simulator is None:
            raise VhdError(
                f"{self.name}: there is data, but no simulator to execute plans in. `vhd train`, `vhd plan`, "
                "`vhd eval-length`, `vhd eval-plans` and `vhd serve` work without; to execute, give an Environment "
                "with a simulator (`vhd bench my_robot.py:make`, or `vhdiffuser.register`; docs/extending.md)."
            )
        return self.simulator

    def make(self) -> PlanningEnv:
        """A simulator; an error where there is only data."""
        return make_simulator(self.require_simulator())

    def instance_source(self) -> InstanceSource:
        """What draws starts and goals: the simulator, or the data where there is none."""
        return self.make() if self.recorded is None else self.recorded()
