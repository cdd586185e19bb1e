"""Bills over REST: who sees what, tables for spreadsheets, months that close."""

import csv
import io
from typing import Any

import pytest

from dure.server.rest.routes.bills import CSV_COLUMNS
from dure.stores.rows import Job
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job
from tests.stores.helpers import charge

VISION, SPEECH, GLOBEX = (letter * 26 for letter in "vsg")
MARCH = {"month": "2026-03"}


@pytest.fixture(scope="module", autouse=True)
def charged(centre: Centre) -> None:
    async def add(tx: Transaction) -> None:
        if await tx.jobs.find(VISION) is not None:
            return
        await tx.jobs.add(Job(VISION, "acme", "train", job(), team="vision", service="ocr"))
        await tx.jobs.add(Job(SPEECH, "acme", "train", job(), team="speech"))
        await tx.jobs.add(Job(GLOBEX, "globex", "train", job()))
        of_vision: dict[str, Any] = {"team": "vision", "service": "ocr"}
        await tx.charges.add_all(
            [
                # A third of a cent each: a cent together, whatever they are divided by.
                charge(VISION, "2026-03-01", rent_micro=3_334, carbon_ug=400_000, **of_vision),
                charge(VISION, "2026-03-02", rent_micro=3_333, carbon_ug=400_000, **of_vision),
                charge(VISION, "2026-03-02", attempt=2, cluster="busan", rent_micro=3_333,
                       energy_micro=9_000_000, device_us=1_800_000_000, **of_vision),
                charge(SPEECH, "2026-03-05", team="speech", egress_micro=1_990_000),
                charge(SPEECH, "2026-02-27", month="2026-03", team="speech", rent_micro=500_000),
                charge(GLOBEX, "2026-03-05", tenant="globex", rent_micro=70_000_000),
            ]
        )  # fmt: skip

    centre.do(add)


def bill(centre: Centre, who: str = "admin", **query: str) -> dict[str, Any]:
    with centre.client(who) as http:
        answer = http.get("/v1/bills", params=MARCH | query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def amounts(found: dict[str, Any], *names: str) -> list[tuple[str, ...]]:
    return [tuple(str(line[name]) for name in (*names, "amount")) for line in found["lines"]]


def test_a_bill_is_broken_down_by_what_is_asked_and_adds_up(centre: Centre) -> None:
    by_team = bill(centre, by="team")
    assert amounts(by_team, "tenant", "team", "adjusts") == [
        ("acme", "speech", "", "1.99"),
        ("acme", "speech", "2026-02", "0.50"),
        ("acme", "vision", "", "9.01"),
        ("globex", "", "", "70.00"),
    ]
    (total,) = by_team["totals"]
    assert (total["amount"], total["carbonG"], total["currency"]) == ("81.50", 1, "USD")
    assert (total["rent"], total["energy"], total["egress"]) == (
        "70.510000",
        "9.000000",
        "1.990000",
    )
    assert total["amountMicro"] == 81_500_000
    (line,) = [each for each in by_team["lines"] if each["team"] == "vision"]
    assert (line["carbonUg"], line["deviceHours"]) == (800_000, "0.500")
    for by in ("tenant", "service", "job", "attempt", "cluster,day", "profile", "tenant,day"):
        assert bill(centre, by=by)["totals"] == by_team["totals"]
    assert (by_team["period"], by_team["timeZone"], by_team["closed"]) == ("2026-03", "UTC", False)


def test_a_job_is_named_with_its_owner(centre: Centre) -> None:
    found = bill(centre, "acme", by="job,cluster", team="vision")
    assert amounts(found, "tenant", "team", "serviceName", "job", "cluster") == [
        ("acme", "vision", "ocr", VISION, "busan", "9.00"),
        ("acme", "vision", "ocr", VISION, "seoul", "0.01"),
    ]


def test_everybody_sees_what_is_theirs_with_the_same_sums(centre: Centre) -> None:
    whole = {line["team"]: line["amount"] for line in bill(centre, "acme", by="team")["lines"]}
    assert whole.keys() == {"speech", "vision"}
    own = bill(centre, "vision", by="team")
    assert amounts(own, "team") == [("vision", whole["vision"])]
    assert bill(centre, "acme-viewer")["totals"] == bill(centre, "admin", tenant="acme")["totals"]
    assert {line["tenant"] for line in bill(centre, "globex", by="job")["lines"]} == {"globex"}
    assert {line["tenant"] for line in bill(centre, "viewer")["lines"]} == {"acme", "globex"}
    with centre.client("vision") as http:
        for query in ({"tenant": "globex"}, {"tenant": "acme", "team": "speech"}):
            assert http.get("/v1/bills", params=query).status_code == 404
            assert http.get("/v1/bills/csv", params=query).status_code == 404


@pytest.mark.parametrize(
    ("query", "field", "why"),
    [
        ({"by": "colour"}, "by", "'colour' is none of its columns"),
        ({"month": "2026-13"}, "month", ""),
        ({"month": "2026-03", "since": "2026-03-01"}, "month", "is a period"),
        ({"since": "2026-02-30"}, "since", "'2026-02-30' is no day"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "until", "is before since"),
        ({"team": "vision"}, "team", "is of a tenant"),
    ],
)
def test_a_wish_that_means_nothing_is_refused_with_its_field(
    centre: Centre, query: dict[str, str], field: str, why: str
) -> None:
    with centre.client("admin") as http:
        answer = http.get("/v1/bills", params=query)
    assert answer.status_code == 422
    assert why in answer.json()["detail"]
    assert field in answer.json()["detail"]


def test_days_are_billed_as_they_were_used(centre: Centre) -> None:
    with centre.client("acme") as http:
        query = {"since": "2026-02-01", "until": "2026-03-01", "by": "day"}
        found = http.get("/v1/bills", params=query).json()
    assert found["period"] == "2026-02-01/2026-03-01"
    assert amounts(found, "day") == [("2026-02-27", "0.50"), ("2026-03-01", "0.00")]


def table(centre: Centre, who: str = "admin", **query: str) -> list[dict[str, str]]:
    with centre.client(who) as http:
        answer = http.get("/v1/bills/csv", params=MARCH | query)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    assert 'filename="bill-2026-03.csv"' in answer.headers["content-disposition"]
    assert answer.text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(answer.text, newline="")))


