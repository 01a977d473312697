"""From dropping the goal to the drawn plan, in a real browser: `vhd serve` and headless Chromium on this machine.

The goal is dragged by the mouse to places across the maze. The page itself measures, from the drop to the end of
drawing. Prints one JSON object: milliseconds, and the machine's load.

    python benchmarks/goal_drop.py
    python benchmarks/goal_drop.py --environment maze2d-umaze --drops 100
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PATIENCE = 180_000
"""Milliseconds after which a plan counts as never drawn."""


@contextmanager
def served() -> Iterator[str]:
    """The address of a server that stops at the end."""
    vhd = str(Path(sys.executable).with_name("vhd"))
    command = [vhd, "serve", "--port", "0", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["address"]
        finally:
            server.terminate()


def places(address: str, environment: str, count: int) -> list[list[float]]:
    """Goals of random pairs."""
    asked = (f"{address}api/environments/{environment}/instance?seed={seed}" for seed in range(count))
    return [json.loads(urllib.request.urlopen(url).read())["goal"] for url in asked]


def drag(page: Page, goal: list[float]) -> None:
    """Grab the goal, go there in ten moves, let it fall."""
    x, y = page.evaluate("(goal) => window.vhd.onPage(goal)", goal)
    box = page.locator(".handle.goal").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(x, y, steps=10)
    page.mouse.up()


def measured(page: Page, goals: list[list[float]]) -> list[float]:
    """Milliseconds from each drop to its plan. The first is left out: the workers load their models."""
    found = []
    for goal in goals:
        page.evaluate("() => { delete document.getElementById('status').dataset.drawn; }")
        drag(page, goal)
        page.wait_for_function("() => document.getElementById('status').dataset.drawn", timeout=PATIENCE)
        # A drag draws plans on its way: that of the drop is the last, and it is executed.
        page.wait_for_function("() => window.vhd.known.execution", timeout=PATIENCE)
        found.append(float(page.locator("#status").get_attribute("data-drawn")))
    return found[1:]


def figures(values: list[float]) -> dict[str, float]:
    """Median, best and worst."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "drops": len(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="maze2d-large")
    parser.add_argument("--drops", type=int, default=30)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.add_init_script("localStorage.setItem('vhd-tour-seen', '1')")
        page.goto(f"{address}#env={options.environment}")
        page.wait_for_function("() => window.vhd?.known.execution", timeout=PATIENCE)
        goals = places(address, options.environment, options.drops + 1)
        before = os.getloadavg()[0]
        milliseconds = figures(measured(page, goals))
        print(json.dumps({"milliseconds": milliseconds, "load": [round(before, 2), round(os.getloadavg()[0], 2)]}))
        browser.close()


if __name__ == "__main__":
    main()
