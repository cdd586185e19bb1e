"""What holds on every page: accessible, readable on a phone and in the dark, frugal, and safe."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from tests.cli.agents import WEB, agent_status
from tests.web.browser.beds import agent_with_containers
from tests.web.browser.conftest import OpenPage
from tests.web.browser.fleets import FleetBed

pytestmark = pytest.mark.browser

PHONE = (360, 780)
PAGES = {
    "kernel": "Squads timeline",
    "node": "Containers",
    "fleet": "Map",
    "jobs": "Jobs",
    "what-if": "What if",
    "money": "Budgets",
}
"""By path: a heading that is there once the page has its data."""
HEAVY_S = 60.0
MOST_HEAP_BYTES = 150 * 2**20
LANDMARKS: tuple[Literal["banner", "navigation", "main"], ...] = ("banner", "navigation", "main")
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}


@pytest.fixture(scope="module")
def url(centre: FleetBed) -> Iterator[str]:
    """One `dure dashboard` that leads to an agent with containers and to a centre."""
    server = f"http://127.0.0.1:{centre.rest}"
    with agent_with_containers(DURE_SERVER=server, DURE_TOKEN=centre.token) as bed:
        yield bed.url


def shown(open_page: OpenPage, url: str, path: str, **more: Any) -> Page:
    page = open_page(url, **more)
    expect(page.get_by_role("heading", name="Kernel", level=1)).to_be_visible()
    page.evaluate("path => { location.hash = `#/${path}`; }", path)
    expect(page.get_by_role("heading", name=PAGES[path]).first).to_be_visible()
    return page


@pytest.mark.parametrize("path", PAGES)
def test_no_page_breaks_a_rule_of_accessibility_in_light_or_dark(
    open_page: OpenPage, url: str, path: str
) -> None:
    page = shown(open_page, url, path)
    for role in LANDMARKS:
        expect(page.get_by_role(role)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("navigation").locator("[aria-current=page]")).to_have_count(1)
    assert page.title().endswith("· Dure")
    for theme in ("light", "dark"):
        page.get_by_label("Colours").select_option(theme)
        page.wait_for_timeout(400)  # until no colour is half-way
        found = Axe().run(page, options=RULES)
        told = [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for each in found.response["violations"]
            for node in each["nodes"]
        ]
        assert told == [], f"{path}, {theme}"


@pytest.mark.parametrize("path", PAGES)
def test_every_page_fits_a_phone(open_page: OpenPage, url: str, path: str) -> None:
    page = shown(open_page, url, path, size=PHONE)
    page.wait_for_timeout(300)
    wide = page.evaluate(
        """() => [...document.querySelectorAll("main *")]
          .filter((each) => each.getBoundingClientRect().right > innerWidth + 1
            && !each.closest(".unseen, thead") && getComputedStyle(each).position !== "absolute")
          .map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_colours_follow_the_system_and_the_switch(open_page: OpenPage, url: str) -> None:
    def ground(page: Page) -> int:
        text = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", text)[:3])

    page = shown(open_page, url, "money", dark=True)
    assert ground(page) < 200
    page.get_by_label("Colours").select_option("light")
    assert ground(page) > 600
    page.reload()
    expect(page.get_by_label("Colours")).to_have_value("light")
    assert ground(page) > 600


def test_everything_can_be_reached_by_keyboard(open_page: OpenPage, url: str) -> None:
    page = open_page(url)
    expect(page.locator("#policy-name")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent || 'select'"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"no focus to be seen at {reached[-1]}"
    assert {"Kernel", "Node", "Fleet", "Jobs", "Change…"} <= set(reached)
    page.get_by_role("button", name="Change…").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(8):
        page.keyboard.press("Tab")
        inside = page.evaluate("document.activeElement.closest('dialog, body')?.tagName")
        assert inside in {"DIALOG", "BODY"}
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Change…")).to_be_focused()


def test_focus_stays_where_it_is_while_figures_change(open_page: OpenPage, url: str) -> None:
    page = shown(open_page, url, "node")
    button = page.get_by_role("button", name="Why is trainer so?")
    button.focus()
    page.wait_for_timeout(2500)
    expect(button).to_be_focused()


def _busy(number: int) -> str:
    """A status in which nothing is as it was: 48 tenants, 300 events."""
    tenants = [
        {**WEB, "name": f"tenant-{each}", "gpu_share": (number * 7 + each) % 100 / 100}
        for each in range(48)
    ]
    events = [
        {
            "at_unix_s": number + each,
            "kind": "risk",
            "text": f"<img src=x onerror=alert({each})> {each}",
        }
        for each in range(300)
    ]
    return agent_status(tenants=tenants, events=events).model_dump_json(by_alias=True)


def _slices(number: int) -> str:
    last = 50 * (number + 1)
    parts = [
        {"tenant": f"tenant-{each}", "sm_first": 16 * each, "sm_count": 16, "ran": 0.7,
         "wanted": 1.0, "held": 0.2}
        for each in range(8)
    ]  # fmt: skip
    slices = [
        {"number": each, "at_ms": 20.0 * each, "length_ms": 20.0, "epoch": each, "squad": 0,
         "squads": 2, "bubble": 0.1, "parts": parts}
        for each in range(last - 49, last + 1)
    ]  # fmt: skip
    return json.dumps({"gpu": WEB["gpu"], "sms": 132, "last": last, "slices": slices})


def test_a_minute_of_heavy_updates_stays_within_150_mib_of_heap(
    open_page: OpenPage, url: str
) -> None:
    page = open_page("about:blank")
    counts = {"status": 0, "timeline": 0}

    def answer(kind: str, make: Any) -> Any:
        def fulfil(route: Route) -> None:
            counts[kind] += 1
            route.fulfill(body=make(counts[kind]), content_type="application/json")

        return fulfil

    page.route("**/v1/status", answer("status", _busy))
    page.route("**/v1/timeline*", answer("timeline", _slices))
    page.goto(url)
    expect(page.get_by_role("table", name="Tenants of this GPU")).to_contain_text("tenant-47")
    # Whoever looks again gets an answer at once: the loops do not pause between two.
    page.evaluate("setInterval(() => document.dispatchEvent(new Event('visibilitychange')), 50)")
    developer = page.context.new_cdp_session(page)
    until, most = time.monotonic() + HEAVY_S, 0.0
    while time.monotonic() < until:
        page.wait_for_timeout(500)
        most = max(most, developer.send("Runtime.getHeapUsage")["usedSize"])
    assert counts["status"] > 100, "the page kept up with less than two updates a second"
    assert most < MOST_HEAP_BYTES
    assert page.locator("main img").count() == 0, "text of others became markup"
    expect(page.get_by_text("<img src=x").first).to_be_visible()
