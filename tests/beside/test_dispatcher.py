"""Beside a real Kueue: clusters are nominated as C3-ATS chooses, and nothing else is touched."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dure.beside.dispatcher import FALLBACK, NOT_RANKED
from dure.server.planner.loading import begin
from dure.server.planner.suspects import Suspects
from dure.stores.rows import Job
from dure.stores.store import Store
from tests.beside.kueue_bed import KueueCluster, account_kubeconfig, job, reserved
from tests.kube.ports import free_port
from tests.kube.programs import LIMIT_S, wait_until
from tests.server.rest.centre import Centre
from tests.server.rest.fleets import join_clusters

pytestmark = pytest.mark.kube

PRICES = {"osaka": 1.0, "oregon": 3.0}
COUNT = 50


@dataclass
class Bed:
    manager: KueueCluster
    workers: dict[str, KueueCluster]
    centre: Centre

    def submit(self, *jobs: dict[str, Any], namespace: str = "team") -> None:
        self.manager.put(f"/apis/batch/v1/namespaces/{namespace}/jobs", *jobs)

    def await_quota(self, *names: str, namespace: str = "team") -> None:
        def all_have() -> bool:
            found = self.manager.workloads(namespace)
            return all(name in found and reserved(found[name]) for name in names)

        wait_until(f"{len(names)} Workloads have their quota", all_have)

    def status(self, name: str, namespace: str = "team") -> dict[str, Any]:
        status: dict[str, Any] = self.manager.workloads(namespace)[name]["status"]
        return status

    def placed(self, namespace: str = "team") -> set[str]:
        """Jobs whose Workload was admitted in some cluster."""
        time.sleep(0.5)  # the answer is long, and two Kueues are busy meanwhile
        found = self.manager.workloads(namespace).items()
        return {name for name, each in found if each["status"].get("clusterName")}

    @contextmanager
    def dispatching(self, *, url: str = "", **settings: Any) -> Iterator[None]:
        """`dure kueue` with the rights of its manifest and the token of a viewer of the fleet."""
        folder = self.manager.folder
        file = folder / "settings.yaml"
        file.write_text(json.dumps(settings), encoding="utf-8")
        rights = account_kubeconfig(self.manager, "kueue-rights.yaml", "dure-kueue")
        words = ["kueue", f"--kubeconfig={rights}", f"--settings={file}"]
        asked = {"DURE_SERVER": url or self.centre.url, "DURE_TOKEN": self.centre.secrets["viewer"]}
        with (folder / "dure-kueue.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", "from dure.cli.main import main; main()", *words],
                env={**os.environ, **asked},
                stdout=log,
                stderr=log,
            )
        try:
            yield
            assert process.poll() is None, (folder / "dure-kueue.log").read_text()
        finally:
            process.terminate()
            process.wait(LIMIT_S)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A manager with two workers, each with a real Kueue, and a centre that knows both workers."""
    manager, workers = KueueCluster(), {name: KueueCluster() for name in PRICES}
    everything = [manager, *workers.values()]
    folder: Path = tmp_path_factory.mktemp("centre")
    try:
        for cluster in everything:
            cluster.launch()
        for cluster in everything:
            cluster.start()
            cluster.namespaces("team", "guests", **{"dure.io/tenant": "acme"})
            cluster.namespaces("nobodys")
        for worker in workers.values():
            worker.queue("gpus", namespaces=["team", "guests", "nobodys"])
            worker.run_kueue()
        manager.workers("dure", "all", workers)
        manager.workers("elsewhere", "other", workers)
        manager.queue("gpus", checks=["dure"], namespaces=["team", "guests", "nobodys"])
        manager.queue("others", checks=["elsewhere"], namespaces=["team"])
        manager.queue("local", namespaces=["team"])
        manager.run_kueue()
        with Centre(f"sqlite:///{folder / 'centre.db'}") as centre:
            join_clusters(centre, PRICES)
            yield Bed(manager, workers, centre)
    finally:
        for cluster in everything:
            cluster.close()


def shapes() -> dict[str, tuple[int, int, int]]:
    """GPUs of a Pod, Pods and hours of fifty jobs: more than the cheap cluster has room for."""
    chance = random.Random(7)
    return {
        f"job-{number:02d}": (
            chance.choice((1, 1, 2, 4)),
            chance.choice((1, 1, 1, 2)),
            chance.choice((1, 2, 8)),
        )
        for number in range(COUNT)
    }


