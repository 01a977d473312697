"""What is drawn on the scene, read from its pixels and from the layers it is made of, in a real browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
from web_browser import PATIENCE, colour_at, expect, is_near, layers, open_scene, theme

pytestmark = pytest.mark.slow

ROUTE = [[1, 1], [1.4, 1.8], [1, 2.5]]


def shown(page, name: str, place: list[float], shift: tuple[float, float] = (0, 0)) -> bool:
    return is_near(colour_at(page, place, shift), theme(page, name))


def drawn(page) -> None:
    """Wait for the next picture."""
    page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


def with_stream(page, change) -> None:
    """The server's plan, changed."""

    def changed(route) -> None:
        lines = [json.loads(line) for line in route.fetch().text().splitlines()]
        for line in lines:
            change(line["event"], line["value"])
        route.fulfill(body="".join(json.dumps(line) + "\n" for line in lines), content_type="application/x-ndjson")

    page.route("**/api/stream", changed)
    page.goto("about:blank")


def test_walls_free_space_plan_and_path(page):
    assert shown(page, "wall", [2, 1])
    assert shown(page, "free", [3, 2])
    assert shown(page, "path", [1, 1.8]), "the path lies over its plan"
    assert not shown(page, "path", [1.3, 1.8])
    (path,) = layers(page, colour="path", line=True)
    assert path["places"] == page.evaluate("window.vhd.known.execution.places")
    (plan,) = layers(page, colour="plan")
    assert plan["line"] > path["line"], "so that both are seen"
    np.testing.assert_allclose(plan["places"][-1], [1, 2.5], atol=1e-2)


def test_the_path_is_drawn_as_far_as_it_is_played(page):
    page.locator("#execute").fill("30")
    drawn(page)
    places = page.evaluate("window.vhd.known.execution.places")
    (path,) = layers(page, colour="path", line=True)
    assert path["places"] == places[:31]
    assert not shown(page, "path", [1, 2.2]), "not yet there"
    (body,) = layers(page, colour="path", body=True)
    assert body["places"] == [places[30]]


