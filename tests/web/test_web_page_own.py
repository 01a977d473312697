"""Own maps and imported data on the page, and goals where the data never was, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_browser import PATIENCE, TOUR_SEEN, colour_at, expect, is_near, theme
from web_toys import served
from web_weights import import_cart, save_length, save_planner

import vhdiffuser
from vhdiffuser.envs.registry import get_environment
from vhdiffuser.web.library import Library

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::vhdiffuser.errors.VhdWarning")]

ROWS = ["######", "#OOOO#", "#O##O#", "######"]


@pytest.fixture
def own(vhd_home: Path, tmp_path: Path, browser: Any) -> Iterator[Any]:
    """A page beside the shipped environments with a map and imported data, both with networks that know nothing."""
    vhdiffuser.register(vhdiffuser.make_maze(ROWS, name="page-maze"))
    import_cart(tmp_path)
    for name in ("page-maze", "cart"):
        spec = get_environment(name).spec
        save_planner("vhd", spec=spec)
        save_length(spec)
    with served(Library.of_weights()) as address:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.add_init_script(TOUR_SEEN)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{address}#env=maze2d-umaze&start=1,1&goal=3,1")
        expect(page.locator("#verdict")).to_contain_text("Goal reached")
        yield page
        assert faults == []
        context.close()


def test_own_map_imported_data_and_places_that_the_data_never_saw(own):
    page = own
    listed = page.locator("#environment option").all_inner_texts()
    assert {"page-maze", "cart"} <= set(listed), "offered as ready"

    # Data without a simulator: planned for, drawn without walls, not executed.
    page.locator("#environment").select_option("cart")
    expect(page.locator("#verdict")).to_contain_text("this environment has data but no simulator")
    expect(page.locator("#status")).to_contain_text("states planned in")
    scene = page.evaluate("window.vhd.scene")
    assert (scene["walls"], scene["map"], scene["executes"]) == ([], None, False)
    assert page.evaluate("window.vhd.known.plan.environment") == "cart"
    assert is_near(colour_at(page, page.evaluate("window.vhd.known.plan.states[0].slice(0, 2)")), theme(page, "plan"))
    for hidden in ("#trials-card", "#placing-wall", "#map-editor", "#space-toggle"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator("#compare")).to_be_disabled()

    # A map of one's own: its walls are drawn and can be changed, and plans are executed.
    page.locator("#environment").select_option("page-maze")
    expect(page.locator("#verdict")).to_contain_text(re.compile("Goal (reached|missed)"))
    assert len(page.evaluate("window.vhd.scene.walls")) == "".join(ROWS).count("#")
    expect(page.locator("#map")).to_have_value("\n".join(ROWS))
    page.locator("#obstacles summary").click()
    page.locator("#map").fill("\n".join([ROWS[0], ROWS[1], "#O#OO#", ROWS[3]]))
    page.locator("#map").blur()
    expect(page.locator("#obstacles-count")).to_have_text(" (1 wall changed)")
    expect(page.locator("#verdict")).to_contain_text(re.compile("Goal (reached|missed)"))
    assert page.evaluate("window.vhd.drawn.walls.removed") == [pytest.approx([1.3, 2.3, 2.3, 3.3])]
    page.locator("#clear-obstacles").click()


def test_a_goal_where_the_data_never_was_is_told_without_a_probability(own):
    page = own
    spread, notes = page.locator("#spread"), page.locator("#notes")
    expect(spread).to_contain_text("Arrives with probability")
    expect(notes).to_be_hidden()
    assert page.evaluate("window.vhd.scene.map.rows[2]") == "###O#"
    page.goto(re.sub("#.*", "#env=maze2d-umaze&start=1,1&goal=1.8,0.8&cells=2,1&protocol=ss", page.url))
    expect(notes).to_contain_text("The data never visits the goal: horizon and plan are extrapolated there.")
    expect(spread).not_to_contain_text("probability")
    for axis, value in (("y", "1"), ("x", "3")):
        page.locator(f"#goal-{axis}").fill(value)
        page.locator(f"#goal-{axis}").press("Enter")
    expect(spread).to_contain_text("Arrives with probability")
    expect(notes).to_be_hidden()
