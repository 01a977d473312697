"""Comparison of two configurations of rows: what must agree before rows are combined."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

AS_SAVED = "as_saved"
"""Key of a configuration that lists the planning options left as saved with the planner."""

FOREIGN = "planner"
"""Key of a configuration that says where a planner that is not ours came from; rows of ours do not have it."""


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], but: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """How two configurations differ, by key, as shown in messages; keys in `but` may differ.

    Older files do not list every planning option; the missing ones were as saved with the planner, whose digest both
    record. So an option that only one file lists differs only if that file changed it.
    """
    found = {}
    for key in sorted({*first, *second} - {AS_SAVED, *but}):
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
