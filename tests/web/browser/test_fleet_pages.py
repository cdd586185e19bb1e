"""The fleet's pages on a real centre: map, jobs, reasons, what-if, money, and the way in."""

import re

import pytest
from playwright.sync_api import Page, expect

from dure.domain.fleet.lifecycle import JobPhase
from tests.web.browser.conftest import OpenPage
from tests.web.browser.fleets import FleetBed

pytestmark = pytest.mark.browser


@pytest.fixture
def bed(centre: FleetBed) -> FleetBed:
    return centre


def page_of(bed: FleetBed, open_page: OpenPage, path: str) -> Page:
    return open_page(f"{bed.url}#/{path}", secret=bed.token)


def test_who_shows_no_token_sees_nothing_and_a_good_one_opens(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = open_page(bed.url)
    field = page.get_by_label("Token")
    expect(field).to_be_focused()
    field.fill("dure_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
    field.fill(bed.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Map")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Map")).to_be_visible()
    assert bed.token not in page.content()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.length + localStorage.length") == 0


def test_the_map_shows_price_carbon_use_and_fragmentation_by_region(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = page_of(bed, open_page, "fleet")
    region = page.get_by_role("region", name="Region eu-north")
    expect(region).to_contain_text("1.90 USD/h")
    expect(region).to_contain_text("25.0 g/kWh")
    expect(region).to_contain_text("Fragmented")
    expect(region.get_by_role("img", name=re.compile(r"\d+.* of its devices held"))).to_be_visible()
    names = page.locator(".region-name").all_inner_texts()
    assert names == ["eu-north", "ap-northeast"], "from west to east"
    page.get_by_label("Shade by").select_option("carbon")
    expect(page.locator(".place").filter(has_text="local")).to_have_css("--shade", "100%")


def test_a_job_that_starts_is_seen_in_the_map_without_a_reload(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = page_of(bed, open_page, "fleet")
    running = page.locator(".figure").filter(has_text="Running").locator(".figure-value")
    before = int(running.inner_text())
    job = bed.submit("more", "sleep 600", work="10m")
    bed.until_phase(job, JobPhase.RUNNING)
    expect(running).to_have_text(str(before + 1))


def test_jobs_are_narrowed_by_phase_and_name(bed: FleetBed, open_page: OpenPage) -> None:
    page = page_of(bed, open_page, "jobs")
    table = page.get_by_role("table", name="Jobs")
    expect(table.get_by_role("link", name="long")).to_be_visible()
    page.get_by_label("Phase").select_option("succeeded")
    expect(table.get_by_role("link", name="long")).to_have_count(0)
    expect(table.get_by_role("link", name="short").first).to_be_visible()
    page.get_by_label("Phase").select_option("")
    page.get_by_label("Name").fill("long")
    page.keyboard.press("Enter")
    expect(table.get_by_role("link", name="short")).to_have_count(0)
    expect(table.get_by_role("link", name="long")).to_have_count(1)


def test_a_job_is_explained_in_money_carbon_and_risk_with_the_runner_up(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = page_of(bed, open_page, "jobs")
    page.get_by_role("table", name="Jobs").get_by_role("link", name="long").click()
    expect(page.get_by_role("heading", name="long", level=1)).to_be_visible()
    place = bed.job(bed.long).cluster
    why = page.get_by_role("region", name=f"Why {place}")
    parts = why.get_by_role("table", name="What the placement costs, by part")
    expect(parts).to_contain_text("Compared total")
    expect(parts).to_contain_text("USD")
    other = "north" if place == "local" else "local"
    expect(why).to_contain_text(f"{other}/gpu was not taken")
    expect(why).to_contain_text("Dearer by")
    for name in ("Money", "Carbon", "SLA risk", "Congestion"):
        expect(page.get_by_role("region", name="Now", exact=True)).to_contain_text(name)
    page.get_by_role("button", name="Weigh it").click()
    expect(page.get_by_text(re.compile("It would (go to|wait)"))).to_be_visible()


def test_a_job_that_is_not_there_is_said_not_to_be(bed: FleetBed, open_page: OpenPage) -> None:
    page = page_of(bed, open_page, f"jobs/{'0' * 26}")
    expect(page.locator("#notice")).to_contain_text("There is no job")


def test_the_last_hour_is_run_again_under_another_policy_which_is_then_put_in_force(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = page_of(bed, open_page, "what-if")
    page.get_by_label("Try", exact=True).select_option("green")
    page.get_by_label("on the last").select_option("15")
    page.get_by_role("button", name="Run it again").click()
    compared = page.get_by_role("table", name="The two runs compared")
    expect(compared).to_be_visible(timeout=120_000)
    expect(compared).to_contain_text("the defaults (in force)")
    carbon = compared.get_by_role("row", name=re.compile("^Carbon"))
    expect(carbon).to_contain_text("better")
    differing = page.get_by_role("table", name="Jobs that the two runs place differently")
    expect(differing).to_contain_text("north")
    page.get_by_role("button", name="Put in force…").click()
    page.get_by_role("dialog").get_by_role("button", name="Put in force").click()
    expect(page.get_by_text("Policy green is in force.")).to_be_visible()
    page.get_by_role("link", name="Fleet").click()
    expect(page.locator(".policy-name")).to_have_text("green")


def test_budgets_and_the_bill_of_the_month_are_shown(bed: FleetBed, open_page: OpenPage) -> None:
    page = page_of(bed, open_page, "money")
    budgets = page.get_by_role("table", name="Budgets")
    expect(budgets).to_contain_text("50.00 USD")
    bill = page.get_by_role("table", name="Bill of the month")
    expect(bill).to_contain_text("acme")
    page.get_by_label("By").select_option("cluster")
    expect(bill.get_by_role("rowheader", name=re.compile("local|north")).first).to_be_visible()


def test_a_centre_that_is_gone_is_said_to_be_and_found_again(
    bed: FleetBed, open_page: OpenPage
) -> None:
    page = page_of(bed, open_page, "fleet")
    expect(page.get_by_role("heading", name="Map")).to_be_visible()
    bed.kill("server")
    notice = page.locator("#notice")
    expect(notice).to_contain_text("Cannot be reached")
    expect(page.get_by_role("heading", name="Map")).to_be_visible()
    bed.start_server()
    expect(notice).to_be_empty(timeout=60_000)
    expect(page.get_by_text("Connected again.")).to_be_visible()
