"""Everything known about an environment, in one object used by all commands and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.arguments import as_amount, shown
from vhdiffuser.data.build import Builder
from vhdiffuser.data.official import OfficialFiles
from vhdiffuser.data.readers import read_own
from vhdiffuser.envs.base import InstanceSource, PlanningEnv
from vhdiffuser.envs.checked import make_simulator
from vhdiffuser.envs.protocols import Protocol
from vhdiffuser.errors import VhdError
from vhdiffuser.types import BoolArray, EnvSpec, Episodes, FloatArray

Watch = Callable[[FloatArray], BoolArray]
"""(..., o) observations -> (...,) bool."""


@dataclass(frozen=True)
class Geometry:
    """Free space of the goal dimensions. Used for drawing and evaluation, never for planning."""

    walls: FloatArray = field(default_factory=lambda: np.zeros((0, 4)))
    """(n, 4) as x_low, x_high, y_low, y_high; empty in open space."""
    bounds: FloatArray | None = None
    """(2, goal_dim) lower and upper corner of open space; a maze is bounded by its walls."""
    radius: float = 0.0
    """Radius of the body: its centre cannot come closer to a wall."""
    clearance: float | None = None
    """Distance of true shortest paths from walls (default: the radius)."""
    cell: Callable[[int, int], FloatArray] | None = None
    """Centre (2,) of a maze's cell in row i and column j."""
    unit: str = ""
    """Unit of positions, for the axes of figures, e.g. "m"."""

    @property
    def is_maze(self) -> bool:
        """Whether there are walls."""
        return len(self.walls) > 0


