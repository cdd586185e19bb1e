import json
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from dure.domain.fleet.lifecycle import JobPhase
from dure.stores.repos.events import PRUNED
from dure.stores.repos.jobs import Step
from dure.stores.transaction import Transaction
from tests.server.rest.centre import LIMIT_S, Centre, job


def said(lines: Iterator[str]) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Kind, id and data of each event of a stream."""
    kind = number = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = value
        elif name == "data":
            yield kind, number, json.loads(value)


def finish(centre: Centre, job_id: str, phase: JobPhase = JobPhase.SUCCEEDED) -> None:
    async def step(tx: Transaction) -> None:
        await tx.jobs.lock([job_id])
        await tx.jobs.step_all([Step(job_id, phase, 1, None, 0, "done")])

    centre.do(step)


def submitted(http: httpx.Client, name: str = "train") -> str:
    return str(http.post("/v1/jobs", json=job(name)).json()["ids"][0])


def test_a_watch_tells_each_change_and_ends_with_the_job(centre: Centre) -> None:
    with centre.client("acme") as http:
        job_id = submitted(http)
        with http.stream("GET", f"/v1/jobs/{job_id}/watch") as answer:
            events = said(answer.iter_lines())
            assert next(events)[2]["phase"] == "queued"
            http.post(f"/v1/jobs/{job_id}/cancel")
            assert next(events)[2]["phase"] == "cancelling"
            finish(centre, job_id, JobPhase.CANCELLED)
            assert next(events)[2]["phase"] == "cancelled"
            assert list(events) == []


def test_wait_answers_when_the_job_has_ended(centre: Centre) -> None:
    with centre.client("acme") as http:
        job_id = submitted(http)
        timer = threading.Timer(0.3, finish, (centre, job_id))
        timer.start()
        began = time.monotonic()
        answer = http.get(f"/v1/jobs/{job_id}/wait", params={"timeout": 50}).json()
        timer.join()
    assert answer["phase"] == "succeeded"
    assert time.monotonic() - began < LIMIT_S / 2


def test_wait_answers_after_its_timeout_with_how_the_job_stands(centre: Centre) -> None:
    with centre.client("acme") as http:
        job_id = submitted(http)
        answer = http.get(f"/v1/jobs/{job_id}/wait", params={"timeout": 0.2}).json()
    assert answer["phase"] == "queued"


def test_a_stream_of_events_goes_on_after_the_last_that_was_heard(centre: Centre) -> None:
    with centre.client("acme") as http:
        last = http.get("/v1/events", params={"limit": 1000}).json()["last"]
        ids = [submitted(http, f"e{number}") for number in range(3)]
        with http.stream("GET", "/v1/events/stream", params={"after": last}) as answer:
            first = next(said(answer.iter_lines()))
        assert first[2]["subject"] == ids[0]
        headers = {"Last-Event-ID": first[1]}
        with http.stream("GET", "/v1/events/stream", headers=headers) as answer:
            events = said(answer.iter_lines())
            assert [next(events)[2]["subject"] for _ in range(2)] == ids[1:]
            new = submitted(http, "later")
            assert next(events)[2]["subject"] == new


def test_pruned_events_are_told_as_a_gap(centre: Centre) -> None:
    with centre.client("acme") as http:
        submitted(http)

        async def prune(tx: Transaction) -> int:
            last = await tx.events.last()
            await tx.events.raise_mark(PRUNED, last)
            return last

        last = centre.do(prune)
        listed = http.get("/v1/events", params={"after": 1})
        assert (listed.status_code, listed.json()["type"]) == (410, "urn:dure:problem:expired")
        with http.stream("GET", "/v1/events/stream", params={"after": 1}) as answer:
            events = said(answer.iter_lines())
            assert next(events) == ("gap", str(last), {"last": last})
            new = submitted(http, "after-gap")
            assert next(events)[2]["subject"] == new


@pytest.mark.parametrize("given", ["x", "-1", "9" * 30])
def test_a_last_event_id_that_is_none_is_refused(centre: Centre, given: str) -> None:
    with centre.client("acme") as http:
        answer = http.get("/v1/events/stream", headers={"Last-Event-ID": given})
    assert answer.status_code == 422
