"""The page under a finger, on a phone, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from web_browser import PATIENCE, TOUR_SEEN, expect, open_scene

pytestmark = pytest.mark.slow

SIZE = {"width": 390, "height": 844}
LEAST = 44
"""Pixels that a finger needs."""


@pytest.fixture
def phone(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport=SIZE, has_touch=True, is_mobile=True)
    context.add_init_script(TOUR_SEEN)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    open_scene(page, address, "start=1,1&goal=1,2.5&boxes=2.9,2.9,3.2,3.2")
    yield page
    context.close()


@pytest.mark.parametrize("control", ["#execute", "#field", "#random", "#gamma"])
def test_the_picture_stays_in_sight_while_a_control_is_used(phone, control):
    phone.locator(control).evaluate("(element) => element.scrollIntoView({ block: 'start' })")
    assert phone.evaluate("window.scrollY") > 200
    canvas, used = (phone.locator(name).bounding_box() for name in (".view canvas", control))
    assert 0 <= canvas["y"] < canvas["y"] + canvas["height"] <= used["y"], "the control is below the picture"
    assert used["y"] + used["height"] <= SIZE["height"]


def test_every_control_is_large_enough_for_a_finger(phone):
    small = phone.evaluate(
        """(least) => [...document.querySelectorAll("button, input, select, summary, textarea")]
            .map((one) => (["radio", "checkbox"].includes(one.type) ? one.closest("label") : one))
            .filter((one) => one.checkVisibility())
            .filter((one) => one.getBoundingClientRect().height < least - 0.5)
            .map((one) => one.id || one.outerHTML)""",
        LEAST,
    )
    assert small == []
    zooming = phone.evaluate(
        """() => [...document.querySelectorAll("input[type=number], select, textarea")]
            .filter((one) => parseFloat(getComputedStyle(one).fontSize) < 16).map((one) => one.id)"""
    )
    assert zooming == [], "browsers enlarge the page when smaller text is edited"


def test_nothing_is_said_of_keys_and_mouse(phone):
    expect(phone.locator("#pointer")).to_contain_text("x, y in cells")
    assert [one.is_visible() for one in phone.locator(".mouse").all()] == [False, False]


def test_two_fingers_zoom_the_space_which_is_not_distorted(phone):
    phone.locator("#space-toggle").tap()
    phone.wait_for_function("() => window.vhd.known.execution?.skeleton", timeout=PATIENCE)
    canvas = phone.locator("#space canvas")
    ratios = canvas.evaluate("(one) => [one.width / one.clientWidth, one.height / one.clientHeight]")
    assert ratios[0] == pytest.approx(ratios[1], rel=0.02)
    canvas.evaluate("(element) => element.scrollIntoView({ block: 'start' })")
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = phone.evaluate("window.vhd.space")
    session = phone.context.new_cdp_session(phone)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80)):
        points = [{"x": x + side * apart / 2, "y": y, "id": number} for number, side in enumerate((-1, 1))]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    after = phone.evaluate("window.vhd.space")
    assert after["zoom"] == pytest.approx(2 * before["zoom"], rel=0.05)
    assert (after["turn"], after["tilt"]) == (before["turn"], before["tilt"])