@dataclass(frozen=True)
class Environment:
    """A planning problem: everything known about it besides the planner.

    Only `spec` is required: data without a simulator is an environment as well. `vhdiffuser.register` makes an
    environment available by name to all commands. Raises `VhdError` for invalid fields.
    """

    spec: EnvSpec
    """What a planner needs: state, goal, tolerance, maximum and minimum plan length."""
    simulator: Callable[[], PlanningEnv] | None = None
    """Creates a simulator. Must be importable, since worker processes call it. None means data only."""
    recorded: Callable[[], InstanceSource] | None = None
    """Draws instances from data, if there is no simulator."""
    held_out: float = 0.0
    """Fraction of episodes held out for evaluation; 0 if a simulator draws fresh instances."""
    geometry: Geometry = field(default_factory=Geometry)
    """Walls or bounds, and how to draw them."""
    shortest_steps: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    """(n, goal_dim) starts and goals -> (n,) true shortest steps, if known: the truth for `vhd eval-length`."""
    grid_speed: float | None = None
    """Units per step of the grid used as truth by `vhd eval-length --diagnostic bands` (default: fitted)."""
    controller: str = "inverse_dynamics"
    """Low-level controller: `pd`, `displacement`, `inverse_dynamics`, `path_following` (inverse dynamics along the
    plan's path, whatever its index), or the name of a registered one."""
    pd_gains: tuple[float, float] | None = None
    """Gains (k_p, k_d) of the controller `pd`: action per unit of position error, and per unit/s of velocity error
    (default: those of maze2d's ball)."""
    displacement: float | None = None
    """Distance, in units, that an action of 1 moves the robot per control step, if actions are displacements."""
    horizons: tuple[int, ...] = ()
    """H1, H2, H3 of the fixed-horizon baselines (default: a quarter, a half and all of T_max)."""
    step_budget: int = 0
    """Step budget of replan-on-deviation (default: four times T_max)."""
    instances: str = "starts and goals are yours to give"
    """Description of how random instances are drawn."""
    distributions: tuple[str, ...] = ("reset", "uniform")
    """Distributions from which the simulator can draw instances."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Protocols of other benchmarks, by name, besides the paper's two."""
    official: OfficialFiles | None = None
    """Published data files."""
    builder: Builder | None = None
    """Regenerates the data."""
    reader: Callable[[Path], Episodes] = read_own
    """Reads a local data file of this environment."""
    fallen: Watch | None = None
    """Whether the robot has fallen, from its observations."""
    hindered: Watch | None = None
    """Observations that never occur in the benchmark, to be excluded from evaluations (default: falls)."""
    restore: Callable[[PlanningEnv, FloatArray, FloatArray], FloatArray] | None = None
    """(simulator, observation, goal) -> observation: restores a recorded state, to evaluate controllers on real
    paths."""
    teacher: Callable[[], Callable[[FloatArray, FloatArray], FloatArray]] | None = None
    """Creates the policy that generated the data, if available: (n, p) observations without position and (n, goal_dim)
    unit directions -> (n, m) actions. It labels data for inverse dynamics models and never executes plans."""
    window_steps: int = 100
    """Length, in control steps, of the recorded paths tracked by `vhd eval-dynamics`."""
    simulators: int = 64
    """Number of simulators that fit into about 2 GB of memory."""
    recipes: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Changes to the general recipes: recipe name -> part (`planner`, `planning`, ...) -> field -> value."""
    goal_radius: float | None = None
    """Goal radius of the Gymnasium task's reward, Euclidean (default: epsilon, in units)."""
    episode_steps: int | None = None
    """Steps per Gymnasium episode (default: the step budget)."""
    fixed_goal: tuple[float, ...] | None = None
    """Fixed goal of the Gymnasium task (default: drawn at each reset)."""
    extra: str | None = None
    """Extra that the simulator needs."""
    extra_module: str = ""
    """A module of that extra, to detect whether it is installed."""

    def __post_init__(self) -> None:
        if not isinstance(self.spec, EnvSpec):
            raise VhdError(f"`spec` of an Environment must be an EnvSpec; got {shown(self.spec)}.")
        kinds: dict[str, Any] = {"geometry": Geometry, "protocols": Mapping, "recipes": Mapping}
        kinds |= dict.fromkeys(("step_budget", "simulators", "window_steps"), int)
        for field_name, kind in kinds.items():
            if not isinstance(given := getattr(self, field_name), kind):
                raise VhdError(f"{self.name}: `{field_name}` must be a {kind.__name__}; got {shown(given)}.")
        shortest, T_max = self.spec.L_min, self.spec.T_max
        if not self.step_budget:
            object.__setattr__(self, "step_budget", 4 * T_max)
        if not self.horizons:
            object.__setattr__(self, "horizons", (max(shortest, T_max // 4), max(shortest, T_max // 2), T_max))
        if self.simulator is not None and not callable(self.simulator):
            kind = type(self.simulator).__name__
            raise VhdError(f"{self.name}: `simulator` must be a function or class that creates one; got {kind}.")
        if not isinstance(self.controller, str):
            raise VhdError(f"{self.name}: `controller` must be the name of a controller (see `register_controller`).")
        if self.pd_gains is not None:
            if not isinstance(self.pd_gains, tuple | list) or len(self.pd_gains) != 2:
                raise VhdError(f"{self.name}: `pd_gains` must be two numbers (k_p, k_d); got {shown(self.pd_gains)}.")
            k_p, k_d = (as_amount(f"{self.name}: `pd_gains`", gain) for gain in self.pd_gains)
            object.__setattr__(self, "pd_gains", (k_p, k_d))
        if len(self.horizons) != 3:
            raise VhdError(f"{self.name}: the baselines need three horizons H1, H2, H3; got {self.horizons}.")
        if self.step_budget < 1 or self.simulators < 1 or self.window_steps < 1:
            raise VhdError(f"{self.name}: step_budget, simulators and window_steps must be >= 1.")

    @property
    def name(self) -> str:
        """The spec's name, under which data, runs and results are stored."""
        return self.spec.name

    @property
    def learns_control(self) -> bool:
        """Whether its controller is an inverse dynamics model, which must be trained."""
        return self.controller in ("inverse_dynamics", "path_following")

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable dict of the spec and of what commands and protocols need."""
        return {
            **self.spec.to_json(),
            "horizons": list(self.horizons),
            "controller": self.controller,
            "step_budget": self.step_budget,
            "transitions": None if self.builder is None else self.builder.transitions,
            "instances": self.instances,
            "protocols": ["ss", "rp", *self.protocols],
            "simulator": self.simulator is not None,
        }

    @property
    def missing_extra(self) -> str | None:
        """The extra that the simulator needs, if it is not installed; otherwise None."""
        return self.extra if self.extra is not None and find_spec(self.extra_module) is None else None

    def has_fallen(self, observations: FloatArray) -> BoolArray:
        """Whether the robot has fallen, (..., o) -> (...,); False for robots that cannot fall."""
        return np.zeros(observations.shape[:-1], bool) if self.fallen is None else self.fallen(observations)

    def is_hindered(self, observations: FloatArray) -> BoolArray:
        """Whether observations (..., o) never occur in the benchmark, (...,): falls, unless defined otherwise."""
        return self.has_fallen(observations) if self.hindered is None else self.hindered(observations)

    def require_simulator(self) -> Callable[[], PlanningEnv]:
        """The simulator's factory; raises `VhdError` if there is only data."""
        if self.simulator is None:
            raise VhdError(
                f"{self.name} has data but no simulator to execute plans in. `vhd train`, `vhd plan`, `vhd "
                "eval-length`, `vhd eval-plans` and `vhd serve` work without one. To execute plans, drive the "
                "robot with vhdiffuser.Agent (docs/tutorials/2-log-to-closed-loop.md), or define an "
                "Environment with a simulator (`vhd bench my_robot.py:make`, or `vhdiffuser.register`; "
                "docs/extending.md)."
            )
        return self.simulator

    def make(self) -> PlanningEnv:
        """Create a simulator; raises `VhdError` if there is only data."""
        return make_simulator(self.require_simulator())

    def instance_source(self) -> InstanceSource:
        """The source of starts and goals: the simulator or, without one, the data."""
        return self.make() if self.recorded is None else self.recorded()
