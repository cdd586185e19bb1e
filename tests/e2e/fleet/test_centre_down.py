"""The whole centre is gone for a minute, and Dure is removed: work goes on either way.

Leases and patience are a tenth of what they are by default, so that the minute counts as ten.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dure.api.jobs import JobSpec
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.fleet.beds import SYSTEM, TENANT, Bed, KubernetesBed, ProcessBed
from tests.e2e.fleet.conftest import MakeFleet
from tests.e2e.fleet.fleet import Fleet
from tests.e2e.fleet.parts import background, wait_for
from tests.e2e.fleet.sights import Key, Witness
from tests.e2e.fleet.verdict import converge, story
from tests.kube.cluster import KubeCluster

pytestmark = [pytest.mark.fleet, pytest.mark.kube, pytest.mark.services]

SCALED = {"lease_ttl_s": 0.5, "lost_after_s": 3.0, "silence_s": 2.0, "ping_s": 0.5}
DOWN_S = 65.0
DEVICES = 4
JOBS = 16
"""Of each cluster: four times what it can run at once."""
RUNS_S = 12


@pytest.fixture
def fleet(make_fleet: MakeFleet, folder: Path) -> Fleet:
    """Two servers, a Kubernetes and a cluster of processes of four devices each."""
    kube = KubernetesBed("plain", folder, KubeCluster())
    kube.prepare(nodes=1, devices=DEVICES)
    return make_fleet([kube, ProcessBed("local", folder, nodes=1, devices=DEVICES)], **SCALED)


def _spec(bed: Bed, runs_s: int | None) -> JobSpec:
    if isinstance(bed, KubernetesBed):
        notes = {} if runs_s is None else {"paper.dure.test/runs-for": f"{runs_s}s"}
        what: dict[str, Any] = {"image": "paper", "annotations": notes}
    else:
        what = {"command": ["/bin/sleep", str(runs_s or 3600)]}
    common = {"name": "job", "kind": "batch", "tenant": TENANT, "grace": "1s", "work": "1m"}
    needs = {"clusters": [bed.name], "resources": {"memory": "1GiB"}}
    return JobSpec.model_validate(common | needs | what, strict=False)


def _submit(fleet: Fleet, bed: Bed, runs_s: int | None, count: int) -> list[str]:
    with fleet.centre.client() as client:
        return [client.do(calls.submit(_spec(bed, runs_s))).ids[0] for _ in range(count)]


def _runs(bed: Bed) -> set[Key]:
    return {sight.key for sight in bed.watch.now() or () if sight.running}


def test_clusters_admit_on_without_a_centre_and_catch_up_when_it_is_back(
    fleet: Fleet, summarise: Callable[[Any], None]
) -> None:
    jobs = {bed.name: _submit(fleet, bed, RUNS_S, JOBS) for bed in fleet.beds}
    for bed in fleet.beds:
        wait_for(f"{bed.name} is full", lambda bed=bed: len(_runs(bed)) == DEVICES)  # type: ignore[misc]
    witness = Witness(tuple(bed.watch.scene for bed in fleet.beds))
    witness.exclusive = {job for each in jobs.values() for job in each}
    queued = _queued(fleet)
    with background("witness", witness.look, 0.1):
        for part in (*fleet.centre.servers, *fleet.stores):
            part.kill()
        down_s = time.monotonic()
        before = {bed.name: _runs(bed) for bed in fleet.beds}
        later: dict[str, set[Key]] = {bed.name: set() for bed in fleet.beds}
        restarted = False
        while time.monotonic() - down_s < DOWN_S:
            for bed in fleet.beds:
                later[bed.name] |= _runs(bed) - before[bed.name]
            if not restarted and time.monotonic() - down_s > DOWN_S / 3:
                restarted = True
                for bed in fleet.beds:  # a member that dies meanwhile goes on from its memory
                    bed.member.kill()
                    bed.member.start()
            time.sleep(0.25)
        for part in (*fleet.stores, *fleet.centre.servers):
            part.start()
        wait_for("the centre is back", lambda: _all_ready(fleet))
        back_s = time.monotonic()
        wait_for("all jobs are done", lambda: not _unfinished(fleet))
        done_s = time.monotonic() - back_s
    converged_s = converge(fleet)
    figures = {
        "down_s": DOWN_S,
        "queued_in_clusters": queued,
        "admitted_without_centre": {name: len(keys) for name, keys in later.items()},
        "all_done_after_s": round(done_s, 1),
        "converged_s": round(converged_s, 1),
    }
    print(f"fleet: {figures}")  # noqa: T201
    summarise(figures)
    for name, keys in later.items():
        assert len(keys) >= queued[name] > 0, figures
    assert not witness.doubled, witness.doubled
    rows = fleet.centre.rows("SELECT id, phase, attempt FROM jobs")
    wrong = [row for row in rows if (row["phase"], row["attempt"]) != ("succeeded", 1)]
    assert not wrong, "\n".join(story(fleet.centre, row["id"]) for row in wrong)


def _queued(fleet: Fleet) -> dict[str, int]:
    """Intents that a cluster has accepted and not begun."""
    rows = fleet.centre.rows(
        "SELECT cluster, count(*) AS waiting FROM attempts WHERE state = 'committed' GROUP BY 1"
    )
    return {row["cluster"]: row["waiting"] for row in rows}


def _all_ready(fleet: Fleet) -> bool:
    for part in fleet.parts:
        part.tend()
    return all(part.is_ready for part in fleet.parts)


def _unfinished(fleet: Fleet) -> list[str]:
    ends = [phase.value for phase in JobPhase if phase.ended]
    rows = fleet.centre.rows("SELECT id FROM jobs WHERE NOT phase = ANY(%s)", ends)
    return [row["id"] for row in rows]


def test_removing_dure_leaves_peoples_work_where_it_is(fleet: Fleet) -> None:
    for bed in fleet.beds:
        _submit(fleet, bed, None, 2)
        wait_for(f"work runs in {bed.name}", lambda bed=bed: len(_runs(bed)) == 2)  # type: ignore[misc]
    kube, local = fleet.beds
    assert isinstance(kube, KubernetesBed)
    before = _pods(kube), _runs(local)
    for part in (*fleet.centre.servers, kube.member, local.member):
        part.kill()
    for kind in (
        "api/v1/namespaces/{}/secrets",
        "apis/coordination.k8s.io/v1/namespaces/{}/leases",
    ):
        path = f"/{kind.format(SYSTEM)}"
        assert kube.cluster.request("GET", path)["items"], "there is something to remove"
        kube.cluster.request("DELETE", path)
    kube.cluster.request("DELETE", f"/api/v1/namespaces/{SYSTEM}")
    gone = f"/api/v1/namespaces/{SYSTEM}"
    wait_for("Dure's namespace is gone", lambda: not kube.cluster.has(gone))
    time.sleep(5.0)
    assert (_pods(kube), _runs(local)) == before
    owners = [pod["metadata"].get("ownerReferences") for pod in _pod_list(kube)]
    assert not any(owners), owners


def _pods(bed: KubernetesBed) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["status"]["phase"] for pod in _pod_list(bed)}


def _pod_list(bed: KubernetesBed) -> list[Any]:
    found: list[Any] = bed.cluster.request("GET", f"/api/v1/namespaces/dure-{TENANT}/pods")["items"]
    return found
