"""`dure bill` against a real centre."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dure.stores.rows import Job
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job
from tests.stores.helpers import charge

Dure = Callable[..., tuple[int, str, str]]
VISION = "v" * 26
MARCH = ("--month", "2026-03")


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("bill")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:

        async def add(tx: Transaction) -> None:
            await tx.jobs.add(Job(VISION, "acme", "train", job(), team="vision", service="ocr"))
            more = {"team": "vision", "service": "ocr"}
            await tx.charges.add_all(
                [
                    charge(
                        VISION, "2026-03-01", rent_micro=12_345_678, carbon_ug=9_500_000, **more
                    ),
                    charge(
                        VISION, "2026-03-02", cluster="busan", attempt=2, device_us=10**10, **more
                    ),
                    charge(VISION, "2026-02-28", month="2026-03", energy_micro=500_000, **more),
                ]
            )

        running.do(add)
        yield running


@pytest.fixture(autouse=True)
def as_admin(centre: Centre, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURE_SERVER", centre.url)
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["admin"])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_bill_is_shown_by_what_is_asked_with_its_total(dure: Dure) -> None:
    code, out, _ = dure("bill", *MARCH, "--by", "team,cluster")
    assert code == 0
    assert "2026-03 (open, UTC): 12.85 USD, 10 gCO2, 2.778 device-hours" in out
    for shown in ("vision", "seoul", "busan", "12.35 USD", "2026-02"):
        assert shown in out
    found = json.loads(dure("bill", *MARCH, "--by", "job", "--tenant", "acme", "--json")[1])
    assert [(line["job"], line["serviceName"]) for line in found["lines"]] == [(VISION, "ocr")] * 2
    assert (
        json.loads(dure("bill", "--since", "2026-03-02", "--until", "2026-03-02", "--json")[1])[
            "period"
        ]
        == "2026-03-02/2026-03-02"
    )


def test_a_bill_is_written_as_csv_to_a_file_or_to_the_next_program(
    dure: Dure, tmp_path: Path
) -> None:
    file = tmp_path / "march.csv"
    code, out, _ = dure("bill", *MARCH, "--by", "attempt", "--csv", str(file))
    assert (code, str(file) in out) == (0, True)
    raw = file.read_bytes()
    rows = list(csv.DictReader(io.StringIO(raw.decode(), newline="")))
    assert [row["attempt"] for row in rows] == ["1", "1", "2"]
    assert list(tmp_path.iterdir()) == [file]
    assert dure("bill", *MARCH, "--by", "attempt", "--csv", "-")[1].encode() == raw
    code, _, err = dure("bill", *MARCH, "--csv", str(tmp_path / "none" / "march.csv"))
    assert code == 2
    assert "cannot be written" in err


def test_mistakes_are_told_with_what_to_do(dure: Dure, tmp_path: Path) -> None:
    for arguments, words in (
        (("--by", "colour"), "use tenant, team, service"),
        (("--month", "march"), "month"),
        (("--tenant", "nobody"), "there is no tenant nobody"),
        (("--csv", "-", "--json"), "give --csv or --json"),
        (("--by", "colour", "--csv", str(tmp_path / "x.csv")), "use tenant, team, service"),
    ):
        code, _, err = dure("bill", *arguments)
        assert code in {1, 2}
        assert words in err
    assert list(tmp_path.iterdir()) == []


def test_a_month_is_looked_at_and_closed(
    dure: Dure, centre: Centre, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = dure("bill", "months")
    assert (code, "open" in out) == (0, True)
    (month,) = json.loads(dure("bill", "months", "--json")[1])["items"]
    code, _, err = dure("bill", "close", "2026-03", "--expect", "0" * 64)
    assert (code, "look at it again" in err) == (1, True)
    code, out, _ = dure("bill", "close", "2026-03", "--expect", month["digest"])
    assert code == 0
    assert out.startswith("2026-03 is closed: 12.85 USD; digest ")
    assert dure("bill", "close", "2026-03")[1] == out
    assert "closed" in dure("bill", "months")[1]
    assert "2026-03 (closed, UTC)" in dure("bill", *MARCH)[1]
    assert "bill.close" in dure("audit", "--subject", "2026-03")[1]
    code, _, err = dure("bill", "close", "2099-01")
    assert (code, "is not over" in err) == (1, True)
    monkeypatch.setenv("DURE_TOKEN", centre.secrets["acme"])
    assert dure("bill", "close", "2026-03")[0] == 1
    assert dure("bill", "months")[0] == 1
    assert "vision" in dure("bill", *MARCH)[1]


def test_jobs_are_listed_by_the_service_they_are_billed_to(dure: Dure) -> None:
    one = ("jobs", "--tenant", "acme", "--team", "vision", "--json", "--service")
    assert [each["id"] for each in json.loads(dure(*one, "ocr")[1])["jobs"]] == [VISION]
    assert json.loads(dure(*one, "other")[1])["jobs"] == []
