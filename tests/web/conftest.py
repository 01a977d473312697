"""The page in Debian's headless Chromium, through Playwright, served with a toy planner."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from web_toys import SPEC, page_library


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    import uvicorn

    from vhdiffuser.web.app import create_app

    library = page_library()
    library.get(SPEC.name)  # its imports take seconds
    server = uvicorn.Server(uvicorn.Config(create_app(library), port=0, log_config=None, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(timeout=60)


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
    assert faults == []
    assert all(url.startswith((address, "blob:")) for url in asked), "the page asked another host"
    context.close()
