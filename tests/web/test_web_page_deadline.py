"""Risk and deadline on the page, in a real browser."""

from __future__ import annotations

import json
import re

import pytest
from web_browser import expect

pytestmark = pytest.mark.slow


def test_a_risk_replaces_the_margin(page):
    expect(page.locator("#spread")).to_contain_text(
        re.compile(r"Arrives with probability 0\.7\d, mostly after 73 to 86 steps")
    )
    page.locator("#risk").select_option("0.05")
    expect(page.locator("#length")).to_have_text("114")
    expect(page.locator("#spread")).to_contain_text("Arrives with probability 0.95")
    expect(page.locator("#gamma")).to_be_disabled()
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    link = page.url
    assert "risk=0.05" in link
    page.locator("#risk").select_option("")
    expect(page.locator("#length")).to_have_text("91")
    expect(page.locator("#gamma")).to_be_enabled()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#length")).to_have_text("114")
    expect(page.locator("#risk")).to_have_value("0.05")


def test_a_planner_with_a_risk_of_its_own_starts_with_it(page):
    def risky(route) -> None:
        route.fulfill(json={**route.fetch().json(), "risk": 0.02})

    page.route("**/api/environments/maze2d-umaze", risky)
    page.reload()
    expect(page.locator("#length")).to_have_text("137")
    expect(page.locator("#risk")).to_have_value("0.02")
    expect(page.locator("#gamma")).to_be_disabled()
    assert "risk" not in page.url
    assert "gamma" not in page.url
    page.locator("#risk").select_option("")
    expect(page.locator("#length")).to_have_text("91")
    link = page.url
    assert "gamma=1" in link
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#length")).to_have_text("91")
    expect(page.locator("#risk")).to_have_value("")
    expect(page.locator("#gamma")).to_be_enabled()


def test_too_early_a_deadline_says_in_place_what_would_do(page):
    page.locator("#deadline").fill("91")
    page.locator("#deadline").press("Enter")
    note = page.locator("#deadline-note")
    expect(note).to_have_text(
        re.compile(
            r"^91 steps are too few: a risk of 5 % needs 114\. The probability of arriving by step 91 is 0\.7\d\.$"
        )
    )
    expect(page.locator("#verdict")).to_have_text("Not executed: the deadline is too early; 114 steps would be enough.")
    expect(page.locator("#refusal")).to_be_hidden()
    for button in ("#save-json", "#film"):
        expect(page.locator(button)).to_be_disabled()
    page.locator("#risk").select_option("0.2")
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#length")).to_have_text("91")
    expect(note).to_be_hidden()
    for button in ("#save-json", "#film"):
        expect(page.locator(button)).to_be_enabled()


def test_a_deadline_is_kept_by_it_or_at_it_and_in_the_link(page):
    expect(page.locator("#arrive")).to_be_disabled()
    page.locator("#deadline").fill("220")
    page.locator("#deadline").press("Enter")
    expect(page.locator("#length")).to_have_text("114")
    expect(page.locator("#spread")).to_contain_text("In time for the deadline, step 220.")
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    page.locator("#arrive").select_option("at")
    expect(page.locator("#spread")).to_contain_text("114 would be enough; slowed down to arrive at step 220")
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"Goal reached in 2[12]\d steps"))
    link = page.url
    assert "deadline=220&arrive=at" in link
    page.locator("#deadline").fill("")
    page.locator("#deadline").press("Enter")
    expect(page.locator("#length")).to_have_text("91")
    assert "deadline" not in page.url
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"Goal reached in 2[12]\d steps"))
    expect(page.locator("#deadline")).to_have_value("220")
    expect(page.locator("#arrive")).to_have_value("at")


@pytest.mark.parametrize(("probability", "said"), [(0.998, "over 0.99"), (0.99, "0.99"), (0.002, "below 0.01")])
def test_no_probability_is_rounded_to_certainty(page, probability, said):
    def say(route) -> None:
        lines = [json.loads(line) for line in route.fetch().text().splitlines()]
        lines[0]["value"]["probability"] = probability
        route.fulfill(body="".join(json.dumps(line) + "\n" for line in lines), content_type="application/x-ndjson")

    page.route("**/api/stream", say)
    page.locator("#seed").fill("1")
    page.locator("#seed").press("Enter")
    expect(page.locator("#spread")).to_contain_text(f"Arrives with probability {said},")


def test_without_a_calibration_neither_is_offered(page):
    expect(page.locator("#deadline")).to_be_enabled()
    page.locator("#environment").select_option("toy-data")
    expect(page.locator("#status")).to_contain_text("states planned")
    for control in ("#risk", "#deadline", "#arrive"):
        expect(page.locator(control)).to_be_disabled()
    expect(page.locator("#uncalibrated")).to_contain_text("run vhd calibrate toy-data.")


def test_a_deadline_out_of_bounds_is_refused(page):
    page.locator("#deadline").fill("601")
    page.locator("#deadline").press("Enter")
    expect(page.locator("#refusal")).to_contain_text("from 2 to 600")
    expect(page.locator("#deadline")).to_have_value("")
