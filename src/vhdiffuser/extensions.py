"""Registries that users can extend, at run time or through an entry point of an installed package.

Environments, controllers and samplers have a `Registry` each. A package adds to one with an entry point in the
registry's group, which is loaded when a name is not built in.
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
    """Entry points of installed packages in a group."""
    from importlib.metadata import entry_points  # parses e-mail headers: a quarter of the time to a first plan

    return entry_points(group=group)


class Registry(Generic[T]):
    """Values by name, including those from installed packages."""

    def __init__(self, kind: str, group: str, ours: Mapping[str, str] | None = None) -> None:
        """`kind` names a value in messages, `group` is the entry-point group, and `ours` maps built-in names to
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
        """Like `register`, but without loading the entry points of installed packages first."""
        self.check(name, value)
        if not replace and (name in self._values or name in self._ours):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise VhdError(
                f"{article} {self.kind} named '{name}' is already registered. Choose another name or pass replace=True."
            )
        self._values[name] = value
        return value

    def check(self, name: str, value: T) -> None:
        """Raise `VhdError` if the name or the value cannot be registered."""
        if not name or name.split() != [name]:
            raise VhdError(f"the name of a {self.kind} must be one word without spaces; got '{name}'.")
        if not callable(value):
            raise VhdError(f"the {self.kind} '{name}' must be a function; got {type(value).__name__}.")

    def __contains__(self, name: str) -> bool:
        """Whether the name is known. Loads entry points only if it is not built in."""
        return name in self._ours or name in self._values or name in self.values()

    def require(self, name: str) -> None:
        """Raise `UnknownNameError` for an unknown name."""
        if name not in self:
            raise UnknownNameError(self.kind, name, self.names())

    def get(self, name: str) -> T:
        """Return the value registered under a name; raises `UnknownNameError`."""
        self.require(name)
        if name not in self._values:
            module, _, attribute = self._ours[name].partition(":")
            self._values[name] = getattr(import_module(module), attribute)
        return self._values[name]

    def names(self) -> list[str]:
        """All names, built-in ones first."""
        return list(dict.fromkeys([*self._ours, *self.values()]))

    def values(self) -> MappingProxyType[str, T]:
        """All values registered at run time or by packages."""
        self._load_packages()
        return MappingProxyType(self._values)

    def registered(self) -> list[T]:
        """All values registered so far, without loading entry points."""
        return list(self._values.values())

    def read(self, point: EntryPoint) -> Mapping[str, T]:
        """Values of an entry point: by default the object it refers to, under the entry point's name."""
        return {point.name: point.load()}

    def _load_packages(self) -> None:
        """Load all entry points once; one that fails is skipped with a warning."""
        if self._packages_loaded:
            return
        self._packages_loaded = True
        for point in entry_points(group=self.group):
            try:
                for name, value in self.read(point).items():
                    self.add(name, value)
            except Exception as error:  # third-party code may raise anything
                warn(f"skipped the {self.kind}s of entry point '{point.name}' ({point.value}): {error}")
