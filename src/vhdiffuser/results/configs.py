"""Comparison of two row configurations, before their rows are combined."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

AS_SAVED = "as_saved"
"""Configuration key: planning options left as saved with the planner."""

FOREIGN = "planner"
"""Configuration key: where a third-party planner came from; absent for our own."""


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], but: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """How two configurations differ, by key and formatted for messages; keys in `but` are ignored.

    Older files do not list every planning option; the missing ones were as saved with the planner, whose digest both
    files record. So an option that only one file lists differs only if that file changed it. gamma does not count where
    a risk chose the lengths.
    """
    unused = {"gamma"} if first.get("risk") is not None and second.get("risk") is not None else set()
    found = {}
    for key in sorted({*first, *second} - {AS_SAVED, *unused, *but}):
        if key in first and key in second:
            same = first[key] == second[key]
        else:
            same = key in (first if key in first else second).get(AS_SAVED, ())
        if not same:
            found[key] = (_shown(first, key), _shown(second, key))
    return found


def _shown(config: Mapping[str, Any], key: str) -> str:
    text = json.dumps(config[key]) if key in config else "not recorded"
    return text if len(text) <= 80 else text[:77] + "..."
