"""The estimate of paper scale in docs/scaling.md: its horizons are the registry's, and its arithmetic is right."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from vhdiffuser.envs.registry import environments

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")
SECTION = TEXT.split("## Cost of the paper's recipe")[1]
ROW = re.compile(r"^\| ([\w-]+) \| (\d+), (\d+), (\d+), (\d+) \| .*?([\d.]+) \|$", re.MULTILINE)
SECONDS_PER_STATE, UPDATES, SEEDS, DAY = 2.2e-3, 2e6, 3, 86_400
ROWS = {name: ([int(length) for length in lengths], float(seconds)) for name, *lengths, seconds in ROW.findall(SECTION)}


def said(pattern: str) -> float:
    """The number that the text gives there."""
    found = re.search(pattern, SECTION)
    assert found is not None, pattern
    return float(found.group(1).replace(",", ""))


def test_every_environment_of_the_paper_has_its_horizons() -> None:
    assert list(ROWS) == ["maze2d-umaze", "maze2d-medium", "maze2d-large", "antmaze-medium", "cube"]
    for name, (lengths, seconds) in ROWS.items():
        known = environments()[name]
        assert lengths == [known.spec.T_max // 2, *known.horizons]
        assert seconds == pytest.approx(SECONDS_PER_STATE * sum(lengths), abs=0.006)


def test_days_follow_from_the_table() -> None:
    update = sum(seconds for _, seconds in ROWS.values())
    longest = max(length for lengths, _ in ROWS.values() for length in lengths)
    assert said(r"\| all \| \| ([\d.]+) \|") == pytest.approx(update, abs=0.05)
    assert said(r"\*\*([\d,]+) days\*\* of one") == pytest.approx(update * UPDATES * SEEDS / DAY, rel=0.01)
    assert said(r"at most \*\*(\d+) days\*\*") == round(SECONDS_PER_STATE * longest * UPDATES / DAY)
    hours = UPDATES * 0.020 / 3600
    planners = SEEDS * 4 * len(ROWS)
    assert said(r"= \*\*(\d+) planners") == planners
    assert said(r"\*\*(\d+) days on 1 GPU\*\*") == round(planners * hours / 24)
    assert said(r"of 11 h are \*\*([\d.]+) days\*\*") == round(math.ceil(planners / 8) * hours / 24, 1)
