"""The page's files: small, complete, and legible in both colour schemes."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STATIC = files("vhdiffuser.web") / "static"
FILES = {item.name: item.read_bytes() for item in STATIC.iterdir() if item.is_file()}
STYLE = FILES["style.css"].decode()
LIGHT, DARK = STYLE[: STYLE.index("@media")], STYLE[STYLE.index("@media") : STYLE.index("* { box-sizing")]


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_on_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out(scheme: str) -> None:
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", scheme))
    text = [(name, ground) for name in ("text", "soft") for ground in ("card", "page")]
    text += [(name, "card") for name in ("accent", "good", "bad", "replan")]
    text += [("warn", "warn-back"), ("on-accent", "accent")]
    low = {pair: contrast(*(colours[name] for name in pair)) for pair in text}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}
    lines = {
        name: contrast(colours[name], colours["free"]) for name in ("start", "goal", "plan", "path", "route", "avoid")
    }
    assert {name: value for name, value in lines.items() if value < 3} == {}


def test_the_page_is_below_600_kb_and_needs_no_other_host() -> None:
    assert sum(map(len, FILES.values())) < 600_000
    for name, content in FILES.items():
        found = set(re.findall(r"https?://[^\s\"'`)]+", content.decode()))
        assert found <= {"http://www.w3.org/2000/svg"}, name


def test_all_files_that_are_named_are_there() -> None:
    for name, content in FILES.items():
        text = content.decode()
        named = re.findall(r'from "\./([\w.]+)"', text) + re.findall(r'(?:src|href)="([\w.]+)"', text)
        assert set(named) <= {*FILES, "openapi.json"}, name