def chosen_by_the_planner(bed: Bed, names: dict[str, str]) -> dict[str, str]:
    """Where the centre's own planner sends the same jobs; `names`: job by name of its Workload."""

    async def plan() -> dict[str, str]:
        async with Store.open(bed.centre.address) as store, store.reading() as tx:
            begun = await begin(tx, time.time_ns, Suspects())
        for number, workload in enumerate(sorted(names)):
            gpus, pods, hours = shapes()[names[workload]]
            spec = {
                "name": workload,
                "kind": "training" if pods > 1 else "batch",
                "image": "trainer:1",
                "clusters": sorted(PRICES),
                "resources": {"devices": gpus, "whole": True, "cpu": 1.0, "host_memory": "1GiB"},
                "work": {"time": f"{hours}h"},
                "gang": {"workers": pods},
            }
            row = Job(f"{number:026d}", "acme", workload, spec, submitted_ns=number)
            begun.centre.submit(row)
        begun.centre.round()
        orders = [placing.order for placing in begun.centre.take_deeds().placings]
        by_number = dict(enumerate(sorted(names)))
        return {names[by_number[int(each.workload.id)]]: each.site.cluster for each in orders}

    return asyncio.run(plan())


def test_fifty_workloads_go_where_c3_ats_sends_them_and_nothing_else_is_touched(bed: Bed) -> None:
    bed.submit(
        *(
            job(name, "gpus", gpus=gpus, pods=pods, annotations={"dure.io/work": f"{hours}h"})
            for name, (gpus, pods, hours) in shapes().items()
        )
    )
    bed.submit(job("theirs", "others"), job("stays", "local"))
    bed.await_quota(*shapes(), "theirs")
    found = bed.manager.workloads("team")
    names = {found[name]["metadata"]["name"]: name for name in shapes()}
    expected = chosen_by_the_planner(bed, names)
    assert set(expected.values()) == set(PRICES), "the cheap cluster is not large enough for all"
    assert len(expected) > COUNT / 2

    with bed.dispatching(admissionChecks=["dure"], widenAfter="1h", patience="1h"):
        wait_until(
            "every Workload that has a place is admitted in its cluster",
            lambda: bed.placed() >= set(expected),
        )

    after = bed.manager.workloads("team")
    assert {name: after[name]["status"]["clusterName"] for name in expected} == expected
    for name in set(shapes()) - set(expected):
        assert "clusterName" not in after[name]["status"], "C3-ATS would let it wait"
        assert not after[name]["status"].get("nominatedClusterNames")
    for name in ("theirs", "stays"):
        assert not after[name]["status"].get("nominatedClusterNames")
    # Kueue took the nominations away by itself, which it can only from its own field manager.
    assert not any(after[name]["status"].get("nominatedClusterNames") for name in expected)
    asked = bed.manager.requests_of("dure-kueue")
    writes = [each for each in asked if each["verb"] not in ("get", "list", "watch")]
    nominations = [each for each in writes if each["objectRef"]["resource"] == "workloads"]
    ours = {found[name]["metadata"]["name"] for name in expected}
    assert {each["objectRef"]["name"] for each in nominations} == ours
    assert {each["objectRef"]["subresource"] for each in nominations} == {"status"}
    rest = [each for each in writes if each["objectRef"]["resource"] != "workloads"]
    assert {(each["verb"], each["objectRef"]["resource"]) for each in rest} <= {
        ("create", "events")
    }


def test_a_workload_that_lost_its_place_is_nominated_anew(bed: Bed) -> None:
    bed.submit(job("again", "gpus"), namespace="guests")
    bed.await_quota("again", namespace="guests")
    with bed.dispatching(admissionChecks=["dure"], widenAfter="1h"):
        wait_until("it has a place", lambda: bool(bed.status("again", "guests").get("clusterName")))
        name = bed.manager.workloads("guests")["again"]["metadata"]["name"]
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/guests/workloads/{name}"
        merge = {"content-type": "application/merge-patch+json"}
        bed.manager.request("PATCH", path, {"spec": {"active": False}}, **merge)
        wait_until("it lost it", lambda: not bed.status("again", "guests").get("clusterName"))
        bed.manager.request("PATCH", path, {"spec": {"active": True}}, **merge)
        wait_until("it has one", lambda: bool(bed.status("again", "guests").get("clusterName")))


