"""Environments available to the page and their models, loaded on first use and cached."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.envs.base import InstanceSource, PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment, known_names
from vhdiffuser.errors import UnknownNameError, install_command
from vhdiffuser.execution.simulators import EnvFactory, Simulators
from vhdiffuser.types import EnvSpec, FloatArray
from vhdiffuser.web.limits import NotReady
from vhdiffuser.weights.places import Source, find_model, shipped_environments

if TYPE_CHECKING:
    from vhdiffuser.control.base import Controller
    from vhdiffuser.planner.planner import Planner


_log = logging.getLogger(__name__)

_FIELD = 256
"""Pairs of the first distances predicted: enough that those of a distance field are found in the same way."""


class SimulatorPool:
    """Simulators, each used by one execution at a time and created on demand."""

    def __init__(self, make_env: EnvFactory, first: PlanningEnv) -> None:
        """`first` is an existing simulator, used first because creating one can take seconds."""
        self.first = first
        self._make_env = make_env
        self._idle: SimpleQueue[Simulators] = SimpleQueue()
        self._idle.put(Simulators(lambda: first, slots=1, workers=1))

    @contextmanager
    def lent(self) -> Iterator[Simulators]:
        """Borrow one simulator for the duration of the block."""
        try:
            simulators = self._idle.get_nowait()
        except Empty:
            simulators = Simulators(self._make_env, slots=1, workers=1)
        try:
            yield simulators
        finally:
            self._idle.put(simulators)


@dataclass(frozen=True)
class Loaded:
    """Everything needed to plan and execute in one environment."""

    environment: Environment
    """The environment."""
    env: InstanceSource
    """Draws random instances and checks for free space; its state does not change."""
    planner: Planner
    """The variable-horizon planner with its Length Predictor."""
    fixed: dict[int, Planner]
    """Available fixed-horizon planners, by horizon."""
    controller: Controller | None
    """Low-level controller; None if its model is missing."""
    pool: SimulatorPool | None
    """Simulators for executions; None without a simulator."""
    new_walls: FloatArray | None = None
    """(n, 2, 2) lower and upper corners of walls that are not in the planner's training data."""

    @property
    def spec(self) -> EnvSpec:
        """The environment's spec."""
        return self.environment.spec


@dataclass(frozen=True)
class Missing:
    """Commands that provide what is missing: weights, or the simulator's extra."""

    to_plan: tuple[str, ...] = ()
    """Needed to plan."""
    to_execute: tuple[str, ...] = ()
    """Needed to execute plans."""


@dataclass(frozen=True)
class Entry:
    """One environment in the library."""

    name: str
    """Name in the registry."""
    missing: Callable[[], Missing]
    """Reports missing weights or simulators."""
    load: Callable[[], Loaded]
    """Loads the environment."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while loading, so that concurrent requests load once."""