def test_denoising_draws_the_knots_of_its_step(page):
    page.locator("#denoise").fill("2")
    drawn(page)
    knots = page.evaluate("window.vhd.known.plan.denoising[2]")
    (dots,) = layers(page, dots=True)
    assert dots["places"] == knots
    assert layers(page, colour="path") == []
    inside = [knot for knot in knots if 0.4 < knot[0] < 3.6 and 0.4 < knot[1] < 3.6]
    assert shown(page, "plan", inside[len(inside) // 2])


def compose(event, value) -> None:
    if event == "plan":
        value |= {"route": ROUTE, "pieces": [[0, 50], [30, 90]]}


def test_the_route_and_the_pieces_of_a_composed_plan(page, address):
    with_stream(page, compose)
    open_scene(page, address, "start=1,1&goal=1,2.5&protocol=ss")
    assert not shown(page, "route", ROUTE[1])
    page.locator("#route").click()
    expect(page.locator("#route-legend")).to_be_visible()
    expect(page.locator("#route-none")).to_be_hidden()
    expect(page.locator("#verdict")).to_contain_text("Goal reached")
    drawn(page)
    assert shown(page, "route", ROUTE[1]), "a dot of the route, beside the plan"
    planned = [state[:2] for state in page.evaluate("window.vhd.known.plan.states")]
    first, second = layers(page, line=9)
    assert (first["places"], second["places"]) == (planned[:51], planned[30:])
    assert (first["colour"], second["colour"]) == ("route", "plan")
    # Beside the plan, where only the bands are: the first, both, the second.
    alone, both, other = (colour_at(page, planned[state], (4, 0)) for state in (15, 40, 75))
    free = theme(page, "free")
    assert len({alone, both, other, free}) == 4
    assert sum(both) < min(sum(alone), sum(other)), "where two overlap, it is darker"


def test_the_first_route_stays_when_a_replan_has_none(page, address):
    with_stream(page, compose)
    open_scene(page, address, "start=1,1&goal=3,1&route=1")
    assert page.evaluate("window.vhd.known.execution.plans.length") > 1
    drawn(page)
    assert len(layers(page, line=9)) == 2
    assert shown(page, "route", ROUTE[1])


def test_candidates_are_coloured_by_their_score(page):
    scores = np.linspace(2, 30, 15)
    ways = [[[1.15 + 0.02 * n, 1.0], [1.15 + 0.13 * n, 3.0]] for n in range(15)]  # beside the plan
    candidates = [{"places": way, "score": score} for way, score in zip(ways, scores, strict=True)]
    fan = {"length": 91, "best": 0, "seconds": 0.1, "candidates": candidates}
    page.route("**/api/candidates", lambda route: route.fulfill(json=fan))
    page.locator("#fan").click()
    expect(page.locator("#fan-count")).to_have_text("15")
    assert [page.locator(f"#fan-{end}").inner_text() for end in ("low", "high")] == ["2", "28 or more"]
    drawn(page)
    strokes = layers(page, stroke=True)
    assert [one["places"] for one in strokes] == ways[::-1], "the worst first, the best on top"
    assert [one["line"] for one in strokes[-2:]] == [1.2, 3.5], "the best is wide"
    (outline,) = layers(page, colour="text")
    assert (outline["places"], outline["line"]) == (ways[0], 6), "and outlined"
    good, bad = theme(page, "fan-good"), theme(page, "fan-bad")
    assert strokes[-1]["stroke"] == f"rgb({' '.join(map(str, good))})"
    assert strokes[0]["stroke"] == f"rgb({' '.join(map(str, bad))})"
    middle = [(np.add(*way) / 2).tolist() for way in ways]
    best, worst = colour_at(page, middle[0]), colour_at(page, middle[-1])
    assert is_near(best, good, 60)
    assert abs(np.subtract(worst, bad)).sum() < abs(np.subtract(worst, good)).sum()


def test_one_bad_candidate_does_not_make_the_others_look_alike(page):
    candidates = [{"places": [[1, 1], [1, 2.5]], "score": score} for score in (*range(63), 1000)]
    fan = {"length": 91, "best": 0, "seconds": 0.1, "candidates": candidates}
    page.route("**/api/candidates", lambda route: route.fulfill(json=fan))
    page.locator("#fan").click()
    expect(page.locator("#fan-high")).to_have_text("59 or more")
    drawn(page)
    assert len({one["stroke"] for one in layers(page, stroke=True)}) == 60, "as many as there are scores from 0 to 59"


def test_the_field_is_near_at_the_goal_and_far_from_it(page):
    page.locator("#field").click()
    expect(page.locator("#field-legend")).to_be_visible()
    drawn(page)
    near, far = np.array(theme(page, "field-near")), np.array(theme(page, "field-far"))
    beside = np.array(colour_at(page, [1.25, 2.6]))
    away = np.array(colour_at(page, [3.2, 0.45]))
    assert abs(beside - near).sum() < abs(beside - far).sum()
    assert abs(away - far).sum() < abs(away - near).sum()
    assert shown(page, "wall", [2, 1]), "walls lie over it"
    # 60 steps a cell: the corner is 2.2 cells to the right and 2.1 below.
    assert abs(int(page.locator("#field-max").inner_text()) - 60 * np.hypot(2.2, 2.2)) < 12
    x, y = page.evaluate("window.vhd.onPage([2.9, 1.0])")
    page.mouse.move(x, y)
    told = int(page.locator("#pointer").inner_text().split(" \u00b7 ")[1].split()[0])
    assert abs(told - 60 * np.hypot(1.9, 1.5)) < 4


def test_replans_are_marked_where_they_were_made(page, address):
    page.goto("about:blank")
    open_scene(page, address, "start=1,1&goal=3,1")
    (marks,) = layers(page, diamonds=True)
    run = page.evaluate("window.vhd.known.execution")
    assert marks["places"] == [run["places"][plan["step"]] for plan in run["plans"][1:]]
    assert len(marks["places"]) > 0
    page.locator("#execute").fill(str(run["plans"][1]["step"]))
    drawn(page)
    (marks,) = layers(page, diamonds=True)
    assert marks["diamonds"] == [f"L {run['plans'][1]['length']}"]
    assert shown(page, "replan", marks["places"][0], (0, 5)) or shown(page, "path", marks["places"][0], (0, 5))


def test_changed_walls_and_boxes(page, address):
    page.goto("about:blank")
    open_scene(page, address, "start=1,1&goal=1,2.5&protocol=ss&cells=2,1;3,2&boxes=1.1,2.9,1.5,3.2")
    assert shown(page, "free", [1.8, 0.8]), "a wall that is gone"
    assert shown(page, "wall-new", [2.8, 1.8]), "a wall that is new"
    box, avoid, free = colour_at(page, [1.3, 3.05]), theme(page, "avoid"), theme(page, "free")
    assert box != free
    assert abs(np.subtract(box, avoid)).sum() < abs(np.subtract(free, avoid)).sum()


def test_every_step_has_a_plan_a_horizon_and_a_latency(page):
    page.locator("input[name=protocol][value=live]").check(force=True)
    expect(page.locator("#verdict")).to_contain_text("replanned")
    run = page.evaluate("window.vhd.known.execution")
    assert [plan["step"] for plan in run["plans"]] == list(range(run["steps"]))
    for curve in (".horizons", ".times"):
        points = page.locator(curve).get_attribute("points").split()
        assert len(points) == len(run["plans"]), curve
    heights = [float(point.split(",")[1]) for point in page.locator(".horizons").get_attribute("points").split()]
    assert heights[0] < heights[-1], "the horizon falls"
    expect(page.locator("#latency-text")).to_contain_text(f"{len(run['plans'])} plans: median ")
    times = [1000 * plan["seconds"] for plan in run["plans"]]
    told = [int(number) for number in re.findall(r"(\d+) ms", page.locator("#latency-text").text_content())]
    assert told == pytest.approx([np.median(times), max(times), 10], abs=0.51)
    expect(page.locator("#latency-text")).to_contain_text("than a control step of 10 ms")
    assert "protocol=live" in page.url
    page.locator("#execute").fill("40")
    drawn(page)
    assert layers(page, colour="plan", line=6)[0]["places"] == run["plans"][40]["places"], "the plan of that step"
    page.locator("input[name=protocol][value=ss]").check(force=True)
    expect(page.locator("#latency")).to_be_hidden()
    expect(page.locator("#timeline .bar")).to_have_count(1)


def test_the_robot_in_space_stands_where_it_is(page):
    count = """(name) => {
        const canvas = document.querySelector("#space canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        const wanted = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
        const found = [];
        for (let n = 0; n < data.length; n += 4)
            if (wanted.every((value, channel) => Math.abs(value - data[n + channel]) < 6))
                found.push([(n / 4) % canvas.width, Math.floor(n / 4 / canvas.width)]);
        return { found, width: canvas.width, height: canvas.height };
    }"""
    page.locator("#space-toggle").click()
    # The verdict on the page is still that of the execution without a skeleton.
    page.wait_for_function("() => window.vhd.known.execution?.skeleton", timeout=PATIENCE)
    drawn(page)
    mast = page.evaluate(count, "--replan")  # the first bone's colour; nothing is replanned here
    across, up = np.array(mast["found"]).T
    assert len(across) > 100
    assert abs(across.mean() - mast["width"] / 2) < 8, "the camera follows the foot"
    assert np.ptp(up) > 3 * np.ptp(across), "a mast is upright"
    assert abs(up.max() - mast["height"] / 2) < 20, "its foot is in the middle"
    page.locator("#space canvas").focus()
    page.keyboard.press("+")
    drawn(page)
    closer = np.array(page.evaluate(count, "--replan")["found"])[:, 1]
    assert np.ptp(closer) > np.ptp(up)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(18, 22, 29)'")
    drawn(page)
    assert len(page.evaluate(count, "--replan")["found"]) > 100, "drawn again in other colours"
    between = page.evaluate(
        """async () => (await import("./space.js")).poseAt({ steps: [0, 10], poses: [[[0, 0, 0]], [[1, 2, 4]]] }, 5)"""
    )
    assert between == [[0.5, 1, 2]]


def test_a_moved_goal_leaves_its_old_place_and_a_new_plan(page):
    """Two quick moves while it plays are moves of one execution, however slow the server is."""
    page.evaluate(
        """() => {
            document.getElementById("execute-play").click();
            const goal = document.querySelector(".handle.goal");
            const press = () => goal.dispatchEvent(
                new KeyboardEvent("keydown", { key: "ArrowDown", shiftKey: true, bubbles: true }));
            press();
            press();
        }"""
    )
    page.wait_for_function("() => window.vhd.known.execution?.plans.length === 2", timeout=PATIENCE)
    run = page.evaluate("window.vhd.known.execution")
    assert [plan["reason"] for plan in run["plans"]] == ["start", "goal"]
    assert page.evaluate("window.vhd.drawn.oldGoals") == [[1, 2.5]]
    expect(page.locator("#passed-legend")).to_be_visible()
    np.testing.assert_allclose(run["plans"][1]["places"][-1], [1, 2.13], atol=0.01)
    expect(page.locator("#execute-play")).to_have_attribute("aria-label", "Play the execution")
    assert run["success"]


def test_while_the_goal_is_held_the_robot_waits_and_its_new_plan_follows(page):
    x, y = page.evaluate("window.vhd.onPage(window.vhd.state.goal)")
    page.mouse.move(x, y)
    page.evaluate("() => document.getElementById('execute').stepDown(60)")
    page.locator("#execute").dispatch_event("input")
    page.locator("#execute-play").click()
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 30, steps=3)
    follows = "() => Math.abs(window.vhd.known.next?.places.at(-1)[1] - window.vhd.state.goal[1]) < 0.01"
    page.wait_for_function(follows, timeout=PATIENCE)
    drawn(page)
    step = int(page.locator("#execute").input_value())
    (held,) = layers(page, colour="replan", dash=True)
    expect(page.locator("#next-legend")).to_be_visible()
    at = page.evaluate(f"window.vhd.known.execution.places[{step}]")
    np.testing.assert_allclose(held["places"][0], at, atol=2e-3)
    np.testing.assert_allclose(held["places"][-1], page.evaluate("window.vhd.state.goal"), atol=0.01)
    assert page.evaluate("window.vhd.state.goal[1]") < 2.3
    assert int(page.locator("#execute").input_value()) == step, "it waits"
    page.mouse.up()
    page.wait_for_function("() => window.vhd.known.execution.plans.length === 2", timeout=PATIENCE)


def test_a_comparison_draws_each_way(page):
    page.locator("#compare").click()
    expect(page.locator(".method .good, .method .bad")).to_have_count(4)
    blue = page.evaluate(
        """() => [...document.querySelectorAll(".method canvas")].map((canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let n = 0; n < data.length; n += 4)
                if (data[n] < 60 && Math.abs(data[n + 1] - 111) < 30 && data[n + 2] > 200) found += 1;
            return found;
        })"""
    )
    assert min(blue) > 50, "an executed way in each"


def test_a_film_shows_what_was_on_screen(page, browser, tmp_path: Path):
    with page.expect_download() as download:
        page.locator("#film").click()
    film = tmp_path / "film.webm"
    download.value.save_as(film)
    path, wall = theme(page, "path"), theme(page, "wall")
    other = browser.new_page()
    other.set_default_timeout(PATIENCE)
    frame = other.evaluate(
        """async (source) => {
            const video = Object.assign(document.createElement("video"), { muted: true, src: source });
            await new Promise((resolve, reject) => { video.onloadeddata = resolve; video.onerror = reject; });
            const seconds = await new Promise((resolve) => {
                // A recording has no length until its end has been looked for.
                video.onseeked = () => resolve(video.currentTime);
                video.currentTime = 1e6;
            });
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
            const context = canvas.getContext("2d");
            do { // a busy machine may say that it has sought before the picture is there
                await new Promise((resolve) => setTimeout(resolve, 50));
                context.drawImage(video, 0, 0);
            } while (context.getImageData(0, 0, 1, 1).data[3] === 0);
            return { seconds, width: canvas.width, height: canvas.height,
                     pixels: [...context.getImageData(0, 0, canvas.width, canvas.height).data] };
        }""",
        "data:video/webm;base64," + base64.b64encode(film.read_bytes()).decode(),
    )
    other.close()
    assert frame["seconds"] > 1.5, "the denoising and the execution"
    pixels = np.array(frame["pixels"], int).reshape(frame["height"], frame["width"], 4)[..., :3]
    box = page.locator(".view canvas").bounding_box()
    assert abs(frame["width"] - box["width"]) <= 1
    assert (abs(pixels - wall).max(axis=-1) < 40).sum() > 5000
    assert (abs(pixels - path).max(axis=-1) < 60).sum() > 200, "the way to the goal, in its last picture"