def test_what_cannot_be_translated_is_left_alone_and_told_why(bed: Bed) -> None:
    bed.submit(job("no-gpu", "gpus", gpus=0), job("no-tenant", "gpus"), namespace="nobodys")
    bed.await_quota("no-gpu", "no-tenant", namespace="nobodys")
    settings: dict[str, Any] = {"queues": {"nobodys/none": "acme"}, "admissionChecks": ["dure"]}
    with bed.dispatching(**settings):

        def told() -> bool:
            events = bed.manager.request("GET", "/api/v1/namespaces/nobodys/events")["items"]
            return len([each for each in events if each["reason"] == NOT_RANKED]) >= 2

        wait_until("both are told", told)
    events = bed.manager.request("GET", "/api/v1/namespaces/nobodys/events")["items"]
    messages = [each["message"] for each in events if each["reason"] == NOT_RANKED]
    assert all("nobodys/gpus" in message for message in messages)
    for name in ("no-gpu", "no-tenant"):
        assert not bed.status(name, "nobodys").get("nominatedClusterNames")


def test_price_carbon_and_headroom_are_published_beside_what_others_say(bed: Bed) -> None:
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/team/clusterprofiles"
    spec = {"clusterManager": {"name": "somebody"}, "displayName": "Osaka"}
    bed.manager.put(path, {"metadata": {"name": "osaka"}, "spec": spec})
    theirs = {"status": {"properties": [{"name": "location", "value": "jp"}]}}
    merge = {"content-type": "application/merge-patch+json"}
    bed.manager.request("PATCH", f"{path}/osaka/status", theirs, **merge)

    def said() -> dict[str, str]:
        status = bed.manager.request("GET", f"{path}/osaka").get("status") or {}
        return {each["name"]: each["value"] for each in status.get("properties") or ()}

    with bed.dispatching(admissionChecks=["dure"]):
        wait_until("it is published", lambda: "dure.io/headroom.a100-40gb" in said())
    found = said()
    assert found["location"] == "jp"
    assert found["dure.io/headroom.a100-40gb"] == "32"
    assert found["dure.io/price.a100-40gb"] == "1"
    assert found["dure.io/carbon-g-per-kwh"] == "300"


def test_a_cluster_without_a_member_is_ranked_by_its_cluster_profile(bed: Bed) -> None:
    """Named in the MultiKueueConfig, unknown to the centre: its properties say what it has."""
    path = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/team/clusterprofiles"
    spec = {"clusterManager": {"name": "somebody"}}
    bed.manager.put(path, {"metadata": {"name": "borrowed"}, "spec": spec})
    said = {
        "dure.io/devices.a100-40gb": "8",
        "dure.io/headroom.a100-40gb": "8",
        "dure.io/price.a100-40gb": "0.1",
        "dure.io/carbon-g-per-kwh": "20",
    }
    properties = [{"name": name, "value": value} for name, value in said.items()]
    merge = {"content-type": "application/merge-patch+json"}
    status = {"status": {"properties": properties}}
    bed.manager.request("PATCH", f"{path}/borrowed/status", status, **merge)
    config = "/apis/kueue.x-k8s.io/v1beta2/multikueueconfigs/all"
    change = {"spec": {"clusters": [*PRICES, "borrowed"]}}
    bed.manager.request("PATCH", config, change, **merge)
    bed.submit(job("cheap", "gpus"), namespace="guests")
    try:
        bed.await_quota("cheap", namespace="guests")
        with bed.dispatching(admissionChecks=["dure"], widenAfter="1h"):
            wait_until(
                "it is nominated",
                lambda: bool(bed.status("cheap", "guests").get("nominatedClusterNames")),
            )
        assert bed.status("cheap", "guests")["nominatedClusterNames"] == ["borrowed"]
    finally:
        bed.manager.request("PATCH", config, {"spec": {"clusters": list(PRICES)}}, **merge)


def test_nobody_waits_because_the_centre_is_away(bed: Bed) -> None:
    bed.submit(job("alone", "gpus"), namespace="guests")
    bed.await_quota("alone", namespace="guests")
    nobody = f"http://127.0.0.1:{free_port()}"
    with bed.dispatching(url=nobody, admissionChecks=["dure"], fallbackAfter="1s", review="1s"):
        wait_until("it has a place", lambda: "alone" in bed.placed("guests"))
    events = bed.manager.request("GET", "/api/v1/namespaces/guests/events")["items"]
    told = [each["message"] for each in events if each["reason"] == FALLBACK]
    assert any("no answer" in message for message in told)
