"""The page in Debian's headless Chromium, through Playwright, served with a toy planner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from web_toys import SPEC, page_library, served


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    library = page_library()
    library.get(SPEC.name)  # its imports take seconds
    with served(library) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from web_browser import QUIET, playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as started:
        try:
            opened = started.chromium.launch(executable_path=program, args=QUIET)
        except playwright.Error as error:
            pytest.skip(f"BROWSER TESTS SKIPPED: no Chromium here (apt-get install chromium): {error}")
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The toy maze, planned and executed; asserts at the end that nothing went wrong or outside."""
    from web_browser import PATIENCE, TOUR_SEEN, expect, open_scene

    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.add_init_script(TOUR_SEEN)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    asked, faults = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    open_scene(page, address, "start=1,1&goal=1,2.5&protocol=ss")
    yield page
    page.unroute_all(behavior="ignoreErrors")  # a changed reply may still be under way
    assert faults == []
    assert all(url.startswith((address, "blob:")) for url in asked), "the page asked another host"
    context.close()
