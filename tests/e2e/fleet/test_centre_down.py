"""The whole centre is gone for a minute, and Dure is removed: work goes on either way.

Leases and patience are a tenth of what they are by default, so that the minute counts as ten.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dure.api.jobs import JobSpec
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from tests.e2e.fleet.beds import NAMESPACE, SYSTEM, TENANT, Bed, KubernetesBed, ProcessBed
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
"""Of each of the two nodes of a cluster."""
FIT, WAIT = 2 * DEVICES, 4
"""Jobs of each cluster that run when the centre goes, and that wait for a place."""
RUNS_S = 25
MERGE = {"content-type": "application/merge-patch+json"}


@pytest.fixture
def fleet(make_fleet: MakeFleet, folder: Path) -> Fleet:
    """Two servers, a Kubernetes and a cluster of processes, of two nodes each."""
    kube = KubernetesBed("plain", folder, KubeCluster())
    kube.prepare(nodes=2, devices=DEVICES)
    return make_fleet([kube, ProcessBed("local", folder, nodes=2, devices=DEVICES)], **SCALED)


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
    kube, _ = fleet.beds
    assert isinstance(kube, KubernetesBed)
    jobs = [job for bed in fleet.beds for job in _submit(fleet, bed, RUNS_S, FIT + WAIT)]
    for bed in fleet.beds:
        wait_for(f"{bed.name} is full", partial(_counts, bed, FIT))
    witness = Witness(tuple(bed.watch.scene for bed in fleet.beds), set(jobs))
    with background("witness", witness.look, 0.1):
        for part in (*fleet.centre.servers, *fleet.stores):
            part.kill()
        down_s = time.monotonic()
        admitted = _drain_and_return(fleet, kube)
        time.sleep(max(0.0, down_s + DOWN_S - time.monotonic()))
        for part in (*fleet.stores, *fleet.centre.servers):
            part.start()
        wait_for("the centre is back", lambda: _all_ready(fleet))
        back_s = time.monotonic()
        converged_s = converge(fleet)
        wait_for("all jobs are done", lambda: not _unfinished(fleet))
        done_s = time.monotonic() - back_s
    figures = {
        "down_s": DOWN_S,
        "admitted_without_centre": admitted,
        "all_done_after_s": round(done_s, 1),
        "converged_s": round(converged_s, 1),
    }
    print(f"fleet: {figures}")  # noqa: T201
    summarise(figures)
    assert not witness.doubled, witness.doubled
    rows = fleet.centre.rows("SELECT id, phase, attempt FROM jobs")
    assert {row["id"] for row in rows} == set(jobs)
    wrong = [row for row in rows if (row["phase"], row["attempt"]) != ("succeeded", 1)]
    assert not wrong, "\n".join(story(fleet.centre, row["id"]) for row in wrong)


def _drain_and_return(fleet: Fleet, kube: KubernetesBed) -> int:
    """An operator takes a node away and gives it back; how many Pods were started anew then.

    What ran there waits in the cluster, also over its member's death, and nobody but the member is
    there to start it again.
    """
    node = kube.node_names[-1]
    path = f"/api/v1/nodes/{node}"
    kube.cluster.request("PATCH", path, {"spec": {"unschedulable": True}}, **MERGE)
    taken = [pod["metadata"] for pod in _pod_list(kube) if pod["spec"]["nodeName"] == node]
    for each in taken:
        kube.cluster.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{each['name']}")
    wait_for("half of it runs", partial(_counts, kube, FIT - len(taken)))
    for bed in fleet.beds:
        bed.member.kill()
        bed.member.start()
    wait_for("members are back", lambda: all(bed.member.is_ready for bed in fleet.beds))
    before = {pod["metadata"]["uid"] for pod in _pod_list(kube)}
    kube.cluster.request("PATCH", path, {"spec": {"unschedulable": False}}, **MERGE)
    new: set[str] = set()

    def all_new() -> bool:
        new.update({pod["metadata"]["uid"] for pod in _pod_list(kube)} - before)
        return len(new) >= len(taken) > 0

    wait_for("what was taken runs again", all_new)
    return len(new)


def _counts(bed: Bed, number: int) -> bool:
    return len(_runs(bed)) == number


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
        wait_for(f"work runs in {bed.name}", partial(_counts, bed, 2))
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
    found: list[Any] = bed.cluster.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return found
