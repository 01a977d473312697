"""What goes by name and is open to others: registered in a program, or brought by an installed package.

Environments, controllers and samplers are kept in a `Registry` each. A package adds to one by an entry point of the
registry's group; it is imported when a name is asked for that is not ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Generic, TypeVar

from vhdiffuser.errors import UnknownNameError, VhdError, warn

T = TypeVar("T")


class Registry(Generic[T]):
    """Values by name, those of installed packages among them."""

    def __init__(self, kind: str, group: str, ours: Mapping[str, str] | None = None) -> None:
        """`kind` is what messages call a value, `group` the entry-point group of packages that bring some. `ours` are
        the built-in ones as `module:attribute`, imported when they are first used."""
        self.kind, self.group = kind, group
        self._values: dict[str, T] = {}
        self._ours = {name: EntryPoint(name, value, group) for name, value in (ours or {}).items()}
        self._packages_loaded = False

    def register(self, name: str, value: T, replace: bool = False) -> T:
        """Make a value known by its name."""
        self._load_packages()
        return self.add(name, value, replace)

    def add(self, name: str, value: T, replace: bool = False) -> T:
        """`register` without a look at installed packages: what they bring comes after."""
        self.check(name, value)
        if not replace and (name in self._values or name in self._ours):
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise VhdError(
                f"{article} {self.kind} named '{name}' is registered already; choose another name, or replace=True."
            )
        self._values[name] = value
        return value

    def check(self, name: str, value: T) -> None:
        """Refuse what cannot be registered."""
        if not name or name.split() != [name]:
            raise VhdError(f"the name of a {self.kind} is one word without blanks, got '{name}'.")
        if not callable(value):
            raise VhdError(f"the {self.kind} '{name}' must be a function, got {type(value).__name__}.")

    def __contains__(self, name: str) -> bool:
        """Whether there is such a name; packages are imported only where it is not ours."""
        return name in self._ours or name in self._values or name in self.values()

    def require(self, name: str) -> None:
        """Refuse a name that there is not."""
        if name not in self:
            raise UnknownNameError(self.kind, name, self.names())

    def get(self, name: str) -> T:
        """The value of a name."""
        self.require(name)
        if name not in self._values:
            self._values[name] = self._ours[name].load()
        return self._values[name]

    def names(self) -> list[str]:
        """All names, ours first."""
        return list(dict.fromkeys([*self._ours, *self.values()]))

    def values(self) -> MappingProxyType[str, T]:
        """All that was registered or brought by packages."""
        self._load_packages()
        return MappingProxyType(self._values)

    def read(self, point: EntryPoint) -> Mapping[str, T]:
        """What an entry point brings: what it refers to, under its name."""
        return {point.name: point.load()}

    def _load_packages(self) -> None:
        """Read the entry points, once; a package that fails is named and left out."""
        if self._packages_loaded:
            return
        self._packages_loaded = True
        for point in entry_points(group=self.group):
            try:
                for name, value in self.read(point).items():
                    self.add(name, value)
            except Exception as error:  # it is somebody else's code
                warn(f"the {self.kind}s of entry point '{point.name}' ({point.value}) are left out: {error}")
