"""Which environments can be shown, and their models: loaded when first asked for, and kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from vhdiffuser.envs.base import InstanceSource, PlanningEnv
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.registry import get_environment, known_names
from vhdiffuser.errors import UnknownNameError, install_command
from vhdiffuser.execution.simulators import EnvFactory, Simulators
from vhdiffuser.types import EnvSpec
from vhdiffuser.web.limits import NotReady
from vhdiffuser.weights.places import Source, find_model, shipped_environments

if TYPE_CHECKING:
    from vhdiffuser.control.base import Controller
    from vhdiffuser.planner.planner import Planner


class SimulatorPool:
    """Simulators that are lent to one execution at a time. No more are made than are ever lent at once."""

    def __init__(self, make_env: EnvFactory, first: PlanningEnv) -> None:
        """`first` is lent first: a simulator takes up to seconds to make."""
        self._make_env = make_env
        self._idle: SimpleQueue[Simulators] = SimpleQueue()
        self._idle.put(Simulators(lambda: first, slots=1, workers=1))

    @contextmanager
    def lent(self) -> Iterator[Simulators]:
        """One simulator, for as long as the block lasts."""
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
    """Everything that is needed to plan and execute in one environment."""

    environment: Environment
    """The environment."""
    env: InstanceSource
    """Asked for random instances and whether a point is free: what no execution changes."""
    planner: Planner
    """The variable-horizon planner with its Length Predictor."""
    fixed: dict[int, Planner]
    """Planners that were trained for one horizon, by horizon; those that are there."""
    controller: Controller | None
    """Low-level controller; None where its model is missing."""
    pool: SimulatorPool | None
    """Simulators for executions; None where there is only data."""

    @property
    def spec(self) -> EnvSpec:
        """The environment's planning contract."""
        return self.environment.spec


@dataclass(frozen=True)
class Missing:
    """Commands that get what is not there: weights, or the simulator's extra."""

    to_plan: tuple[str, ...] = ()
    """Without these nothing can be planned."""
    to_execute: tuple[str, ...] = ()
    """Without these plans cannot be executed."""


@dataclass(frozen=True)
class Shelf:
    """One environment of the library."""

    name: str
    """Name in the registry."""
    missing: Callable[[], Missing]
    """Looks for weights and simulator."""
    load: Callable[[], Loaded]
    """Loads them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while loading, so that two visitors do not load twice."""


class Library:
    """All environments, by name."""

    def __init__(self, shelves: list[Shelf]) -> None:
        self._shelves = {shelf.name: shelf for shelf in shelves}
        self._loaded: dict[str, Loaded] = {}

    @classmethod
    def of_weights(cls, source: Source = "shipped") -> Library:
        """All environments and imported datasets, with the models that ship or those that the user has trained."""
        names = [name for name in known_names() if get_environment(name).spec.goal_dim > 1]  # the page is flat
        sources = {name: _source(name, source) for name in names}
        return cls([Shelf(name, partial(_missing, name, of), partial(_load, name, of)) for name, of in sources.items()])

    def listing(self) -> list[tuple[str, Missing]]:
        """Every environment, and what it lacks."""
        return [(name, shelf.missing()) for name, shelf in self._shelves.items()]

    def at_hand(self, name: str) -> Loaded | None:
        """The environment if it is loaded: answers at once."""
        if name not in self._shelves:
            raise UnknownNameError("environment", name[:64], list(self._shelves))
        return self._loaded.get(name)

    def get(self, name: str) -> Loaded:
        """The environment, loaded."""
        if (loaded := self.at_hand(name)) is not None:
            return loaded
        shelf = self._shelves[name]
        with shelf.lock:
            if name not in self._loaded:
                if commands := shelf.missing().to_plan:
                    raise NotReady(f"{name} is not ready: run {_spoken(commands)}.")
                loaded = shelf.load()
                _warm_up(loaded)
                self._loaded[name] = loaded
        return self._loaded[name]


def _warm_up(loaded: Loaded) -> None:
    """What a first plan imports takes seconds: let them pass while the page still says that it is loading."""
    centre = loaded.planner.normalizer.center
    loaded.planner.with_options(steps=1).plan(centre, loaded.spec.goal_of(centre), loaded.spec.L_min)


def _spoken(commands: tuple[str, ...]) -> str:
    return " and ".join(f"`{command}`" for command in commands)


def _source(name: str, source: Source) -> Source:
    """Where the models of one environment are: what ships with nothing can only have been trained."""
    return "trained" if source == "shipped" and name not in shipped_environments() else source


def _missing(name: str, source: Source) -> Missing:
    environment = get_environment(name)
    extra = environment.missing_extra
    absent = [kind for kind in ("planner", "length") if not find_model(name, kind, source).is_file()]
    learned = environment.simulator is not None and environment.controller == "inverse_dynamics"
    lacks_controller = learned and not find_model(name, "dynamics", source).is_file()
    return Missing(
        (*([install_command(extra)] if extra else []), *(f"vhd train {kind} {name}" for kind in absent)),
        (f"vhd train dynamics {name}",) if lacks_controller else (),
    )


def _load(name: str, source: Source) -> Loaded:
    from vhdiffuser.control.base import make_controller
    from vhdiffuser.planner.load import load_planner
    from vhdiffuser.planner.planner import Planner

    environment = get_environment(name)
    spec, env = environment.spec, environment.instance_source()
    paths = {horizon: find_model(name, "planner", source, horizon) for horizon in environment.horizons}
    dynamics = find_model(name, "dynamics", source)
    executes = isinstance(env, PlanningEnv) and (environment.controller != "inverse_dynamics" or dynamics.is_file())
    return Loaded(
        environment=environment,
        env=env,
        planner=load_planner(name, source=source, outside="ignore"),
        fixed={
            horizon: Planner.load(path, outside="ignore", lengths=(2, max(spec.T_max, horizon)))
            for horizon, path in paths.items()
            if path.is_file()
        },
        controller=(
            make_controller(environment.controller, spec, dynamics if dynamics.is_file() else None)
            if executes
            else None
        ),
        pool=SimulatorPool(environment.make, env) if isinstance(env, PlanningEnv) else None,
    )
