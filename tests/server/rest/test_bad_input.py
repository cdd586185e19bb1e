"""Input that is meant to do harm: refused with field, reason and remedy, and nothing is stored."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from dure.api.problems import MEDIA_TYPE
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre, job

BEGIN = json.dumps(job())[:-1]
"""A job that goes on."""


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


HARMFUL = {
    "a name twice": (BEGIN + ',"name":"other"}', "name", "is said twice"),
    "a variable twice": (BEGIN + ',"env":{"A":"1","A":"2"}}', "A", "is said twice"),
    "no number in a Pod": (BEGIN + ',"pod":{"affinity":NaN}}', "pod", "a number without end"),
    "no end in a Pod": (BEGIN + ',"pod":{"affinity":[1e999]}}', "pod", "a number without end"),
    "depth in a Pod": (BEGIN + f',"pod":{{"affinity":{nested(40)}}}}}', "pod", "nested more than"),
    "depth": (BEGIN + f',"pod":{nested(100_000)}}}', "", "recursion limit"),
    "a number of 5000 digits": (BEGIN + f',"priority":{"9" * 5000}}}', "", "out of range"),
    "half a character": (BEGIN + ',"env":{"A":"\\ud800"}}', "", "no JSON"),
    "NUL in a Pod": (BEGIN + ',"pod":{"affinity":{"\\u0000":1}}}', "pod", "a NUL character"),
    "NUL": (BEGIN + ',"env":{"A":"\\u0000"}}', "env.A", "does not fit"),
    "letters like ours": (json.dumps(job("ｔrain")), "name", "does not fit"),
    "text that runs backwards": (json.dumps(job("a\u202eb")), "name", "'a?b' does not fit"),
    "a path": (json.dumps(job("../../etc/passwd")), "name", "does not fit"),
    "a line break": (json.dumps(job("train\n")), "name", "does not fit"),
    "a far date": (
        json.dumps(job(sla={"deadline": "9999-12-31T23:59:59Z"})),
        "sla.deadline",
        "1970",
    ),
    "less than nothing": (json.dumps(job(array=-1)), "array.count", "at least 1"),
    "many": (json.dumps(job(array=100_000)), "array.count", "at most 10000"),
}


def stored(centre: Centre) -> int:
    async def counted(tx: Transaction) -> int:
        return sum((await tx.jobs.counts("acme")).values())

    return centre.do(counted)


def sent(http: httpx.Client, body: str, **more: Any) -> httpx.Response:
    return http.post("/v1/jobs", content=body, headers={"Content-Type": "application/json"}, **more)


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_input_is_refused_with_field_reason_and_remedy(centre: Centre, name: str) -> None:
    body, field, reason = HARMFUL[name]
    before = stored(centre)
    with centre.client("acme") as http:
        answer = sent(http, body)
        dry = sent(http, body, params={"dryRun": "true"})
    problem = answer.json()
    assert answer.status_code in {400, 422}, problem
    assert answer.headers["content-type"] == MEDIA_TYPE
    told = problem["fields"][0]
    assert told["field"] == field
    assert reason in told["detail"] + told["remedy"]
    assert told["remedy"]
    assert dry.status_code == answer.status_code
    assert stored(centre) == before


def test_a_long_name_is_not_repeated_whole(centre: Centre) -> None:
    with centre.client("acme") as http:
        answer = sent(http, BEGIN + f',"{"x" * 900_000}":1}}')
    assert answer.status_code == 422
    assert len(answer.content) < 4096
    assert "there is no such field" in answer.text


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "9" * 25, "9" * 5000, "", "0x1"])
def test_an_event_s_number_that_is_none_is_refused(centre: Centre, number: str) -> None:
    with centre.client("acme") as http:
        answer = http.get("/v1/events/stream", headers={"Last-Event-ID": number})
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["field"] == "Last-Event-ID"


def test_one_job_comes_of_fifty_submissions_at_once_under_one_key(centre: Centre) -> None:
    before = stored(centre)
    with centre.client("acme") as http, ThreadPoolExecutor(50) as pool:
        answers = list(
            pool.map(
                lambda _: http.post(
                    "/v1/jobs", json=job("many"), headers={"Idempotency-Key": "fifty"}
                ),
                range(50),
            )
        )
    assert {each.status_code for each in answers} == {201}
    assert len({each.json()["ids"][0] for each in answers}) == 1
    assert stored(centre) == before + 1


def test_a_key_of_one_team_does_not_answer_for_another(centre: Centre) -> None:
    headers = {"Idempotency-Key": "of a team"}
    with centre.client("vision") as vision, centre.client("acme") as whole:
        first = vision.post("/v1/jobs", json=job("same"), headers=headers)
        other = whole.post("/v1/jobs", json=job("same"), headers=headers)
    assert first.status_code == 201
    assert (other.status_code, other.json()["type"]) == (422, "urn:dure:problem:key-reused")


def test_prices_in_a_currency_that_nobody_can_convert_are_refused(centre: Centre) -> None:
    with centre.client("admin") as http:
        tokyo = {"region": "jp", "tariff": {"currency": "JPY", "deviceHour": {"h100": 500.0}}}
        refused = http.put("/v1/clusters/tokyo", json=tokyo)
        assert refused.status_code == 422
        (wrong,) = refused.json()["fields"]
        assert (wrong["field"], "rate" in wrong["detail"]) == ("tariff.currency", True)
        rates = {"currency": "USD", "rates": {"JPY": 0.0065}}
        assert http.put("/v1/fleet", json=rates).status_code == 201
        assert http.put("/v1/clusters/tokyo", json=tokyo).status_code == 201
        # Nor can a rate be taken away that is needed.
        gone = http.put("/v1/fleet", json={"currency": "USD"}, headers={"If-Match": '"1"'})
        assert gone.status_code == 422
        assert "cluster tokyo" in gone.text


def test_a_path_that_does_not_fit_is_told_in_the_words_of_documents(centre: Centre) -> None:
    with centre.client("admin") as http:
        refused = http.post("/v1/bills/months/2026-13/close", json={})
    assert refused.status_code == 422
    (told,) = refused.json()["fields"]
    assert (told["field"], told["detail"]) == ("month", "'2026-13' does not fit")
    assert told["remedy"].startswith("write it so that it matches")
