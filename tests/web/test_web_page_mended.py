"""What the page once did wrong, in a real browser: each fault stays mended."""

from __future__ import annotations

import re

import pytest
from web_browser import drag, expect, open_scene, unit

pytestmark = pytest.mark.slow


def test_an_execution_that_missed_says_why(page, address):
    page.goto("about:blank")
    open_scene(page, address, "start=1,1&goal=3,1&protocol=ss")
    verdict = page.locator("#verdict")
    expect(verdict).to_contain_text("got stuck at a wall")
    expect(verdict).to_contain_text(re.compile(r"missed by \d\.\d+ cells"))
    expect(verdict).to_have_attribute("data-ending", "stuck")


def test_the_scene_opens_on_a_typical_pair_and_says_so(page, address):
    page.goto("about:blank")
    page.goto(f"{address}#env=maze2d-umaze&compare=1")
    expect(page.locator("#comparison-note")).to_contain_text("the pair of median predicted length among 32 random")


def test_the_gamma_slider_covers_the_default_of_every_environment(page):
    page.locator("#environment").select_option("toy-data")
    expect(page.locator("#gamma-value")).to_have_text("2.40")
    assert float(page.locator("#gamma").input_value()) == 2.4
    assert float(page.locator("#gamma").get_attribute("max")) > 2.4


def test_another_environment_shows_no_old_timeline(page):
    expect(page.locator("#timeline svg")).to_have_count(1)
    page.locator("#environment").select_option("toy-data")
    expect(page.locator("#verdict")).to_contain_text("this environment has data but no simulator")
    expect(page.locator("#timeline svg")).to_have_count(0)
    expect(page.locator("#execute")).to_be_disabled()
    expect(page.locator("#trials-card")).to_be_hidden()


def test_a_drop_into_a_wall_ends_the_waiting_and_asks_nothing(page):
    shouts, asked = [], []
    page.on("console", lambda message: shouts.append(message.text))
    drag(page, ".handle.goal", 0, 0.2 * unit(page))  # what is asked of the server from now on is about walls only
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    page.on("request", lambda request: asked.append(request.url))
    drag(page, ".handle.goal", 1.2 * unit(page), 1.2 * unit(page))
    expect(page.locator("#verdict")).to_contain_text("Not executed: The goal")
    expect(page.locator("#refusal")).to_contain_text("inside a wall")
    expect(page.locator("#timeline svg")).to_have_count(0)
    for shift in (-0.1, 0.1, -0.1):
        drag(page, ".handle.goal", shift * unit(page), 0)
    expect(page.locator("#refusal")).to_be_visible()
    assert shouts == [], "the console is silent"
    drag(page, ".handle.goal", -1.2 * unit(page), 0)
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#refusal")).to_be_hidden()


def test_a_copied_link_is_said_where_it_was_asked_for(page):
    page.evaluate("() => { navigator.clipboard.writeText = (text) => { window.copied = text; }; }")
    page.locator("#link").click()
    expect(page.locator("#link")).to_have_text("Link copied")
    assert page.evaluate("window.copied") == page.url
    expect(page.locator("#link")).to_have_text("Copy link")


def test_a_comparison_has_the_average_of_random_pairs_beside_it(page):
    page.locator("#trials-count").select_option("20")
    page.locator("#compare").click()
    averages = page.locator(".method .average")
    expect(averages).to_have_count(4)
    for number in range(4):
        expect(averages.nth(number)).to_contain_text(
            re.compile(r"Random pairs: \d+ of 20 reached(, \d+ steps on average)?$")
        )
