"""Types of options whose help text states their default in words, so that tyro does not add "(default: None)"."""

from __future__ import annotations

from typing import Annotated, TypeVar

import tyro

T = TypeVar("T")

_IN_WORDS = tyro.conf.arg(help_behavior_hint="")
Omittable = Annotated[T | None, _IN_WORDS]
"""One value, or None if the option is omitted."""
Several = Annotated[tuple[T, ...], _IN_WORDS]
"""Any number of values; none if the option is omitted."""
