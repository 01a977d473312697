"""Helpers for tests of the page in a real browser."""

from __future__ import annotations

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="BROWSER TESTS SKIPPED: pip install playwright")
expect = playwright.expect

# Chromium's own errands would only be refused on a machine without a network.
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]
PATIENCE = 120_000
"""Milliseconds after which a busy machine is a broken page."""
TOUR_SEEN = "if (location.protocol === 'http:') localStorage.setItem('vhd-tour-seen', '1')"


def open_scene(page: playwright.Page, address: str, scene: str) -> None:
    page.goto(f"{address}#env=maze2d-umaze&{scene}")
    expect(page.locator("#verdict")).to_contain_text("Goal")


def middle(page: playwright.Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: playwright.Page, selector: str, right: float, down: float) -> None:
    x, y = middle(page, selector)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right / 2, y + down / 2, steps=4)
    page.mouse.move(x + right, y + down, steps=4)
    page.mouse.up()


def unit(page: playwright.Page) -> float:
    """Page pixels of one cell: the toy maze shows 3.7 of them."""
    box = page.locator(".view canvas").bounding_box()
    assert box is not None
    return box["width"] / 3.7
