"""Registries that users can extend: by a call at run time, or by an entry point of an installed package.

Environments, controllers and samplers have a `Registry` each. A package adds to one with an entry point in the
registry's group; it is imported when a name is looked up that is not built in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from vhdiffuser.errors import UnknownNameError, VhdError, warn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def entry_points(group: str) -> Iterable[EntryPoint]:
    """Those of installed packages in a group."""
    from importlib.metadata import entry_points  # with the e-mail parser: a quarter of the time to a first plan

    return entry_points(group=group)


class Registry(Generic[T]):
    """Values by name, including those of installed packages."""

    def __init__(self, kind: str, group: str, ours: Mapping[str, str] | None = None) -> None:
        """`kind` names a value in messages; `group` is the entry-point group; `ours` are the built-in values as
        `module:attribute`, imported on first use."""
        self.kind, self.group = kind, group
        self._values: dict[str, T] = {}
        self._ours = dict(ours or {})
        self._packages_loaded = False

    def register(self, name: str, value: T, replace: bool = False) -> T:
        """Register a value under a name."""
        self._load_packages()
        return self.add(name, value, replace)

    def add(self, name: str, value: T, replace: bool = False) -> T:
        """`register` without first loading the entry points of installed packages."""
        self.check(name, value)
        if not replace and (name in self._values or name in self._ours):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise VhdError(
                f"{article} {self.kind} named '{name}' is registered already; choose another name, or replace=True."
            )
        self._values[name] = value
        return value

    def check(self, name: str, value: T) -> None:
        """Raise `VhdError` for a name or value that cannot be registered."""
        if not name or name.split() != [name]:
            raise VhdError(f"the name of a {self.kind} is one word without blanks, got '{name}'.")
        if not callable(value):
            raise VhdError(f"the {self.kind} '{name}' must be a function, got {type(value).__name__}.")

    def __contains__(self, name: str) -> bool:
        """Whether the name is known; entry points are loaded only if it is not built in."""
        return name in self._ours or name in self._values or name in self.values()

    def require(self, name: str) -> None:
        """Raise `UnknownNameError` for an unknown name."""
        if name not in self:
            raise UnknownNameError(self.kind, name, self.names())

    def get(self, name: str) -> T:
        """The value registered under a name."""
        self.require(name)
        if name not in self._values:
            module, _, attribute = self._ours[name].partition(":")
            self._values[name] = getattr(import_module(module), attribute)
        return self._values[name]

    def names(self) -> list[str]:
        """All names, built-in ones first."""
        return list(dict.fromkeys([*self._ours, *self.values()]))

    def values(self) -> MappingProxyType[str, T]:
        """Everything registered at run time or by packages."""
        self._load_packages()
        return MappingProxyType(self._values)

    def registered(self) -> list[T]:
        """Everything registered so far, without loading the entry points of installed packages."""
        return list(self._values.values())

    def read(self, point: EntryPoint) -> Mapping[str, T]:
        """The values of an entry point: by default the object it refers to, under the entry point's name."""
        return {point.name: point.load()}

    def _load_packages(self) -> None:
        """Load the entry points once; one that fails is skipped with a warning."""
        if self._packages_loaded:
            return
        self._packages_loaded = True
        for point in entry_points(group=self.group):
            try:
                for name, value in self.read(point).items():
                    self.add(name, value)
            except Exception as error:  # third-party code may raise anything
                warn(f"the {self.kind}s of entry point '{point.name}' ({point.value}) are left out: {error}")
