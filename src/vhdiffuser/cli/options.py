"""Types of options, and how `--help` shows them: without tyro's "(default: None)" and "{None}|FLOAT"."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    UnsupportedTypeAnnotationError,
)

T = TypeVar("T")

_IN_WORDS = tyro.conf.arg(help_behavior_hint="")
Omittable = Annotated[T | None, _IN_WORDS]
"""One value, or None if the option is omitted. The help text states the default in words."""
Several = Annotated[tuple[T, ...], _IN_WORDS]
"""Any number of values; none if the option is omitted. The help text states the default in words."""

REGISTRY = ConstructorRegistry()
"""How options are read from the command line."""


@REGISTRY.primitive_rule
def _optional(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """`T | None` is shown as `T`; the word None stays a value."""
    members = get_args(info.type) if info.type_origin in (Union, UnionType) else ()
    given = [member for member in members if member is not NoneType]
    if NoneType not in members or len(given) != 1:
        return None
    value = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(given[0], info.markers))
    if isinstance(value, UnsupportedTypeAnnotationError):  # a subcommand
        return None
    counts = (value.nargs,) if isinstance(value.nargs, int) else value.nargs

    def read(words: list[str]) -> Any:
        if words == ["None"]:
            return None
        if counts != "*" and len(words) not in counts:
            raise ValueError(f"takes {' or '.join(map(str, counts))} values")
        return value.instance_from_str(words)

    return PrimitiveConstructorSpec(
        nargs=counts if counts == "*" else 1 if counts == (1,) else tuple(sorted({1, *counts})),
        metavar=value.metavar,
        instance_from_str=read,
        is_instance=lambda thing: thing is None or value.is_instance(thing),
        str_from_instance=lambda thing: ["None"] if thing is None else value.str_from_instance(thing),
        choices=None if value.choices is None else (*value.choices, "None"),
    )
