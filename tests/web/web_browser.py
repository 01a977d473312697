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


Colour = tuple[int, int, int]


def colour_at(page: playwright.Page, place: list[float], shift: tuple[float, float] = (0, 0), view: int = 0) -> Colour:
    """The colour drawn at a place, or so many pixels to the right of it and below it."""
    red, green, blue, _ = page.evaluate(
        """([place, shift, view]) => {
            const canvas = document.querySelectorAll(".view canvas")[view];
            const box = canvas.getBoundingClientRect();
            const [x, y] = window.vhd.onPage(place, view);
            const ratio = canvas.width / box.width;
            const at = [x - box.left + shift[0], y - box.top + shift[1]].map((value) => Math.round(value * ratio));
            return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
        }""",
        [place, list(shift), view],
    )
    return red, green, blue


def theme(page: playwright.Page, name: str) -> Colour:
    """A colour of the style sheet."""
    text = page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def is_near(one: Colour, other: Colour, most: int = 30) -> bool:
    """Whether no channel differs by more."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) <= most


def layers(page: playwright.Page, **having: object) -> list[dict]:
    """The layers drawn last that have these values; True stands for any."""
    drawn = page.evaluate("window.vhd.drawn.layers")
    return [one for one in drawn if all(one.get(key) == value or (value is True and key in one)
                                        for key, value in having.items())]  # fmt: skip
