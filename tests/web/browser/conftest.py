"""A real Chromium, and pages in it whose every error fails the test."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.web.browser.fleets import FleetBed, fleet

NAMES = ("chromium", "chromium-browser", "google-chrome")
LIMIT_MS = 30_000
"""For anything to appear: the machine may be slow and busy."""
DESK = (1280, 900)
expect.set_options(timeout=LIMIT_MS)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("DURE_REQUIRE_BROWSER") == "1":
            pytest.fail("there is no Chromium; run tools/ensure_browser")
        pytest.skip("there is no Chromium; tools/ensure_browser installs it")
    # Neither a sandbox, which root has none of, nor a GPU is part of what is tested.
    options = ["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@dataclass
class Opened:
    """Pages that a test opened, and what went wrong in them."""

    browser: Browser
    errors: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def __call__(
        self, url: str, *, size: tuple[int, int] = DESK, dark: bool = False, secret: str = ""
    ) -> Page:
        """A fresh page, as in a browser of its own."""
        context = self.browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
        )
        context.set_default_timeout(LIMIT_MS)
        if secret:
            context.add_init_script(f"sessionStorage.setItem('dure-sign-in', '{secret}')")
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._hear)
        page.goto(url)
        self.pages.append(page)
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        # That something could not be reached is said by the browser, too; tests look at the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)


OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def centre() -> Iterator[FleetBed]:
    """One fleet for all tests: it takes a while to come up."""
    with fleet() as made:
        yield made


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens pages; no script may fail in them, and none may be refused by the policy."""
    opened = Opened(chromium)
    yield opened
    for page in opened.pages:
        page.context.close()
    assert opened.errors == []
