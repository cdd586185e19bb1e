"""The node page: containers with state, reason, place and wait; a person's pause is carried out."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.browser.beds import AgentBed, agent_with_containers
from tests.web.browser.conftest import OpenPage

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def bed() -> Iterator[AgentBed]:
    with agent_with_containers() as made:
        yield made


def node(bed: AgentBed, open_page: OpenPage) -> Page:
    page = open_page(bed.url)
    page.get_by_role("link", name="Node").click()
    return page


def cell(page: Page, container: str, name: str) -> Locator:
    table = page.get_by_role("table", name="Containers with a GPU")
    row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=container))
    return row.locator(f"td[data-name='{name}']")


def test_containers_are_shown_with_state_reason_and_figures(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = node(bed, open_page)
    expect(cell(page, "trainer", "State")).to_have_text(re.compile("running|idle|queued"))
    for name in ("trainer", "notebook", "batch"):
        expect(cell(page, name, "Why")).to_have_text(re.compile(r"\w+.*\."))
        expect(cell(page, name, "SM")).to_contain_text("%")
        expect(cell(page, name, "Memory")).to_contain_text("2.00 GiB")


def test_who_waits_is_shown_with_place_and_wait(bed: AgentBed, open_page: OpenPage) -> None:
    page = node(bed, open_page)
    queue = page.get_by_role("region", name="Queue")
    expect(queue.get_by_role("listitem").first).to_have_text(re.compile(r"^1.*waits \d"))
    table = page.get_by_role("table", name="Containers with a GPU")
    waiting = table.get_by_role("row").filter(has_text="queued").first
    expect(waiting.locator("td[data-name=Place]")).to_have_text(re.compile(r"\d"))
    first = waiting.locator("td[data-name=Waits]").inner_text()
    expect(waiting.locator("td[data-name=Waits]")).not_to_have_text(first)


def test_a_pause_is_confirmed_carried_out_and_taken_back(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = node(bed, open_page)
    page.get_by_role("button", name="Pause trainer").click()
    dialog = page.get_by_role("dialog", name="Pause trainer?")
    dialog.get_by_role("button", name="Pause").click()
    expect(cell(page, "trainer", "State")).to_have_text("paused by a person")
    page.get_by_role("button", name="Resume trainer").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(cell(page, "trainer", "State")).not_to_have_text("paused by a person")
