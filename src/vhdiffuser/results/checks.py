"""Validation of rows. An invalid row was damaged or edited, or belongs to another file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vhdiffuser.results.configs import FOREIGN

if TYPE_CHECKING:
    from vhdiffuser.results.rows import Row

SHARED = ("environment", "method", "protocol", "seed")
"""Fields that every row shares with the file's configuration."""
_COUNTS = {"instance": 0, "steps": 0, "replans": 0, "planned_length": 2, "predicted_length": 1, "task": 1}
"""Integer fields and their minimum values."""
_AMOUNTS = ("final_distance", "planning_seconds", "control_seconds", "geodesic", "path", "start_gap")
"""Fields with finite, non-negative numbers."""
_LARGEST = 1e300
"""Larger values, NaN and infinity are not valid results."""
_OPTIONAL = ("predicted_length", "task", "geodesic", "path", "start_gap", "score")


_OBJECTS = ("instances", "rule", "models", "controller", FOREIGN)
_WHOLE = ("streams", "sampler_steps", "candidates", "piece")
_LISTS = ("scale", "goal_dims", "state_names", "walls")
"""Fields of a configuration, by kind; all are optional except `SHARED`."""
_OF_OURS = ("sampler", "sampler_steps", "gamma")
"""Fields that only our own planners' configurations have."""
_REPORTED = ("instances", "rule", "models", "controller", *_LISTS, "epsilon", "horizon", "candidates")


def missing_facts(config: Mapping[str, Any]) -> list[str]:
    """Fields that a report needs but that this configuration lacks."""
    return [key for key in (*_REPORTED, *(() if FOREIGN in config else _OF_OURS)) if key not in config]


def config_fault(config: Mapping[str, Any]) -> str | None:
    """What is wrong with a file's configuration, or None."""
    if lacks := [key for key in SHARED if key not in config]:
        return f"its first line lacks {', '.join(lacks)}"
    checks = {key: isinstance(config[key], str) and bool(config[key]) for key in SHARED if key != "seed"}
    checks["seed"] = _is_count(config["seed"]) and config["seed"] >= 0
    checks |= {key: isinstance(config.get(key, {}), dict) for key in _OBJECTS}
    checks |= {key: _is_count(config.get(key, 0)) for key in _WHOLE}
    checks |= {key: isinstance(config.get(key, []), list) for key in _LISTS}
    checks |= {key: _is_number(config.get(key, 1)) for key in ("epsilon", "gamma")}
    checks["sampler"] = isinstance(config.get("sampler", ""), str)
    checks["horizon"] = config.get("horizon") is None or _is_count(config["horizon"])
    if all(checks.values()):
        walls, instances = config.get("walls", []), config.get("instances", {})
        checks["scale"] = all(map(_is_number, config.get("scale", [])))
        checks["goal_dims"] = all(_is_count(dim) and 0 <= dim < 1000 for dim in config.get("goal_dims", []))
        checks["state_names"] = all(isinstance(name, str) for name in config.get("state_names", []))
        checks["walls"] = all(isinstance(w, list) and len(w) == 4 and all(map(_is_number, w)) for w in walls)
        checks["instances"] = all(isinstance(value, str) for value in instances.values())
        checks["rule"] = "rule" not in config or {"threshold", "check_every", "budget"} <= set(config["rule"])
    wrong = [key for key, fine in checks.items() if not fine]
    return f"its first line has an invalid `{wrong[0]}`: {str(config.get(wrong[0]))[:60]}" if wrong else None


def row_fault(row: Row, config: Mapping[str, Any]) -> str | None:
    """What is wrong with a row in a file of this configuration, or None."""
    for name in SHARED:
        if getattr(row, name) != config[name] or isinstance(getattr(row, name), bool):
            return f"`{name}` is {getattr(row, name)!r}, but the file's configuration says {config[name]!r}"
    values = {name: getattr(row, name) for name in (*_COUNTS, *_AMOUNTS, "score")}
    values = {name: value for name, value in values.items() if value is not None or name not in _OPTIONAL}
    for name, value in values.items():
        if name in _COUNTS and not (_is_count(value) and value >= _COUNTS[name]):
            return f"`{name}` must be a whole number >= {_COUNTS[name]}, not {value!r}"
        if name in _AMOUNTS and not (_is_number(value) and value >= 0):
            return f"`{name}` must be a finite, non-negative number, not {value!r}"
    if "score" in values and not _is_number(row.score):
        return f"`score` must be a finite number, not {row.score!r}"
    if not isinstance(row.success, bool):
        return f"`success` must be true or false, not {row.success!r}"
    for name in ("start", "goal"):
        value = getattr(row, name)
        if not (isinstance(value, list) and value and all(map(_is_number, value))):
            return f"`{name}` must be a list of finite numbers, not {value!r}"
    return _lengths_fault(row)


def _lengths_fault(row: Row) -> str | None:
    lengths = row.plan_lengths
    if not (isinstance(lengths, list) and lengths and all(_is_count(value) and value >= 2 for value in lengths)):
        return f"`plan_lengths` must be a non-empty list of whole numbers >= 2, not {lengths!r}"
    if row.planned_length != lengths[0]:
        return f"`planned_length` is {row.planned_length}, but the first of `plan_lengths` is {lengths[0]}"
    if row.replans != len(lengths) - 1:
        return f"`replans` is {row.replans}, but there are {len(lengths)} plans in `plan_lengths`"
    return None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
