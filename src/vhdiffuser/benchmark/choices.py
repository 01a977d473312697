"""Planners and controller of a benchmark, built from what the user named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from vhdiffuser.benchmark.methods import (
    TABLE_METHODS,
    AnyChoice,
    ForeignChoice,
    controller_for,
    load_method,
    missing_methods,
)
from vhdiffuser.control.base import Controller, default_controller
from vhdiffuser.control.pd import PDConfig, PDController
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.errors import DataError, VhdError
from vhdiffuser.planner.foreign import foreign_planner
from vhdiffuser.weights.places import Source


@dataclass(frozen=True)
class Choices:
    """Our methods and third-party planners, as named by a user."""

    environment: str
    """Name of the environment."""
    methods: tuple[str, ...] = ()
    """Our methods; if empty, all methods of the table with existing weights, or none if there are third-party
    planners."""
    planners: tuple[str, ...] = ()
    """References to third-party planners: file.py:name or package.module:name."""
    source: Source = "auto"
    """Where to look for models."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Planning options of our methods; None keeps the planner's own."""
    controller: str | None = None
    """Name of the controller; None means the environment's (by index for the recipe `paper`)."""
    gains: Mapping[str, float | None] = field(default_factory=dict)
    """Gains of the PD controller (`PDConfig`); None keeps the environment's."""

    def skipped(self) -> dict[str, DataError]:
        """Methods of the table that lack weights, each with the command to train them."""
        if self.methods or self.planners:
            return {}
        missing = missing_methods(get_environment(self.environment), self.source)
        if len(missing) == len(TABLE_METHODS):
            raise missing["vhd"]
        return missing

    def names(self) -> tuple[str, ...]:
        """Names of all planners to run, methods first."""
        if self.methods or not self.planners:
            skipped = self.skipped()
            return (*(self.methods or (name for name in TABLE_METHODS if name not in skipped)), *self.foreign())
        if given := [f"--{name}" for name, value in self.options.items() if value is not None]:
            raise VhdError(
                f"{', '.join(given)}: options of our own planners, which are not run here. Leave them out, or "
                "name --methods."
            )
        return tuple(self.foreign())

    def foreign(self) -> dict[str, ForeignChoice]:
        """Third-party planners by name."""
        found: dict[str, ForeignChoice] = {}
        for reference in self.planners:
            place, colon, attribute = reference.rpartition(":")
            place = str(Path(place).resolve()) if place.endswith(".py") else place
            choice = _load_foreign(f"{place}{colon}{attribute}", self.environment)
            if (name := choice.planner.name) in found:
                raise VhdError(f"two planners are named '{name}': give one of them another `name`.")
            found[name] = choice
        return found

    def choose(self, method: str, environment: str) -> AnyChoice:
        """The planner of this name: one of our methods with these options, or a third-party planner."""
        if method in (foreign := self.foreign()):
            return foreign[method]
        return load_method(method, environment, self.source, **self.options)

    def make_controller(self) -> Controller:
        """The chosen controller."""
        environment = get_environment(self.environment)
        name = self.controller or controller_for(self.methods, environment)
        if name == "pd":
            gains: Any = {key: value for key, value in self.gains.items() if value is not None}
            return PDController(environment.spec, replace(PDConfig.of(environment), **gains))
        return default_controller(environment.spec, self.source, name)


@cache
def _load_foreign(reference: str, environment: str) -> ForeignChoice:
    """Create the planner of a reference once, since it may load weights or data."""
    return ForeignChoice(foreign_planner(reference, environment))
