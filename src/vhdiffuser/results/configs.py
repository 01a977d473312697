"""Two configurations of rows, compared: what must agree before rows are put together."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

AS_SAVED = "as_saved"
"""Key of a configuration that names the planning options that are as they were saved with the planner."""


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], but: Collection[str] = ()
) -> dict[str, tuple[str, str]]:
    """What two configurations differ in, by key, as messages show it; keys in `but` may differ.

    Older files do not name every planning option, and were planned with what was saved with the planner, whose digest
    both have. So an option that only one file names differs only where that file's was changed.
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
