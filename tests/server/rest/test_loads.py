"""What people and fronts may say of a service's load, what is refused, and whom it reaches."""

import datetime
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import AttemptStatus, InstanceStatus, RunPhase, Sizing
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.server.signals import MOST_SOURCES
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction
from dure.wire.plain import pack
from tests.server.rest.centre import Centre, job

SERVICE = {
    "requestsPerSecond": 12,
    "replicaRequestsPerSecond": 8,
    "latency": "500ms",
    "serviceTime": "100ms",
    "most": 10,
}


def chat(name: str = "chat", **service: Any) -> dict[str, Any]:
    return {"name": name, "kind": "serving", "image": "chat:1", "service": SERVICE | service}


def placed(centre: Centre, *places: tuple[str, int]) -> str:
    """A service of acme with so many ready instances in each cluster."""
    with centre.client("acme") as http:
        made = http.post("/v1/jobs", json=chat())
        assert made.status_code == 201, made.text
        job_id = str(made.json()["ids"][0])

    async def place(tx: Transaction) -> None:
        for number, (cluster, count) in enumerate(places, start=1):
            instances = tuple(
                InstanceStatus(each, "n", "i", Placement(0, (each,)), True, f"h:{number}{each}")
                for each in range(count)
            )
            status = AttemptStatus(
                AttemptKey(WorkloadId(job_id), number),
                RunPhase.RUNNING,
                instances=instances,
                sizing=Sizing(count, why="as the centre ordered it", changed_ns=time.time_ns()),
            )
            row = await tx.attempts.add(Attempt(job_id, number, cluster, 1, 1, False))
            for state in (AttemptState.COMMITTED, AttemptState.RUNNING):
                row = replace(row, state=state, status=pack(status))
                await tx.attempts.put_all([row])

    centre.do(place)
    centre.signals.linked |= {"seoul", "busan"}
    centre.signals.heard.clear()
    return job_id


def report(centre: Centre, job_id: str, who: str = "acme", **said: Any) -> Any:
    with centre.client(who) as http:
        return http.post(f"/v1/jobs/{job_id}/load", json=said)


def test_a_report_reaches_the_cluster_that_holds_the_service(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 2))
    told = report(centre, job_id, requestsPerSecond=30, queue=4, latency="120ms", source="lb")
    assert (told.status_code, told.json()) == (202, {"clusters": ["seoul"], "note": ""})
    ((cluster, signal),) = centre.signals.heard
    assert (cluster, signal.workload, signal.source) == ("seoul", job_id, "lb")
    assert (signal.requests_per_s, signal.queue_length, signal.latency_ms) == (30.0, 4.0, 120.0)
    assert signal.until_ns - signal.at_ns == 30 * NS_PER_S


def test_what_is_said_of_all_clusters_is_divided_as_they_share_requests(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 3), ("busan", 1))
    report(centre, job_id, requestsPerSecond=40, latency="100ms")
    heard = dict(centre.signals.heard)
    assert {name: each.requests_per_s for name, each in heard.items()} == {
        "seoul": 30.0,
        "busan": 10.0,
    }
    assert {each.latency_ms for each in heard.values()} == {100.0}
    assert {each.queue_length for each in heard.values()} == {None}


def test_what_is_said_of_one_cluster_goes_there_alone(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 3), ("busan", 1))
    report(centre, job_id, requestsPerSecond=40, cluster="busan")
    assert [(name, each.requests_per_s) for name, each in centre.signals.heard] == [("busan", 40)]


def test_a_service_that_sleeps_hears_of_those_who_wait(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 0))
    assert report(centre, job_id, queue=3).json()["clusters"] == ["seoul"]


def test_a_cluster_where_it_has_nothing_is_not_told_and_the_asker_hears_why(
    centre: Centre,
) -> None:
    job_id = placed(centre, ("seoul", 1))
    told = report(centre, job_id, queue=3, cluster="busan")
    assert told.status_code == 202
    assert told.json()["clusters"] == []
    assert "it is in seoul" in told.json()["note"]
    assert not centre.signals.heard


def test_a_cluster_that_cannot_be_reached_goes_on_with_what_it_knows(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 1))
    centre.signals.linked.clear()
    told = report(centre, job_id, queue=3)
    assert told.status_code == 202
    assert "cannot be reached" in told.json()["note"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"requestsPerSecond": -1}, "requestsPerSecond"),
        ({"queue": -0.5}, "queue"),
        ({"queue": 1e9}, "queue"),
        ({"latency": "-3ms"}, "latency"),
        ({"latency": "soon"}, "latency"),
        ({"requestsPerSecond": "NaN"}, "requestsPerSecond"),
        ({"requestsPerSecond": 1_000_000}, "requestsPerSecond"),
        ({"queue": 1, "validFor": "1h"}, "validFor"),
        ({"queue": 1, "source": "a b"}, "source"),
        ({"queue": 1, "nonsense": 1}, "nonsense"),
    ],
)
def test_absurd_figures_are_refused_with_the_field_and_a_remedy(
    centre: Centre, said: dict[str, Any], field: str
) -> None:
    job_id = placed(centre, ("seoul", 1))
    told = report(centre, job_id, **said)
    assert told.status_code == 422, told.text
    problem = told.json()
    assert field in problem["detail"]
    assert "; " in problem["detail"]
    assert not centre.signals.heard


