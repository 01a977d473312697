"""The registry of environments.

A name is looked up among registered environments (by `register`, or by a package's entry point in the group
`vhdiffuser.environments`), then among imported datasets. References such as `my_robot.py:make` and
`package.module:make` name a file or module and, in it, an Environment, several of them, or a function that returns
them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vhdiffuser.arguments import shown
from vhdiffuser.data.store import dataset_path, saved_facts, saved_names
from vhdiffuser.envs.checked import foreign_code
from vhdiffuser.envs.environment import Environment
from vhdiffuser.envs.gym_ids import register_id
from vhdiffuser.envs.references import load_attribute
from vhdiffuser.errors import UnknownNameError, VhdError
from vhdiffuser.extensions import Registry
from vhdiffuser.files import checked_name
from vhdiffuser.types import EnvSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OURS = (
    "vhdiffuser.envs.maze2d.environments:ENVIRONMENTS",
    "vhdiffuser.envs.antmaze.environments:ENVIRONMENTS",
    "vhdiffuser.envs.cube.environments:ENVIRONMENTS",
    "vhdiffuser.envs.pointmaze.environments:ENVIRONMENTS",
    "vhdiffuser.envs.antmaze.environments:OGBENCH",
)
"""The paper's five environments and OGBench's mazes, as references like any other."""


class _Environments(Registry[Environment]):
    """Environments by name, each with a Gymnasium id; an entry point may provide several."""

    _ours_loaded = False

    def __init__(self, kind: str, group: str) -> None:
        super().__init__(kind, group)
        self.references: dict[str, str] = {}

    def add(self, name: str, value: Environment, replace: bool = False) -> Environment:
        super().add(name, value, replace)
        self.references.pop(name, None)
        if value.simulator is not None and "gymnasium" in sys.modules:  # otherwise when Gymnasium is imported
            register_id(value)
        return value

    def check(self, name: str, value: Environment) -> None:
        checked_name("environment", name)

    def read(self, point: EntryPoint) -> dict[str, Environment]:
        return {environment.name: environment for environment in load_reference(point.value)}

    def load_ours(self) -> None:
        """Add the built-in environments, once."""
        if not self._ours_loaded:
            self._ours_loaded = True
            for reference in OURS:
                for environment in load_reference(reference):
                    self.add(environment.name, environment, replace=True)

    def _load_packages(self) -> None:
        self.load_ours()
        super()._load_packages()


_environments = _Environments("environment", "vhdiffuser.environments")


def register(environment: Environment, replace: bool = False) -> Environment:
    """Register an environment by its name, for the library, all commands and Gymnasium. Returns it."""
    if not isinstance(environment, Environment):
        raise VhdError(f"register needs a vhdiffuser.Environment; got {type(environment).__name__}.")
    return _environments.register(environment.name, environment, replace)


def environments() -> MappingProxyType[str, Environment]:
    """All registered environments, by name."""
    return _environments.values()


def known_names() -> list[str]:
    """Registered environments, then imported datasets."""
    registered = list(environments())
    return [*registered, *(name for name in saved_names() if name not in registered)]


def get_environment(name: str) -> Environment:
    """Return the environment with this name, of an imported dataset, or from a reference such as `my_robot.py:make`.

    Raises `UnknownNameError` if there is none.
    """
    if not isinstance(name, str):
        raise VhdError(f"pass an environment's name, or file.py:function; got {shown(name)}.")
    if name.endswith(".py") and Path(name).is_file():
        raise VhdError(f"{name}: add the function in it that creates the environment, e.g. {name}:make.")
    if ":" in name:
        found = load_reference(name)
        if len(found) != 1:
            raise VhdError(
                f"{name} provides {len(found)} environments: {', '.join(item.name for item in found)}. Exactly one "
                "is required."
            )
        environment = _environments.add(found[0].name, found[0], replace=True)
        _environments.references[environment.name] = name
        return environment
    if name in environments():
        return environments()[name]
    if dataset_path(name).is_file():
        return _of_dataset(name)
    raise UnknownNameError("environment or dataset", name, known_names())


def reference_of(name: str) -> str:
    """What another process finds an environment by: the reference that it came from, otherwise its name."""
    return _environments.references.get(name, name)


def find_environment(name: str) -> Environment | None:
    """The environment of this name; None if unknown. Never imports third-party code, since names may come from
    files."""
    if ":" in name:
        return None
    try:
        return get_environment(name)
    except VhdError:
        return None


def environment_of(spec: EnvSpec) -> Environment:
    """The environment of a spec, or a new one that has only the spec."""
    return find_environment(spec.name) or Environment(spec)


def get_spec(name: str) -> EnvSpec:
    """The spec of an environment."""
    return get_environment(name).spec


def _of_dataset(name: str) -> Environment:
    """The environment of a dataset that was imported, or built for a custom maze."""
    spec, details = saved_facts(name)
    if "maze" in details:
        from vhdiffuser.envs.maze2d.environments import make_maze

        return make_maze(details["maze"], name, epsilon=spec.epsilon, T_max=spec.T_max)
    from vhdiffuser.envs.recorded import HELD_OUT, RecordedStates, planning_of

    return Environment(
        spec,
        recorded=partial(RecordedStates.of_name, name),
        held_out=HELD_OUT,
        recipes={"default": {"planning": planning_of(spec)}},
    )


def load_reference(reference: str) -> tuple[Environment, ...]:
    """Environments that `file.py:attribute` or `package.module:attribute` refers to."""
    value = load_attribute("environment", reference)
    if callable(value) and not isinstance(value, Environment):
        with foreign_code(f"environment '{reference}': {reference.rpartition(':')[2]}()"):
            value = value()
    found = (value,) if isinstance(value, Environment) else tuple(value) if isinstance(value, Iterable) else ()
    if not found or not all(isinstance(item, Environment) for item in found):
        raise VhdError(f"environment '{reference}' must be, or return, one or more vhdiffuser.Environment.")
    return found


def register_ids() -> None:
    """Register the Gymnasium ids of all environments so far; called once both Gymnasium and `vhdiffuser` are
    imported."""
    _environments.load_ours()
    for environment in _environments.registered():
        if environment.simulator is not None:
            register_id(environment)
