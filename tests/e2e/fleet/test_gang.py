"""A gang with one Pod that no node takes, through the whole stack: whole or not at all."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dure.api.jobs import JobSpec
from dure.client.fleet import calls
from dure.domain.fleet.lifecycle import JobPhase
from dure.member.kube.settings import KubeSettings
from dure.member.kube.shepherd import EPSILON_S
from tests.e2e.fleet.beds import NAMESPACE, TENANT, KubernetesBed
from tests.e2e.fleet.conftest import MakeFleet
from tests.e2e.fleet.parts import background, wait_for
from tests.kube.cluster import KubeCluster

pytestmark = [pytest.mark.fleet, pytest.mark.kube, pytest.mark.services]

WORKERS = 8
BIND_S = KubeSettings.bind_within_s
LOOK_S = 0.2
LIMIT_S = 3 * BIND_S
OBSTACLE = "in-the-way"


class Bound:
    """How many Pods of a gang have a node, and how long it was some of them but not all."""

    def __init__(self, bed: KubernetesBed) -> None:
        self._bed = bed
        self.now = 0
        self.most = 0
        self.times_back = 0
        """How often all were without a node again."""
        self._since_s: float | None = None
        self.longest_partly_s = 0.0

    def look(self) -> None:
        """Count once more."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=dure.io%2Fmanaged-by%3Ddure"
        pods = self._bed.cluster.request("GET", path)["items"]
        before, self.now = self.now, sum(bool(pod["spec"].get("nodeName")) for pod in pods)
        self.most = max(self.most, self.now)
        self.times_back += bool(before) and not self.now
        now_s = time.monotonic()
        if 0 < self.now < WORKERS:
            self._since_s = self._since_s or now_s
            self.longest_partly_s = max(self.longest_partly_s, now_s - self._since_s)
        else:
            self._since_s = None


def test_a_gang_of_eight_with_one_pod_that_fits_nowhere_is_taken_back_and_starts_whole(
    make_fleet: MakeFleet, folder: Path, summarise: Callable[[Any], None]
) -> None:
    bed = KubernetesBed("plain", folder, KubeCluster())
    bed.prepare(nodes=WORKERS - 1, devices=1)
    # A node with one device and room for one Pod, which somebody's small Pod has: neither Dure nor
    # the node's devices show that, only the scheduler knows.
    bed.add_node("narrow", {"nvidia.com/gpu": "1", "pods": "1"})
    _put_in_the_way(bed)
    fleet = make_fleet([bed])
    spec = {
        "name": "gang",
        "kind": "training",
        "tenant": TENANT,
        "image": "paper",
        "annotations": {"paper.dure.test/runs-for": "5s"},
        "resources": {"memory": "1GiB"},
        "work": "1m",
        "gang": WORKERS,
    }
    bound = Bound(bed)
    with fleet.centre.client() as client, background("bound", bound.look, LOOK_S):
        (job,) = client.do(calls.submit(JobSpec.model_validate(spec, strict=False))).ids
        wait_for("all but one are bound", lambda: bound.now == WORKERS - 1, LIMIT_S)
        wait_for("all are taken back", lambda: bound.times_back, LIMIT_S)
        assert client.do(calls.get_job(job)).phase is not JobPhase.RUNNING
        bed.cluster.request("DELETE", f"/api/v1/namespaces/default/pods/{OBSTACLE}")
        began_s = time.monotonic()
        wait_for("it is there whole", lambda: bound.now == WORKERS, LIMIT_S)
        whole_s = time.monotonic() - began_s
        done = client.wait(job, LIMIT_S)
    figures = {
        "limit_s": BIND_S,
        "longest_partly_s": round(bound.longest_partly_s, 1),
        "whole_after_s": round(whole_s, 1),
        "attempts": done.attempt,
    }
    print(f"fleet: {figures}")  # noqa: T201
    summarise(figures)
    assert done.phase is JobPhase.SUCCEEDED, done
    assert bound.longest_partly_s <= BIND_S + EPSILON_S + LOOK_S, figures


def _put_in_the_way(bed: KubernetesBed) -> None:
    container = {"name": "main", "image": "paper"}
    spec = {"nodeName": "narrow", "containers": [container], "terminationGracePeriodSeconds": 0}
    body = {"metadata": {"name": OBSTACLE}, "spec": spec}
    bed.cluster.request("POST", "/api/v1/namespaces/default/pods", body)
