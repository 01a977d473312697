"""Everything known about an environment, in one object that all commands and figures use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vhdiffuser.arguments import shown
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
    """Radius of the body: its centre cannot get closer to a wall."""
    clearance: float | None = None
    """Distance of true shortest paths from walls (default: the radius)."""
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
    """A planning problem: everything known about it besides the planner.

    Only `spec` is required: data without a simulator is an environment too. `vhdiffuser.register` makes an
    environment available by name to all commands.
    """

    spec: EnvSpec
    """What a planner needs: state, goal, tolerance, longest and shortest plan."""
    simulator: Callable[[], PlanningEnv] | None = None
    """Creates a simulator; must be importable, so that worker processes can call it. None: data only."""
    recorded: Callable[[], InstanceSource] | None = None
    """Draws instances from data, if there is no simulator."""
    held_out: float = 0.0
    """Share of the episodes held out for evaluation; 0 if a simulator draws fresh instances."""
    geometry: Geometry = field(default_factory=Geometry)
    """Walls or bounds, and how to draw them."""
    shortest_steps: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    """(n, goal_dim) starts and goals -> (n,) true shortest steps, if they are known: the truth of `vhd eval-length`."""
    grid_speed: float | None = None
    """Units per step of the grid that `vhd eval-length --diagnostic bands` takes as truth (default: fitted)."""
    controller: str = "inverse_dynamics"
    """Low-level controller: `pd`, `displacement`, `inverse_dynamics`, `path_following` (inverse dynamics along the
    plan's path, whatever its index), or the name of a registered one."""
    displacement: float | None = None
    """Units by which an action of 1 moves the robot per control step, if actions are displacements."""
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
    """Observations that never occur in the benchmark, to be left out of evaluations (default: falls)."""
    restore: Callable[[PlanningEnv, FloatArray, FloatArray], FloatArray] | None = None
    """(simulator, observation, goal) -> observation: sets a recorded state, to evaluate controllers on real paths."""
    teacher: Callable[[], Callable[[FloatArray, FloatArray], FloatArray]] | None = None
    """Creates the policy that made the data, if it can be had: (n, p) observations without position and (n, goal_dim)
    unit directions -> (n, m) actions. It labels data that inverse dynamics models train on; it never executes."""
    window_steps: int = 100
    """Control steps of the recorded paths that `vhd eval-dynamics` tracks."""
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
    """The extra that the simulator needs."""
    extra_module: str = ""
    """A module of that extra, to detect whether it is installed."""

    def __post_init__(self) -> None:
        if not isinstance(self.spec, EnvSpec):
            raise VhdError(f"`spec` of an Environment must be an EnvSpec, got {shown(self.spec)}.")
        kinds: dict[str, Any] = {"geometry": Geometry, "protocols": Mapping, "recipes": Mapping}
        kinds |= dict.fromkeys(("step_budget", "simulators", "window_steps"), int)
        for field_name, kind in kinds.items():
            if not isinstance(given := getattr(self, field_name), kind):
                raise VhdError(f"{self.name}: `{field_name}` must be a {kind.__name__}, got {shown(given)}.")
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
        """The spec's name, under which data, runs and results are stored."""
        return self.spec.name

    @property
    def learns_control(self) -> bool:
        """Whether its controller is an inverse dynamics model, which must be trained."""
        return self.controller in ("inverse_dynamics", "path_following")

    @property
    def missing_extra(self) -> str | None:
        """The extra that the simulator needs, if it is not installed."""
        return self.extra if self.extra is not None and find_spec(self.extra_module) is None else None

    def has_fallen(self, observations: FloatArray) -> BoolArray:
        """(..., o) -> (...,) whether the robot has fallen; False for robots that cannot fall."""
        return np.zeros(observations.shape[:-1], bool) if self.fallen is None else self.fallen(observations)

    def is_hindered(self, observations: FloatArray) -> BoolArray:
        """(..., o) -> (...,) observations that never occur in the benchmark: falls, unless stated otherwise."""
        return self.has_fallen(observations) if self.hindered is None else self.hindered(observations)

    def require_simulator(self) -> Callable[[], PlanningEnv]:
        """The simulator's factory; raises `VhdError` if there is only data."""
        if self.simulator is None:
            raise VhdError(
                f"{self.name}: there is data, but no simulator to execute plans in. `vhd train`, `vhd plan`, "
                "`vhd eval-length`, `vhd eval-plans` and `vhd serve` work without. To execute plans, drive the robot "
                "with vhdiffuser.Agent (docs/tutorials/2-log-to-closed-loop.md), or give an Environment with a "
                "simulator (`vhd bench my_robot.py:make`, or `vhdiffuser.register`; docs/extending.md)."
            )
        return self.simulator

    def make(self) -> PlanningEnv:
        """Create a simulator; raises `VhdError` if there is only data."""
        return make_simulator(self.require_simulator())

    def instance_source(self) -> InstanceSource:
        """The source of starts and goals: the simulator, or the data if there is none."""
        return self.make() if self.recorded is None else self.recorded()
