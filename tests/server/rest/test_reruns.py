"""Re-runs: the last hour again under another policy, by the same code, and nothing is touched."""

from dataclasses import replace
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.units import NS_PER_S
from dure.stores.ids import new_id
from dure.stores.rows import Attempt, Job
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre
from tests.server.rest.fleets import PROFILE, join_clusters

AGO_NS = 3000 * NS_PER_S
DEAR, CHEAP = "dear", "cheap"


@pytest.fixture(autouse=True, scope="module")
def clusters(centre: Centre) -> None:
    """Clean energy dear, dirty energy cheap; two jobs that wait and one that has ended."""
    join_clusters(centre, {DEAR: 1.3, CHEAP: 1.0})
    with centre.client() as http:
        for name, carbon, price in ((DEAR, 10.0, 1.3), (CHEAP, 700.0, 1.0)):
            spec = {"tariff": {"deviceHour": {PROFILE: price}}, "carbon": carbon}
            seen = {"If-Match": "*"}
            answer = http.put(f"/v1/clusters/{name}", json=spec, headers=seen)
            assert answer.status_code == 200, answer.text
        green = {"all": {"carbonPerTonne": 5000.0}}
        assert http.put("/v1/policies/green", json=green).status_code == 201
    centre.do(_waiting)
    centre.do(_ended)


def row(name: str, now_ns: int, **more: Any) -> Job:
    """A job that came fifty minutes ago and takes two hours."""
    spec = {
        "name": name,
        "kind": "batch",
        "image": "x",
        "resources": {"memory": "1GiB", "whole": True},
        "work": {"time": "2h", "reference": PROFILE},
    }
    return Job(new_id(), "acme", name, spec, submitted_ns=now_ns - AGO_NS, **more)


async def _waiting(tx: Transaction) -> None:
    for number in range(2):
        await tx.jobs.add(row(f"waits-{number}", tx.now_ns))


async def _ended(tx: Transaction) -> None:
    stored = await tx.jobs.add(row("done", tx.now_ns, attempt=1, cluster=DEAR))
    place = {"site": {"cluster": DEAR, "group": "gpus"}}
    await tx.attempts.add(Attempt(stored.id, 1, DEAR, 1, 1, spec=place))
    for state in (AttemptState.COMMITTED, AttemptState.RUNNING, AttemptState.GONE):
        await tx.attempts.advance(stored.id, 1, state)
    await tx.jobs.put(replace(stored, phase=JobPhase.SUCCEEDED))


def rerun(centre: Centre, who: str = "admin", status: int = 200, **body: Any) -> Any:
    with centre.client(who) as http:
        answer = http.post("/v1/reruns", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def stored(centre: Centre) -> Any:
    with centre.client() as http:
        return http.get("/v1/jobs").json(), http.get("/v1/events?after=0").json()["last"]


def test_another_policy_places_the_same_work_elsewhere_and_nothing_that_is_stored_changes(
    centre: Centre,
) -> None:
    before = stored(centre)
    found = rerun(centre, policy="green")
    assert stored(centre) == before
    assert (found["jobs"], found["services"]) == (3, 0)
    assert found["inForce"]["name"] == "the defaults"
    assert found["candidate"]["name"] == "green"
    assert found["candidate"]["kgCo2"] < found["inForce"]["kgCo2"]
    assert found["candidate"]["money"]["rent"] > found["inForce"]["money"]["rent"]
    moved = {each["name"]: (each["inForce"], each["candidate"]) for each in found["differing"]}
    assert set(moved.values()) == {(CHEAP, DEAR)}
    used = {each["cluster"]: each["deviceHours"] for each in found["candidate"]["clusters"]}
    assert used[CHEAP] == 0.0 < used[DEAR]


def test_the_same_policy_comes_to_the_same(centre: Centre) -> None:
    found = rerun(centre, spec={}, minutes=15)
    assert found["differing"] == []
    assert found["candidate"]["money"] == found["inForce"]["money"]


def test_rules_of_other_schedulers_can_be_compared_with(centre: Centre) -> None:
    with centre.client() as http:
        choices = http.get("/v1/reruns/choices").json()
    assert choices["policies"] == ["green"]
    modes = [each["name"] for each in choices["modes"]]
    found = rerun(centre, "viewer", mode=modes[-1])
    assert found["candidate"]["name"] == modes[-1]
    assert found["candidate"]["placements"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"policy": "green", "mode": "first-fit"},
        {"policy": "nobody"},
        {"policy": "fleet"},
        {"mode": "by magic"},
        {"mode": "first-fit", "minutes": 0},
        {"mode": "first-fit", "minutes": 100_000},
        {"spec": {"all": {"costWeight": -1}}},
    ],
)
def test_what_makes_no_sense_is_refused_with_words(centre: Centre, body: dict[str, Any]) -> None:
    assert rerun(centre, status=422, **body)["detail"]


@pytest.mark.parametrize("who", ["acme", "vision", "acme-viewer"])
def test_only_those_who_see_the_whole_fleet_may(centre: Centre, who: str) -> None:
    rerun(centre, who, 403, mode="first-fit")