@pytest.mark.parametrize("raw", ['{"queue": NaN}', '{"queue": Infinity}', '{"queue": 1e999}'])
def test_numbers_without_end_are_refused(centre: Centre, raw: str) -> None:
    job_id = placed(centre, ("seoul", 1))
    with centre.client("acme") as http:
        told = http.post(
            f"/v1/jobs/{job_id}/load", content=raw, headers={"content-type": "application/json"}
        )
    assert told.status_code in (400, 422)
    assert not centre.signals.heard


def test_a_report_that_says_nothing_is_refused(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 1))
    told = report(centre, job_id)
    assert told.status_code == 422
    assert "says nothing of a load" in told.json()["detail"]


@pytest.mark.parametrize(("ago_s", "words"), [(300, "says nothing of now"), (-300, "future")])
def test_stale_figures_and_those_of_the_future_are_refused(
    centre: Centre, ago_s: float, words: str
) -> None:
    job_id = placed(centre, ("seoul", 1))
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago_s)
    told = report(centre, job_id, queue=1, at=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert told.status_code == 422
    assert words in told.json()["detail"]


def test_other_tenants_and_those_who_may_only_read_cannot_report(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 1))
    assert report(centre, job_id, "globex", queue=1).status_code == 404
    assert report(centre, job_id, "acme-viewer", queue=1).status_code == 403
    assert report(centre, job_id, "member", queue=1).status_code == 403
    assert not centre.signals.heard


def test_a_job_that_is_no_service_or_has_ended_has_no_load(centre: Centre) -> None:
    with centre.client("acme") as http:
        (batch,) = http.post("/v1/jobs", json=job()).json()["ids"]
        assert report(centre, batch, queue=1).status_code == 409
    job_id = placed(centre, ("seoul", 1))

    async def end(tx: Transaction) -> None:
        row = await tx.jobs.get(job_id)
        await tx.jobs.put(replace(row, phase=JobPhase.CANCELLED, ended_ns=1))

    centre.do(end)
    assert report(centre, job_id, queue=1).status_code == 409


def test_a_source_that_speaks_without_pause_is_slowed_down(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 1))
    answers = [report(centre, job_id, queue=1, source="lb").status_code for _ in range(20)]
    assert 429 in answers
    assert len(centre.signals.heard) == answers.count(202) < 20


def test_sources_of_a_service_are_bounded(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 1))
    desk = centre.app.state.desk
    now_ns = time.time_ns()
    for number in range(MOST_SOURCES):
        desk.signals.admit(job_id, f"s{number}", now_ns)
    told = report(centre, job_id, queue=1, source="one-more")
    assert told.status_code == 429
    assert "sources speak of this service" in told.json()["detail"]


def test_bounds_that_contradict_each_other_are_refused_when_a_service_is_submitted(
    centre: Centre,
) -> None:
    with centre.client("acme") as http:
        told = http.post("/v1/jobs", json=chat(warm=20, most=10))
        assert told.status_code == 422
        assert "warm of 20 is more than the 10 instances it may have" in told.json()["detail"]
        told = http.post("/v1/jobs", json=chat(standby=11, most=10))
        assert told.status_code == 422
        assert "standby" in told.json()["detail"]


def test_people_see_how_large_a_service_is_and_why(centre: Centre) -> None:
    job_id = placed(centre, ("seoul", 2))
    with centre.client("acme") as http:
        listed = http.get("/v1/jobs", params={"limit": 1000}).json()["items"]
        (mine,) = [each for each in listed if each["id"] == job_id]
        assert (mine["ready"], mine["wanted"]) == (2, 2)
        explained = http.get(f"/v1/jobs/{job_id}/explain").json()
        size = explained["attempts"][0]["size"]
        assert (size["ready"], size["serving"], size["why"]) == (2, 2, "as the centre ordered it")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Centre, Centre]]:
    """Two servers on one database."""
    address = f"sqlite:///{tmp_path_factory.mktemp('pair') / Path('state.db')}"
    with Centre(address) as one, Centre(address) as other:
        other.secrets = one.secrets
        yield one, other


def test_a_server_without_the_link_tells_the_one_that_has_it(pair: tuple[Centre, Centre]) -> None:
    one, other = pair
    job_id = placed(one, ("seoul", 1))
    one.signals.linked.clear()
    one.signals.elsewhere["seoul"] = other.url
    other.signals.linked.add("seoul")
    assert report(one, job_id, queue=2).json() == {"clusters": ["seoul"], "note": ""}
    assert [each.queue_length for _, each in other.signals.heard] == [2.0]


def test_two_servers_do_not_tell_each_other_for_ever(pair: tuple[Centre, Centre]) -> None:
    one, other = pair
    job_id = placed(one, ("seoul", 1))
    for mine, theirs in ((one, other), (other, one)):
        mine.signals.linked.clear()
        mine.signals.elsewhere["seoul"] = theirs.url
    told = report(one, job_id, queue=2).json()
    assert told["clusters"] == []
    assert "cannot be reached" in told["note"]
