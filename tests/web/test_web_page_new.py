"""Tour, coordinates, moving goals, candidates, obstacles, statistics, space and film, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from web_browser import PATIENCE, drag, expect, middle, open_scene, unit

pytestmark = pytest.mark.slow


def pressed(page, button: str) -> None:
    page.locator(button).click()
    expect(page.locator(button)).to_have_attribute("aria-pressed", "true")


def draw(page, right: float, down: float, from_right: float, from_down: float) -> None:
    """Drag over the scene, in cells, from so far beside the start."""
    x, y = middle(page, ".handle.start")
    x, y = x + from_right * unit(page), y + from_down * unit(page)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right * unit(page), y + down * unit(page), steps=4)
    page.mouse.up()


def test_the_tour_has_four_steps_and_is_remembered(browser, address):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    open_scene(page, address, "start=1,1&goal=1,2.5")
    tour = page.locator("#tour")
    expect(tour).to_be_visible()
    expect(tour).to_have_attribute("role", "dialog")
    for number, target in enumerate((".picture", "#horizon-card", "#execution-card", "#show"), 1):
        expect(page.locator(".tour-count")).to_have_text(f"{number} of 4")
        expect(page.locator(target)).to_have_class(re.compile("toured"))
        expect(page.locator(".tour-next")).to_be_focused()
        page.keyboard.press("Enter")
    expect(tour).to_be_hidden()
    page.reload()
    expect(page.locator("#verdict")).to_contain_text("Goal")
    expect(tour).to_be_hidden()
    page.locator("#tour-begin").click()
    expect(tour).to_be_visible()
    page.keyboard.press("Escape")
    expect(tour).to_be_hidden()
    expect(page.locator("#tour-begin")).to_be_focused()
    context.close()


def test_the_tour_on_a_phone_leaves_free_what_it_explains(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    open_scene(page, address, "start=1,1&goal=1,2.5")
    for number, target in enumerate((".view canvas", "#horizon-card", "#execution-card", "#show"), 1):
        expect(page.locator(".tour-count")).to_have_text(f"{number} of 4")
        shown, dialog = page.locator(target).bounding_box(), page.locator("#tour").bounding_box()
        assert shown["y"] >= 0, target
        assert shown["y"] + shown["height"] <= dialog["y"], target
        page.locator(".tour-next").click()
    expect(page.locator("#tour")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).paddingBottom") == "0px"
    context.close()


def test_coordinates_are_shown_and_can_be_typed(page):
    expect(page.locator("#goal-y")).to_have_value("2.5")
    page.locator("#goal-y").fill("1.75")
    page.locator("#goal-y").press("Enter")
    expect(page.locator("#length")).to_have_text("46")
    assert "goal=1,1.75" in page.url
    x, y = middle(page, ".handle.start")
    page.mouse.move(x, y - unit(page))
    expect(page.locator("#pointer")).to_have_text(re.compile(r"^x (0\.99|1\.0\d), y (1\.9\d|2\.0\d) cells$"))
    page.mouse.move(x + 0.8 * unit(page), y)
    expect(page.locator("#pointer")).to_contain_text("wall")
    assert page.locator("#ruler .number").all_text_contents() == ["0", "50", "100", "150", "200", "250"]


def test_a_coordinate_that_is_being_typed_is_kept(page):
    goal = page.locator("#goal-y")
    goal.fill("1.75")
    page.evaluate("() => document.getElementById('execute-play').click()")  # every frame draws the page anew
    expect(page.locator("#execute-play")).to_have_attribute("aria-label", "Play the execution")
    expect(goal).to_have_value("1.75")
    goal.press("Enter")
    expect(page.locator("#status")).to_contain_text("46 states planned")
    expect(goal).to_have_value("1.75")


def test_a_goal_moved_while_it_plays_is_replanned_for(page):
    """In one go, because the film may be over before a slow machine looks again."""
    page.locator(".handle.goal").focus()
    page.evaluate(
        """() => {
            document.getElementById("execute-play").click();
            const goal = document.querySelector(".handle.goal");
            goal.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", shiftKey: true, bubbles: true }));
        }"""
    )
    expect(page.locator("#replans summary")).to_have_text("1 new horizon")
    expect(page.locator("#replans li")).to_contain_text("the goal had moved")
    expect(page.locator("#timeline .bar")).to_have_count(2)
    expect(page.locator("#timeline .start-mark")).to_have_count(1)
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#goal-y")).to_have_value(re.compile(r"^2\.3"))
    expect(page.locator("#execute-play")).to_have_attribute("aria-label", "Play the execution")
    page.locator(".handle.goal").press("ArrowUp")  # it no longer plays: another pair
    expect(page.locator("#replans")).to_be_hidden()


def test_the_latency_of_a_moved_goal_is_shown(page):
    told = page.evaluate(
        """() => new Promise((resolve) => {
            const verdict = document.getElementById("verdict");
            new MutationObserver(() => verdict.textContent.includes("moved at step") && resolve(verdict.textContent))
                .observe(verdict, { childList: true });
            document.getElementById("execute-play").click();
            const goal = document.querySelector(".handle.goal");
            goal.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", shiftKey: true, bubbles: true }));
        })"""
    )
    assert re.search(r"a new plan of \d+ states after \d+ ms \(\d+ ms to plan\)", told)


def test_candidates_are_a_fan_with_a_legend(page):
    plain = page.locator(".view canvas").screenshot()
    pressed(page, "#fan")
    expect(page.locator("#fan-count")).to_have_text("64")
    expect(page.locator("#fan-legend")).to_contain_text("steps too short")
    assert page.locator(".view canvas").screenshot() != plain
    page.keyboard.press("k")
    expect(page.locator("#fan-legend")).to_be_hidden()


def test_the_route_and_the_pieces_of_a_composed_plan_are_drawn(page, address):
    def compose(route) -> None:
        lines = [json.loads(line) for line in route.fetch().text().splitlines()]
        for line in lines:
            if line["event"] == "plan":
                line["value"] |= {"route": [[1, 1], [1.4, 1.8], [1, 2.5]], "pieces": [[0, 50], [30, 90]]}
        route.fulfill(body="".join(json.dumps(line) + "\n" for line in lines), content_type="application/x-ndjson")

    page.route("**/api/stream", compose)
    page.goto("about:blank")
    open_scene(page, address, "start=1,1&goal=1,2.5&protocol=ss")
    plain = page.locator(".view canvas").screenshot()
    pressed(page, "#route")
    expect(page.locator("#route-legend")).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("Goal")
    assert page.locator(".view canvas").screenshot() != plain


def test_a_box_is_drawn_typed_linked_and_removed(page):
    page.locator("input[name=placing][value=box]").check(force=True)
    draw(page, 0.5, -0.3, from_right=-0.05, from_down=-0.6)
    expect(page.locator("#boxes li")).to_have_count(1)
    expect(page.locator("#box-legend")).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("Goal")
    assert "boxes=" in page.url
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#boxes li")).to_have_count(1)
    page.get_by_label("Box 1: lower y").fill("0.5")
    page.get_by_label("Box 1: lower y").press("Enter")
    expect(page.locator("#refusal")).to_contain_text("lies in a box to avoid")
    page.get_by_label("Remove box 1").click()
    expect(page.locator("#boxes li")).to_have_count(0)
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")


def test_a_wall_is_removed_and_the_way_is_free(page, address):
    page.goto("about:blank")
    open_scene(page, address, "start=1,1&goal=3,1&protocol=ss")
    expect(page.locator("#verdict")).to_contain_text("stuck at a wall")
    page.locator("input[name=placing][value=wall]").check(force=True)
    x, y = middle(page, ".handle.start")
    page.mouse.click(x + 0.8 * unit(page), y)
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#wall-legend")).to_be_visible()
    expect(page.locator("#map")).to_have_value(re.compile("#O#O#"))
    expect(page.locator("#obstacles")).to_contain_text("it cannot use openings where you removed a wall")
    assert "cells=2,1" in page.url
    page.locator("#map").fill("#####\n#OOO#")
    page.locator("#map").blur()
    expect(page.locator("#map-error")).to_contain_text("5 rows of 5 cells")
    page.locator("#clear-obstacles").click()
    expect(page.locator("#verdict")).to_contain_text("stuck at a wall")


def test_statistics_run_in_the_background_and_open_what_failed(page):
    page.locator("#trials-count").select_option("20")
    page.locator("#trials-run").click()
    drag(page, ".handle.goal", 0, 0.3 * unit(page))  # meanwhile, the page answers
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#trials-text")).to_contain_text(
        re.compile(r"^\d+ of 20 reached: \d+\s% \(95\s% interval \d+ to \d+\s%\)")
    )
    expect(page.locator("#trials-bar")).to_have_attribute("value", "20")
    reached = int(page.locator("#trials-text").inner_text().split()[0])
    failed = page.locator("#trials-failed button")
    expect(failed).to_have_count(20 - reached)
    assert 0 < reached < 20, "straight lines reach some goals"
    failed.first.click()
    expect(page.locator("#verdict")).to_contain_text("Goal missed by")
    page.locator("#seed").fill("3")
    page.locator("#seed").press("Enter")
    expect(page.locator("#trials-text")).to_contain_text("run again")


def test_the_robot_stands_in_space_and_can_be_turned(page):
    pressed(page, "#space-toggle")
    canvas = page.locator("#space canvas")
    expect(canvas).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    before = canvas.screenshot()
    drag(page, "#space canvas", 60, 20)
    turned = canvas.screenshot()
    assert turned != before
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("+")
    assert canvas.screenshot() != turned


def test_a_film_of_the_scene_is_saved(page, tmp_path: Path):
    with page.expect_download() as download:
        page.locator("#film").click()
        expect(page.locator("#film")).to_have_text("Stop film")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.suffix == ".webm"
    assert saved.read_bytes().startswith(b"\x1a\x45\xdf\xa3"), "the signature of Matroska and WebM"
    expect(page.locator("#film")).to_have_text("Film")
    expect(page.locator("#status")).to_contain_text("Film saved")


def test_all_controls_have_names(page):
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, canvas[role]")].filter((one) =>
            !one.getAttribute("aria-label") && !one.textContent.trim() && !one.labels?.length)
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