class Library:
    """All environments, by name."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._loaded: dict[str, Loaded] = {}
        self._failed: dict[str, Exception] = {}

    @classmethod
    def of_weights(cls, source: Source = "shipped") -> Library:
        """All environments and imported datasets, with shipped or user-trained models."""
        names = [
            name for name in known_names() if get_environment(name).spec.goal_dim > 1
        ]  # the page draws at most three dimensions
        sources = {name: _source(name, source) for name in names}
        return cls([Entry(name, partial(_missing, name, of), partial(_load, name, of)) for name, of in sources.items()])

    def listing(self) -> list[tuple[str, Missing]]:
        """All environments with what each of them lacks."""
        return [(name, entry.missing()) for name, entry in self._entries.items()]

    def if_loaded(self, name: str) -> Loaded | None:
        """The environment if it is loaded, otherwise None."""
        if name not in self._entries:
            raise UnknownNameError("environment", name[:64], list(self._entries))
        return self._loaded.get(name)

    def load_in_background(self, name: str) -> None:
        """Start loading an environment unless that is in progress. Raises the error of the last attempt, if it
        failed."""
        entry = self._entries[name]
        if commands := entry.missing().to_plan:
            raise NotReady(f"{name} is not ready: run {_spoken(commands)}.")
        if (error := self._failed.pop(name, None)) is not None:
            raise error
        if not entry.lock.locked():
            threading.Thread(target=self._load, args=(name,), daemon=True).start()

    def _load(self, name: str) -> None:
        try:
            self.get(name)
        except Exception as error:  # raised for the next request
            self._failed[name] = error

    def get(self, name: str) -> Loaded:
        """Return the environment, loading it if necessary."""
        if (loaded := self.if_loaded(name)) is not None:
            return loaded
        entry = self._entries[name]
        with entry.lock:
            if name not in self._loaded:
                if commands := entry.missing().to_plan:
                    raise NotReady(f"{name} is not ready: run {_spoken(commands)}.")
                loaded = entry.load()
                _warm_up(loaded)
                self._loaded[name] = loaded
        return self._loaded[name]


def _warm_up(loaded: Loaded) -> None:
    """Compute a few plans while the page shows its loading state: imports take seconds, and networks for each plan
    length are built on first use. A worker takes its memory here, not while it serves."""
    spec, centre = loaded.spec, loaded.planner.normalizer.center
    planner = loaded.planner.with_options(steps=1)
    length = spec.L_min
    while length < spec.T_max:
        planner.plan(centre, spec.goal_of(centre), length)
        length *= 2
    planner.plan(centre, spec.goal_of(centre), spec.T_max)
    if planner.length_predictor is None:
        return
    pair = loaded.env.sample_instance(np.random.default_rng(0))
    made = loaded.planner.plan(pair.start, pair.goal)  # along a route, where there are routes
    loaded.planner.horizon(pair.start, pair.goal, made.length)
    starts, goals = np.tile(pair.start, (_FIELD, 1)), np.tile(pair.goal, (_FIELD, 1))
    planner.length_predictor.predict_steps(starts, goals)


def _spoken(commands: tuple[str, ...]) -> str:
    return " and ".join(f"`{command}`" for command in commands)


def _source(name: str, source: Source) -> Source:
    """Source of an environment's models: without shipped weights, they must have been trained."""
    return "trained" if source == "shipped" and name not in shipped_environments() else source


def _missing(name: str, source: Source) -> Missing:
    environment = get_environment(name)
    extra = environment.missing_extra
    absent = [kind for kind in ("planner", "length") if not find_model(name, kind, source).is_file()]
    learned = environment.simulator is not None and environment.learns_control
    lacks_controller = learned and not find_model(name, "dynamics", source).is_file()
    return Missing(
        (*([install_command(extra)] if extra else []), *(f"vhd train {kind} {name}" for kind in absent)),
        (f"vhd train dynamics {name}",) if lacks_controller else (),
    )


def _load(name: str, source: Source) -> Loaded:
    from vhdiffuser.control.base import default_controller
    from vhdiffuser.planner.calibrated import belongs
    from vhdiffuser.planner.load import load_planner
    from vhdiffuser.planner.planner import Planner

    environment = get_environment(name)
    spec, env = environment.spec, environment.instance_source()
    paths = {horizon: find_model(name, "planner", source, horizon) for horizon in environment.horizons}
    dynamics = find_model(name, "dynamics", source)
    executes = isinstance(env, PlanningEnv) and (not environment.learns_control or dynamics.is_file())
    planner = load_planner(name, source=source, outside="ignore")
    if planner.calibration is not None and not belongs(planner, planner.calibration):
        _log.warning(
            "%s: its calibration belongs to other weights, so risk and deadline are disabled. Run `vhd calibrate %s`.",
            name,
            name,
        )
        planner.calibration = None
    return Loaded(
        environment=environment,
        env=env,
        planner=planner,
        fixed={
            horizon: Planner.load(path, outside="ignore", lengths=(2, max(spec.T_max, horizon)))
            for horizon, path in paths.items()
            if path.is_file()
        },
        controller=default_controller(spec, source) if executes else None,
        pool=SimulatorPool(environment.make, env) if isinstance(env, PlanningEnv) else None,
    )
