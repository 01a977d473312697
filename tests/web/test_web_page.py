"""The page in a real browser: load, drag, plan, play, compare, error. Debian's headless Chromium through Playwright."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from web_browser import PATIENCE, TOUR_SEEN, drag, expect, middle, open_scene, unit

import vhdiffuser

pytestmark = pytest.mark.slow


def test_load_shows_horizon_plan_and_execution(page):
    expect(page.locator("#length")).to_have_text("91")
    expect(page.locator("#spread")).to_contain_text("88 to 95")
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(page.locator("#status")).to_contain_text("91 states planned in")
    assert page.locator("#environment option").all_inner_texts() == [
        "maze2d-umaze",
        "maze2d-large (not ready)",
        "toy-data",
    ]
    assert page.locator("#environment option").nth(1).is_disabled()
    page.locator("#missing summary").click()
    expect(page.locator("#missing")).to_contain_text("vhd train planner maze2d-large")


def test_dragging_the_goal_plans_anew(page):
    before = page.url
    drag(page, ".handle.goal", 0, 0.75 * unit(page))
    # 45 steps less of the ruler; a pixel is about half a step.
    expect(page.locator("#length")).to_have_text(re.compile(r"^4[5-7]$"))
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    assert page.url != before
    assert "goal=1,1.7" in page.url


def test_a_click_places_what_is_chosen(page):
    x, y = middle(page, ".handle.start")
    page.mouse.click(x, y - unit(page))
    expect(page.locator("#length")).to_have_text(re.compile(r"^6[0-2]$"))
    page.locator("input[name=placing][value=start]").check(force=True)
    page.mouse.click(x, y - 0.5 * unit(page))
    expect(page.locator("#length")).to_have_text(re.compile(r"^3[0-2]$"))


def test_the_keyboard_moves_the_goal_and_plays(page):
    goal = page.locator(".handle.goal")
    goal.focus()
    page.keyboard.press("Shift+ArrowDown")  # five hundredths of the view: 0.185 units, 11.1 steps
    expect(page.locator("#status")).to_contain_text("80 states planned")
    expect(page.locator("#verdict")).to_contain_text("Goal reached in")
    expect(goal).to_have_attribute("aria-label", re.compile(r"Goal at x 1\.00, y 2\.3"))
    # In one go, because a film may be over before a slow machine looks again.
    labels = page.evaluate(
        """() => [[" ", "execute-play"], ["d", "denoise-play"]].map(([key, id]) => {
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            return document.getElementById(id).getAttribute("aria-label");
        })"""
    )
    assert labels == ["Pause the execution", "Pause the denoising"]
    page.keyboard.press("p")
    expect(page.locator("input[name=protocol][value=rp]")).to_be_checked()


def test_denoising_plays_and_can_be_scrubbed(page):
    expect(page.locator("#denoise-at")).to_have_text("plan")
    page.locator("#denoise").fill("2")
    expect(page.locator("#denoise-at")).to_have_text("step 2 of 4")
    noisy = page.locator(".view canvas").screenshot()
    page.locator("#denoise-play").click()
    expect(page.locator("#denoise-at")).to_have_text("plan")
    assert page.locator(".view canvas").screenshot() != noisy


def test_execution_plays_pauses_and_can_be_scrubbed(page):
    last = int(page.locator("#execute").get_attribute("max"))
    expect(page.locator("#execute-at")).to_have_text(f"{last} of {last}")
    labels = page.evaluate(
        """() => {
            const button = document.getElementById("execute-play");
            return [0, 1].map(() => { button.click(); return button.getAttribute("aria-label"); });
        }"""
    )
    assert labels == ["Pause the execution", "Play the execution"]
    page.locator("#execute-play").click()
    expect(page.locator("#execute-at")).to_have_text(f"{last} of {last}")
    page.locator("#execute").fill("10")
    expect(page.locator("#execute-at")).to_have_text(f"10 of {last}")


def test_replanning_is_marked(page, address):
    open_scene(page, address, "start=1,1&goal=3,1")
    expect(page.locator("#verdict")).to_contain_text(re.compile(r"Goal missed by .* after 600 steps and \d+ replans"))
    page.locator("#replans summary").click()
    expect(page.locator("#replans li").first).to_have_text(re.compile(r"step \d+: \d+ states, off the plan \(\d+ ms\)"))
    replans = page.locator("#replans li").count()
    assert len(page.locator("#timeline .horizons").get_attribute("points").split()) == replans + 1, "a curve of many"


def test_compare_shows_four_horizons(page):
    page.locator("#compare").click()
    figures = page.locator(".method")
    expect(figures).to_have_count(4)
    for number in range(4):
        expect(figures.nth(number)).to_contain_text(re.compile("reached in|missed after"))
    expect(figures.nth(0)).to_contain_text("predicted 91 states")
    expect(figures.nth(1)).to_contain_text("trained at this horizon")
    expect(figures.nth(3)).to_contain_text("forced to this length")


def test_the_field_is_drawn_over_the_maze(page):
    plain = page.locator(".view canvas").screenshot()
    page.keyboard.press("f")
    expect(page.locator("#field-max")).to_have_text(re.compile(r"^1\d\d$"))
    assert page.locator(".view canvas").screenshot() != plain
    page.keyboard.press("f")
    expect(page.locator("#field-legend")).to_be_hidden()


def test_a_point_in_a_wall_is_refused_with_a_reason(page):
    alert = page.locator("#refusal")
    expect(alert).to_be_hidden()
    drag(page, ".handle.goal", unit(page), 1.5 * unit(page))
    expect(alert).to_be_visible()
    expect(alert).to_contain_text("inside a wall")
    expect(page.locator(".handle.goal")).to_have_class(re.compile("refused"))
    drag(page, ".handle.goal", -unit(page), 0)
    expect(alert).to_be_hidden()
    page.locator("#steps").fill("99")
    page.locator("#steps").press("Enter")
    expect(alert).to_contain_text("Reverse steps: enter a whole number from 1 to 32.")
    expect(page.locator("#steps")).to_have_value("4")
    page.locator("#refusal-close").click()
    expect(alert).to_be_hidden()


def test_the_link_restores_the_scene(page, address):
    page.locator("#seed").fill("7")
    page.locator("#seed").press("Enter")
    page.locator("#sampler").select_option("dpm++")
    page.locator("#gamma").fill("1.5")
    expect(page.locator("#length")).to_have_text("137")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#length")).to_have_text("137")
    expect(page.locator("#status")).to_contain_text("(dpm++, 4 steps)")
    expect(page.locator("#seed")).to_have_value("7")
    expect(page.locator("input[name=protocol][value=ss]")).to_be_checked()


def test_a_registered_sampler_is_offered_and_one_that_is_not_there_is_left_out(page, address):
    vhdiffuser.register_sampler("jump", lambda tau, tau0, older, a, n, draw: tau0)
    for name, used in (("jump", "jump"), ("euler", "ddim")):
        page.goto("about:blank")
        open_scene(page, address, f"start=1,1&goal=1,2.5&protocol=ss&sampler={name}")
        expect(page.locator("#status")).to_contain_text(f"({used}, 4 steps)")
        expect(page.locator("#sampler")).to_have_value(used)
    expect(page.locator("#sampler option")).to_have_text(["ddpm", "ddim", "dpm++", "jump"])


def test_an_unknown_environment_in_the_link_is_refused(page, address):
    page.goto("about:blank")
    page.goto(f"{address}#env=maze3d")
    expect(page.locator("#refusal")).to_contain_text("Unknown environment 'maze3d'")
    expect(page.locator("#environment")).to_have_value("")
    expect(page.locator("main")).to_have_js_property("inert", True)  # there is nothing that its controls could change
    page.locator("#environment").select_option("maze2d-umaze")
    expect(page.locator("#verdict")).to_contain_text("Goal")
    expect(page.locator("#refusal")).to_be_hidden()
    expect(page.locator("main")).to_have_js_property("inert", False)


def test_downloads(page, tmp_path: Path):
    saved = {}
    for kind in ("json", "csv", "png"):
        with page.expect_download() as download:
            page.locator(f"#save-{kind}").click()
        saved[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[kind])
    plan = json.loads(saved["json"].read_text())
    assert (plan["environment"], plan["length"], len(plan["states"])) == ("maze2d-umaze", 91, 91)
    lines = saved["csv"].read_text().splitlines()
    assert lines[0] == "step,x,y,vx,vy"
    assert len(lines) == 92
    assert saved["png"].read_bytes().startswith(b"\x89PNG")


def test_a_phone_and_the_dark(browser, address):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark", has_touch=True)
    context.add_init_script(TOUR_SEEN)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    open_scene(page, address, "start=1,1&goal=1,2.5&compare=1&field=1")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "nothing to scroll sideways"
    cards = (".picture", ".legend", "#horizon-card", "#execution-card", "#show", "#trials-card", "#tools-card")
    tops = [page.locator(card).bounding_box()["y"] for card in cards]
    assert tops == sorted(tops), "the horizon stands below what it is of, and controls below that"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 29)"
    x, y = middle(page, ".handle.start")
    page.touchscreen.tap(x, y - unit(page))
    expect(page.locator("#length")).to_have_text(re.compile(r"^6[0-2]$"))
    context.close()


def test_the_reference_lists_every_route(page, address):
    page.goto(f"{address}api.html")
    expect(page.locator("h2", has_text="POST /api/stream")).to_be_visible()
    expect(page.locator("code", has_text="protocol").first).to_be_visible()