def test_a_table_has_the_same_columns_whatever_it_is_broken_down_by(centre: Centre) -> None:
    rows = table(centre, by="team")
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [(row["tenant"], row["team"], row["adjusts"], row["amount"]) for row in rows] == [
        ("acme", "speech", "", "1.99"),
        ("acme", "speech", "2026-02", "0.50"),
        ("acme", "vision", "", "9.01"),
        ("globex", "", "", "70.00"),
    ]
    fine = table(centre, by="attempt,day,cluster,profile")
    assert tuple(fine[0]) == CSV_COLUMNS
    assert len(fine) == 6
    assert sum(int(row["amount_micro"]) for row in fine) == 81_500_000
    assert {row["period"] for row in fine} == {"2026-03"}
    assert {row["team"] for row in table(centre, "vision", by="job")} == {"vision"}


def test_a_name_that_a_spreadsheet_would_take_for_a_formula_is_guarded(centre: Centre) -> None:
    async def add(tx: Transaction) -> None:
        risky = charge(VISION, "2026-04-01", team="=cmd|' /C calc'!A0", cluster='-a,"b"\n')
        await tx.charges.add_all([risky])

    centre.do(add)
    with centre.client("admin") as http:
        text = http.get("/v1/bills/csv", params={"month": "2026-04", "by": "team,cluster"}).text
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["team"] == "'=cmd|' /C calc'!A0"
    assert row["cluster"] == '\'-a,"b"\n'


def test_a_bill_of_too_many_lines_is_refused_and_its_table_is_not(centre: Centre) -> None:
    async def add(tx: Transaction) -> None:
        rows = [
            charge(VISION, "2026-05-01", attempt=each, rent_micro=100) for each in range(10_001)
        ]
        await tx.charges.add_all(rows)

    centre.do(add)
    with centre.client("admin") as http:
        query = {"month": "2026-05", "by": "attempt"}
        answer = http.get("/v1/bills", params=query)
        assert answer.status_code == 422
        assert "ask for CSV" in answer.json()["detail"]
        with http.stream("GET", "/v1/bills/csv", params=query) as stream:
            lines = list(csv.DictReader(stream.iter_lines()))
    assert len(lines) == 10_001
    cents = sum(round(float(line["amount"]) * 100) for line in lines)
    assert cents == round(10_001 * 100 / 10_000)


def test_a_month_is_closed_by_an_administrator_once_and_it_is_written_down(centre: Centre) -> None:
    with centre.client("admin") as http:
        listed = {each["month"]: each for each in http.get("/v1/bills/months").json()["items"]}
        assert listed["2026-03"]["state"] == "open"
        assert listed["2026-03"]["totals"][0]["amount"] == "81.50"
        digest = listed["2026-03"]["digest"]
        path = "/v1/bills/months/2026-03/close"
        stale = http.post(path, json={"expect": "0" * 64})
        assert (stale.status_code, digest in stale.json()["detail"]) == (409, True)
        closed = http.post(path, json={"expect": digest})
        assert (closed.status_code, closed.json()["state"]) == (200, "closed")
        assert http.post(path, json={}).json() == closed.json()
        assert http.post("/v1/bills/months/2026-02/close", json={}).status_code == 409
        assert http.post("/v1/bills/months/2098-12/close", json={}).status_code == 409
        assert http.post("/v1/bills/months/soon/close", json={}).status_code == 422
        (entry,) = [
            each
            for each in http.get("/v1/audit", params={"subject": "2026-03"}).json()["items"]
            if each["outcome"] == "done"
        ]
        assert (entry["action"], entry["data"]) == ("bill.close", {"digest": digest})
        events = http.get("/v1/events", params={"subject": "2026-03"}).json()["items"]
        assert [each["kind"] for each in events] == ["month.closed"]
        assert bill(centre)["closed"]
        listed = {each["month"]: each for each in http.get("/v1/bills/months").json()["items"]}
        assert listed["2026-03"] == closed.json()
    for who in ("acme", "acme-viewer"):
        with centre.client(who) as http:
            assert http.get("/v1/bills/months").status_code == 403


def test_a_time_zone_that_nobody_knows_is_refused(centre: Centre) -> None:
    with centre.client("admin") as http:
        answer = http.put("/v1/fleet", json={"billing": {"timeZone": "Mars/Olympus"}})
        assert answer.status_code == 422
        assert "is no time zone" in answer.json()["detail"]
