"""Pictures of the page in every state, in light, in the dark and on a phone, to be looked at.

    python tools/page_pictures.py                          all of them, into out/page, with contact sheets
    python tools/page_pictures.py --only field deadline    states whose name contains one of these
    python tools/page_pictures.py --own my-robot my-maze   and environments of your own (`vhd data import`, `make_maze`)

A state is an address and what is done on the page; a look is a window size and a colour scheme. Needs Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Error, Page, sync_playwright

Scheme = Literal["light", "dark"]
LOOKS: dict[str, tuple[int, int, Scheme]] = {
    "light": (1280, 860, "light"),
    "dark": (1280, 860, "dark"),
    "phone": (390, 844, "light"),
}
PATIENCE = 180_000
"""Milliseconds for which a busy machine may compute."""
SHEET, TALLEST = 4, 1330
"""Pictures per contact sheet, and the height beyond which a page is continued in a further one."""


@dataclass(frozen=True)
class State:
    """One state of the page."""

    name: str
    hash: str = ""
    do: Callable[[Page], object] = lambda page: None
    whole: bool = False
    """Whether the picture shows the whole page, not only the first screen; on a phone it does anyway."""
    screen: bool = False
    """Whether the picture shows only the screen on a phone, too."""
    waits: bool = True
    """Whether a plan, and where there is a simulator its execution, come first."""


def press(*selectors: str) -> Callable[[Page], object]:
    """Click these, one after the other."""

    def do(page: Page) -> None:
        for selector in selectors:
            page.locator(selector).click()

    return do


def fill(selector: str, value: str) -> Callable[[Page], object]:
    """Type a value and Enter."""

    def do(page: Page) -> None:
        page.locator(selector).fill(value)
        page.locator(selector).press("Enter")

    return do


def both(*parts: Callable[[Page], object]) -> Callable[[Page], object]:
    """One after the other."""

    def do(page: Page) -> None:
        for part in parts:
            part(page)

    return do


def wait_for(script: str) -> Callable[[Page], object]:
    """Until that is true."""
    return lambda page: page.wait_for_function(f"() => {script}", timeout=PATIENCE)


def settle(page: Page) -> None:
    """Until everything that was asked for is on the page."""
    script = """() => window.vhd?.known.plan && (!window.vhd.scene.executes || window.vhd.known.execution
        || document.getElementById("verdict").textContent.startsWith("Not"))"""
    page.wait_for_function(script, timeout=PATIENCE)


def frame(slider: str, share: float) -> Callable[[Page], object]:
    """Move a player to a share of its frames."""

    def do(page: Page) -> None:
        last = int(page.locator(slider).get_attribute("max") or 0)
        page.locator(slider).fill(str(round(share * last)))

    return do


def scroll_to(selector: str) -> Callable[[Page], object]:
    """Until it begins below what stays in sight."""
    return lambda page: page.locator(selector).evaluate("(element) => element.scrollIntoView({ block: 'start' })")


def move_goal_while_it_plays(page: Page) -> None:
    """Two steps of the arrow keys, then what came of it."""
    page.evaluate(
        """() => {
            document.getElementById("execute-play").click();
            const goal = document.querySelector(".handle.goal");
            for (const key of ["ArrowLeft", "ArrowDown"])
                goal.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey: true, bubbles: true }));
        }"""
    )
    page.wait_for_function("() => window.vhd.known.execution?.plans.some((plan) => plan.reason === 'goal')")
    page.locator("#execute-play[aria-label^=Play]").wait_for(timeout=PATIENCE)


def drag_goal_while_it_plays(page: Page) -> None:
    """The goal still in the hand: a new plan from where the robot is."""
    page.locator("#execute-play").click()
    page.wait_for_timeout(700)
    x, y = page.evaluate("() => window.vhd.onPage(window.vhd.state.goal)")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 8, y + 8, steps=3)
    page.wait_for_function("() => window.vhd.known.next", timeout=PATIENCE)


FAN = wait_for("window.vhd.known.fan")
FIELD = wait_for("document.getElementById('field-max').textContent")
COMPARED = wait_for("document.querySelectorAll('.method .good, .method .bad').length === 4")
LARGE = "env=maze2d-large"
LONG = "env=maze2d-large&start=1,1&goal=7,10"
STATES = (
    *(State(f"tour-{step}", LARGE, press("#tour-begin", *[".tour-next"] * (step - 1)), screen=True)
      for step in (1, 2, 3, 4)),
    State("first", LARGE),
    State("first-whole", LARGE, whole=True),
    State("umaze", "env=maze2d-umaze"),
    State("medium", "env=maze2d-medium"),
    State("long", LONG),
    State("single-shot", f"{LONG}&protocol=ss"),
    State("every-step", f"{LONG}&protocol=live"),
    State("every-step-midway", f"{LONG}&protocol=live", frame("#execute", 0.5)),
    State("denoising-noise", LONG, frame("#denoise", 0)),
    State("denoising-midway", LONG, frame("#denoise", 0.6)),
    State("executing-midway", LONG, frame("#execute", 0.5)),
    *(State(f"scrolled-{name}", LONG, both(frame("#execute", 0.5), scroll_to(selector)), screen=True)
      for name, selector in (("execution", "#execution-card"), ("show", "#show"), ("settings", "#tools-card"))),
    State("goal-in-hand", LONG, drag_goal_while_it_plays),
    State("goal-moved", LONG, move_goal_while_it_plays),
    State("field", f"{LONG}&field=1", FIELD),
    State("candidates", f"{LONG}&fan=1", FAN),
    State("route", f"{LONG}&route=1"),
    State("field-candidates-route", f"{LONG}&field=1&fan=1&route=1", both(FIELD, FAN)),
    State("compare", f"{LONG}&compare=1", COMPARED, whole=True),
    State("risk", f"{LONG}&risk=0.05", whole=True),
    State("deadline-by", f"{LONG}&deadline=560"),
    State("deadline-at", f"{LONG}&deadline=700&arrive=at"),
    State("deadline-too-early", f"{LONG}&deadline=200", waits=False, whole=True,
          do=wait_for("document.getElementById('deadline-note').checkVisibility()")),
    State("box", f"{LONG}&boxes=3.4,5.4,4.2,6.2&route=1", whole=True),
    State("wall-added", f"{LONG}&cells=4,6", whole=True),
    State("wall-removed", f"{LONG}&cells=4,4&told=0"),
    State("map-wrong", LONG, both(press("#obstacles summary"), lambda page: page.locator("#map").fill("###"),
                                  lambda page: page.locator("#map").blur()), whole=True),
    State("in-a-wall", f"{LARGE}&start=1,1&goal=4.8,4.8", waits=False,
          do=wait_for("document.getElementById('refusal').checkVisibility()")),
    State("number-refused", LARGE, fill("#steps", "9999")),
    State("statistics-running", "env=maze2d-umaze", both(press("#trials-run"),
          wait_for("document.getElementById('trials-bar').value > 2")), whole=True),
    State("statistics-done", "env=maze2d-umaze&protocol=ss&gamma=0.6", both(
          lambda page: page.locator("#trials-count").select_option("20"), press("#trials-run"),
          wait_for("document.getElementById('trials-bar').value === 20")), whole=True),
    State("ant", "env=antmaze-medium"),
    State("ant-space", "env=antmaze-medium&space=1", frame("#execute", 0.6), whole=True),
    State("ant-giant", "env=antmaze-giant-navigate&route=1"),
    State("cube", "env=cube"),
    State("cube-space", "env=cube&space=1", frame("#execute", 0.5), whole=True),
    State("cube-field", "env=cube&field=1", FIELD),
    State("focus", LARGE, lambda page: page.locator(".handle.goal").press("ArrowUp")),
    State("unknown-environment", "env=maze3d", waits=False,
          do=wait_for("document.getElementById('refusal').checkVisibility()")),
    State("film", "env=maze2d-umaze", both(press("#film"), lambda page: page.wait_for_timeout(900))),
    State("offline", LARGE, both(lambda page: page.route("**/api/**", lambda route: route.abort()),
          press("#random"), wait_for("document.getElementById('refusal').checkVisibility()"))),
)  # fmt: skip


@contextmanager
def served() -> Iterator[str]:
    """The address of a server that stops at the end."""
    command = [str(Path(sys.executable).with_name("vhd")), "serve", "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["address"]
        finally:
            server.terminate()


def photograph(page: Page, address: str, state: State, looks: tuple[str, ...], folder: Path) -> None:
    """These looks of one state, which is reached once: only the window and the colours change."""
    page.unroute_all()
    look_like(page, looks[0])
    page.goto("about:blank")
    page.goto(f"{address}#{state.hash}")
    if state.waits:
        settle(page)
    state.do(page)
    for look in looks:
        look_like(page, look)
        page.wait_for_timeout(400)
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > LOOKS[look][0]:
            print(f"{state.name}, {look}: {wide - LOOKS[look][0]} pixels to scroll sideways", flush=True)
        if look == "phone" and not state.screen:  # a whole page is taken as by a mouse, so make the screen as long
            long = page.evaluate("document.documentElement.scrollHeight")
            page.set_viewport_size({"width": LOOKS[look][0], "height": long})
            page.wait_for_timeout(200)
        page.screenshot(path=folder / f"{state.name}-{look}.png", full_page=state.whole and look != "phone")
    page.mouse.up()


def look_like(page: Page, look: str) -> None:
    width, height, colours = LOOKS[look]
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=colours)


def opened(browser: Browser, touch: bool) -> Page:
    """A page for a mouse or for a finger, which prints what goes wrong in it."""
    page = browser.new_context(has_touch=touch, is_mobile=touch).new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: print(f"error on the page: {error}", flush=True))
    page.on("console", lambda message: print(f"console: {message.text}", flush=True))
    page.add_init_script("if (location.protocol === 'http:') localStorage.setItem('vhd-tour-seen', '1')")
    return page


def tiles(folder: Path, names: list[str], look: str) -> Iterator[tuple[str, Image.Image]]:
    """Pictures of one look with their names, long ones in parts."""
    share = 1 if look == "phone" else 0.75
    for name in names:
        with Image.open(folder / f"{name}-{look}.png") as opened:
            whole = opened.convert("RGB").resize((int(opened.width * share), int(opened.height * share)))
        for part, top in enumerate(range(0, whole.height, TALLEST), 1):
            cut = whole.crop((0, top, whole.width, min(whole.height, top + TALLEST)))
            yield (name if part == 1 else f"{name}, part {part}"), cut


def sheets(folder: Path, names: list[str], look: str) -> None:
    """Contact sheets of one look."""
    columns = 4 if look == "phone" else 2
    every = list(tiles(folder, names, look))
    for number, first in enumerate(range(0, len(every), SHEET), 1):
        shown = every[first : first + SHEET]
        rows = [shown[begin : begin + columns] for begin in range(0, len(shown), columns)]
        heights = [max(tile.height for _, tile in row) + 22 for row in rows]
        width = shown[0][1].width + 8
        sheet = Image.new("RGB", (width * columns, sum(heights)), "#888888")
        for row, top in zip(rows, [sum(heights[:index]) for index in range(len(rows))], strict=True):
            for column, (name, tile) in enumerate(row):
                ImageDraw.Draw(sheet).text((column * width + 4, top + 5), name, fill="white")
                sheet.paste(tile, (column * width, top + 22))
        sheet.save(folder / f"sheet-{look}-{number:02d}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/page"))
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of states")
    parser.add_argument("--own", nargs="+", default=[], help="environments of your own")
    options = parser.parse_args()
    known = (*STATES, *(State(f"own-{name}", f"env={name}", whole=True) for name in options.own))
    states = [state for state in known if any(part in state.name for part in options.only)]
    options.out.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    taken, failed = [], []
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        pages = {("light", "dark"): opened(browser, touch=False), ("phone",): opened(browser, touch=True)}
        for state in states:
            begun = time.monotonic()
            try:
                for looks, page in pages.items():
                    photograph(page, address, state, looks, options.out)
                taken.append(state.name)
            except Error as error:
                failed.append(state.name)
                print(f"{state.name}: {error}", file=sys.stderr)
            print(f"{state.name}: {time.monotonic() - begun:.0f} s", flush=True)
        browser.close()
    for look in LOOKS:
        sheets(options.out, taken, look)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
