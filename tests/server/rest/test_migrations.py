"""Migrations by REST: asked for, weighed, looked at, called off, and what is refused with why."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import AttemptState, ClusterState, JobPhase
from dure.domain.fleet.migrations import MoveStep
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction
from tests.server.centres import job_row
from tests.server.rest.centre import Centre
from tests.server.rest.fleets import join_clusters

NEVER = {"windows": ["mon 00:00-00:01 Pacific/Kiritimati"]}


@pytest.fixture
def centre(tmp_path: Path) -> Iterator[Centre]:
    with Centre(f"sqlite:///{tmp_path / 'state.db'}") as running:
        join_clusters(running, {"dear": 5.0, "cheap": 1.0})
        yield running


def running_job(centre: Centre, **spec: Any) -> str:
    """A job of acme that runs in the dear cluster."""
    gang, row = {"checkpointSize": "10GB", **spec.pop("gang", {})}, spec.pop("row", {})
    wanted = {"kind": "training", "image": "train", "work": {"time": "100h"}, "gang": gang} | spec
    job = job_row(**wanted, row=row)

    async def add(tx: Transaction) -> None:
        await tx.jobs.add(replace(job, phase=JobPhase.RUNNING, attempt=1, cluster="dear"))
        site = {"cluster": "dear", "group": "gpus"}
        order = {"site": site, "instances": 1, "explanation": {"terms": []}}
        await tx.attempts.add(Attempt(job.id, 1, "dear", 1, 1, True, spec=order))
        for state in (AttemptState.COMMITTED, AttemptState.RUNNING):
            await tx.attempts.advance(job.id, 1, state)

    centre.do(add)
    return job.id


def step_to(centre: Centre, job: str, step: MoveStep) -> None:
    """As the leader would."""

    async def go(tx: Transaction) -> None:
        (row,) = await tx.migrations.unfinished([job])
        await tx.migrations.step_all([replace(row, step=step, request=7)])

    centre.do(go)


def test_a_migration_is_stored_once_and_shown_with_its_job(centre: Centre) -> None:
    job = running_job(centre)
    path = f"/v1/jobs/{job}/migration"
    with centre.client("acme") as http:
        assert http.get(path).status_code == 404
        first, again = (http.post(path, json={"to": "cheap"}) for _ in range(2))
        other = http.post(path, json={"to": "dear"})
        shown, listed = http.get(f"/v1/jobs/{job}").json(), http.get("/v1/migrations").json()
        explained = http.get(f"/v1/jobs/{job}/explain").json()
        (summary,) = http.get("/v1/jobs").json()["items"]
    assert first.status_code == again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    told = first.json()
    assert (told["step"], told["fromCluster"], told["toCluster"]) == ("asked", "dear", "cheap")
    assert (told["kind"], told["fromAttempt"]) == ("checkpoint", 1)
    assert shown["migration"]["id"] == explained["migration"]["id"] == told["id"]
    assert [each["id"] for each in listed["items"]] == [told["id"]]
    assert summary["moving"] == "asked → cheap"
    assert other.status_code == 409
    assert "dure migrate" in other.json()["detail"]


def test_a_dry_run_says_what_it_comes_to_and_begins_nothing(centre: Centre) -> None:
    job = running_job(centre)
    path = f"/v1/jobs/{job}/migration"
    with centre.client("acme") as http:
        found = http.post(f"{path}?dryRun=true", json={})
        back = http.get(path)
    told = found.json()
    assert found.status_code == 200, told
    assert (told["fromSite"], told["toSite"]) == ("dear/gpus", "cheap/gpus")
    assert told["saving"] == pytest.approx(
        told["stay"] - sum(term["amount"] for term in told["terms"])
    )
    assert told["saving"] > 0
    assert told["pauseSeconds"] >= 10e9 / 1.25e9
    assert told["checkpointWaitSeconds"] == 600
    assert told["inWindow"] is True
    assert "hindrance" not in told or not told["hindrance"]
    assert back.status_code == 404


def test_calling_off_is_possible_until_the_old_place_is_told_to_end(centre: Centre) -> None:
    job = running_job(centre)
    path = f"/v1/jobs/{job}/migration"
    with centre.client("acme") as http:
        assert http.delete(path).status_code == 404
        http.post(path, json={})
        step_to(centre, job, MoveStep.RELEASING)
        late = http.delete(path)
        step_to(centre, job, MoveStep.SAVING)
        done = http.delete(path)
    assert late.status_code == 409
    assert f"dure migrate {job} --to dear" in late.json()["detail"]
    assert done.status_code == 202
    assert done.json()["abortedBy"]


def test_nobody_calls_off_what_a_drain_began_while_it_goes_on(centre: Centre) -> None:
    job = running_job(centre)
    path = f"/v1/jobs/{job}/migration"

    async def drain(tx: Transaction) -> None:
        row = await tx.clusters.get("dear")
        await tx.clusters.put(replace(row, state=ClusterState.DRAINING))
        (move,) = await tx.migrations.unfinished([job])
        await tx.migrations.step_all([replace(move, stop_anyway=True)])

    with centre.client("acme") as http:
        http.post(path, json={})
        centre.do(drain)
        told = http.delete(path)
    assert told.status_code == 409
    assert "dear is drained" in told.json()["detail"]


def test_a_program_says_through_the_centre_that_it_has_saved(centre: Centre) -> None:
    job = running_job(centre)
    with centre.client("acme") as http:
        http.post(f"/v1/jobs/{job}/migration", json={})
        step_to(centre, job, MoveStep.SAVING)
        wrong = http.post(f"/v1/jobs/{job}/checkpoint", json={"number": 6})
        right = http.post(f"/v1/jobs/{job}/checkpoint", json={"number": 7})

    async def acked(tx: Transaction) -> int:
        (row,) = await tx.migrations.unfinished([job])
        return row.acked

    assert wrong.status_code == 409
    assert "checkpoint 7 was asked for" in wrong.json()["detail"]
    assert right.status_code == 200
    assert centre.do(acked) == 7


@pytest.mark.parametrize(
    ("spec", "body", "status", "words"),
    [
        ({}, {"to": "nowhere"}, 404, "no cluster nowhere"),
        ({}, {"to": "dear"}, 409, "already; name another one"),
        ({}, {"to": 3}, 422, "to"),
        ({}, {"where": "cheap"}, 422, "where"),
        ({"row": {"pinned": True}}, {}, 409, "dure unpin"),
        (NEVER, {}, 409, "no window of job"),
        (NEVER, {"now": True}, 202, ""),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(
    centre: Centre, spec: dict[str, Any], body: dict[str, Any], status: int, words: str
) -> None:
    job = running_job(centre, **spec)
    with centre.client("acme") as http:
        answer = http.post(f"/v1/jobs/{job}/migration", json=body)
    assert answer.status_code == status
    assert not words or words in answer.json()["detail"]


def test_windows_of_tenant_and_cluster_count_too(centre: Centre) -> None:
    job = running_job(centre)

    async def close(tx: Transaction) -> None:
        row = await tx.clusters.get("cheap")
        await tx.clusters.put(replace(row, spec=dict(row.spec) | NEVER))

    async def close_tenant(tx: Transaction) -> None:
        row = await tx.tenants.get("acme")
        await tx.tenants.put(replace(row, spec=dict(row.spec) | NEVER))

    with centre.client("acme") as http:
        centre.do(close)
        there = http.post(f"/v1/jobs/{job}/migration", json={"to": "cheap"})
        centre.do(close_tenant)
        whose = http.post(f"/v1/jobs/{job}/migration", json={})
    assert "no window of cluster cheap is open now" in there.json()["detail"]
    assert "no window of tenant acme is open now" in whose.json()["detail"]


def test_jobs_of_others_are_not_moved_nor_seen_moving(centre: Centre) -> None:
    job = running_job(centre)
    with centre.client("acme") as http:
        http.post(f"/v1/jobs/{job}/migration", json={})
    with centre.client("globex") as http:
        assert http.post(f"/v1/jobs/{job}/migration", json={}).status_code == 404
        assert http.delete(f"/v1/jobs/{job}/migration").status_code == 404
        assert http.get("/v1/migrations").json()["items"] == []
    with centre.client("viewer") as http:
        assert http.post(f"/v1/jobs/{job}/migration", json={}).status_code == 403


def test_pinning_is_an_edit_and_a_word_of_the_document(centre: Centre) -> None:
    job = running_job(centre)
    with centre.client("acme") as http:
        pinned = http.patch(f"/v1/jobs/{job}", json={"pinned": True}).json()
        loose = http.patch(f"/v1/jobs/{job}", json={"pinned": False}).json()
        spec = {"name": "a", "kind": "batch", "command": ["true"], "pinned": True}
        (made,) = http.post("/v1/jobs", json=spec).json()["ids"]
        assert http.get(f"/v1/jobs/{made}").json()["pinned"] is True
        bad = http.post("/v1/jobs", json=spec | {"windows": ["someday"]})
    assert (pinned["pinned"], loose["pinned"]) == (True, False)
    assert bad.status_code == 422
    assert "windows" in bad.json()["detail"]
