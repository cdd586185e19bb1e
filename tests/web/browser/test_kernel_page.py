"""The kernel page on an emulated GPU: it follows what runs, and a policy switch takes effect."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.web.browser.beds import TRAIN, AgentBed, agent_with_tenants
from tests.web.browser.conftest import LIMIT_MS, OpenPage

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def bed() -> Iterator[AgentBed]:
    with agent_with_tenants() as made:
        yield made


def test_tenants_are_shown_with_promise_attainment_and_weight(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = open_page(bed.url)
    table = page.get_by_role("table", name="Tenants of this GPU")
    web = table.get_by_role("row").filter(has_text="p99 ≤ 50.0 ms")
    expect(web).to_contain_text("web", timeout=LIMIT_MS)
    expect(web.locator("td[data-name=Kept]")).to_contain_text("%")
    expect(web.locator("td[data-name=p99]")).to_contain_text("ms")
    expect(web.locator("td[data-name=Weight]")).to_contain_text("1.00")
    train = table.get_by_role("row").filter(has_text="best-effort")
    expect(train.locator("td[data-name=GPU]")).to_contain_text("%")


def test_a_tenant_that_comes_appears_without_a_reload(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url)
    table = page.get_by_role("table", name="Tenants of this GPU")
    expect(table).to_contain_text("train")
    page.evaluate("window.stays = true")
    bed.start_tenant("late", *TRAIN)
    expect(table).to_contain_text("late")
    assert page.evaluate("window.stays")


def test_the_timeline_shows_who_ran_in_pixels_and_in_words(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = open_page(bed.url)
    canvas = page.get_by_role("img", name=re.compile(r"Squads of the last 1 s: .*train ran \d+ %"))
    expect(canvas).to_be_visible()
    expect(canvas).to_have_attribute("aria-label", re.compile("bubbles"))
    colours = page.evaluate(
        """() => {
          const canvas = document.querySelector("canvas.timeline");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const seen = new Set();
          for (let at = 0; at < data.length; at += 4) seen.add(data.slice(at, at + 4).join());
          return seen.size;
        }"""
    )
    assert colours > 4, "the ground, an axis and at least two tenants"
    page.get_by_text("As a table").first.click()
    shares = page.get_by_role("table", name="Shares of the time window")
    expect(shares).to_contain_text("0–131")


def test_a_policy_is_previewed_confirmed_and_in_force(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url)
    expect(page.locator("#policy-name")).to_have_text(bed.policy())
    wanted = "jct" if bed.policy() != "jct" else "hybrid"
    page.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Change the policy")
    switch = dialog.get_by_role("button", name=re.compile("Switch to"))
    expect(switch).to_be_disabled()
    dialog.get_by_role("radio", name=re.compile(f"^{wanted}")).check()
    expect(dialog.get_by_role("status")).to_contain_text("A switch would do this")
    switch.click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text(f"follows {wanted} now")).to_be_visible()
    expect(page.locator("#policy-name")).to_have_text(wanted)
    assert bed.policy() == wanted


def test_a_switch_that_is_not_confirmed_changes_nothing(bed: AgentBed, open_page: OpenPage) -> None:
    page, before = open_page(bed.url), bed.policy()
    page.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog", name="Change the policy")
    dialog.get_by_role("radio").last.check()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Change…")).to_be_focused()
    assert bed.policy() == before


def test_why_a_tenant_is_held_is_said_in_a_sentence(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url)
    page.get_by_role("button", name="Why is train held?").click()
    dialog = page.get_by_role("dialog", name="Why is train held?")
    expect(dialog.locator("p").first).to_contain_text("train")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_hardware_is_drawn_over_time(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url)
    for name in ("SM busy", "Memory", "Power"):
        chart = page.get_by_role("img", name=re.compile(f"^{name}, from .* now "))
        expect(chart).to_be_visible()
        expect(chart.locator("path.line")).to_have_count(1)


def test_the_page_of_the_port_that_asks_nobody_may_only_look(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = open_page(f"http://127.0.0.1:{bed.http_port}/")
    expect(page.get_by_role("table", name="Tenants of this GPU")).to_contain_text("web")
    expect(page.get_by_role("button", name="Change…")).to_be_disabled()
    expect(page.get_by_text("This page may only look")).to_be_visible()


def test_what_the_advisor_measures_is_shown(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url)
    advice = page.get_by_role("region", name=re.compile("^Advice"))
    expect(advice).to_contain_text("advise")
    expect(advice).to_contain_text("Objective now")
    expect(advice).to_contain_text(re.compile("would do (clearly )?better"))


def test_a_wrong_key_asks_for_the_printed_address(bed: AgentBed, open_page: OpenPage) -> None:
    page = open_page(bed.url.partition("#")[0])
    expect(page.get_by_role("heading", name="The key is missing")).to_be_visible()
    assert "key" not in open_page(bed.url).url


def test_an_agent_that_is_gone_is_said_to_be_and_found_again(
    bed: AgentBed, open_page: OpenPage
) -> None:
    page = open_page(bed.url)
    expect(page.locator("#policy-name")).to_be_visible()
    bed.kill_agent()
    notice = page.locator("#notice")
    expect(notice).to_contain_text("The agent does not answer")
    expect(notice).to_contain_text("dure agent")
    bed.start_agent()
    expect(notice).to_be_empty()
    expect(page.get_by_text("Connected again.")).to_be_visible()
    expect(page.get_by_role("table", name="Tenants of this GPU")).to_contain_text("train")
