"""Pods as informers keep them: what is left out must not be missed; no cluster needed."""

from dataclasses import replace
from typing import Any

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.programs import Program
from dure.domain.ids import ClusterId
from dure.kube.resources import Object
from dure.member.kube import foreign, gangs, names
from dure.member.kube.board import Board
from dure.member.kube.lives import is_bound, stuck_why, unbound_why
from dure.member.kube.notes import Note, write_note
from dure.member.kube.pods import MAIN
from dure.member.kube.settings import KubeSettings
from dure.member.kube.spots import NodeSpot
from dure.member.ports import Life, Seen, Sight
from tests.member.core.factories import a_service
from tests.member.kube.test_inventory import H100, node

SERVICE = replace(a_service("s"), program=Program(image="paper", port=8080))
RUNNING = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
PENDING = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}],
    "initContainerStatuses": [{"name": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "s-devices"}],
}
OVER = {
    "phase": "Failed",
    "message": "out of disk",
    "reason": "Evicted",
    "containerStatuses": [
        {
            "name": MAIN,
            "state": {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:01:00Z"}},
        }
    ],
}


def own_pod(status: dict[str, Any], **spec: Any) -> Object:
    """One of Dure's as an API server shows it."""
    key = SERVICE.key
    instance = InstanceId(key.job, key.attempt, 0)
    note = Note(SERVICE, (0,), (NodeSpot("n", (0,)),), ())
    return {
        "metadata": {
            "name": names.object_name(instance),
            "namespace": "team",
            "uid": "1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": names.attempt_labels(key.job, key.attempt),
            "annotations": {names.NOTE: write_note(note), names.DONE_SHARE: "0.5"},
            "managedFields": [{"manager": "dure"}],
        },
        "spec": {"containers": [{"name": MAIN, "image": "paper"}], **spec},
        "status": {"hostIP": "10.0.0.1", "podIPs": [{"ip": "10.1.0.5"}], **status},
    }


def seen_of(pod: Object) -> list[Sight]:
    board = Board(KubeSettings(ClusterId("here")))
    board.put_node(node("n", {"nvidia.com/gpu": "8"}, labels=H100), gone=False)
    board.put_pod(pod, gone=False)
    return [one for one in board.news() if getattr(one, "instance", None)]


def test_a_service_answers_at_the_address_of_its_pod() -> None:
    ready = {
        "phase": "Running",
        "podIP": "10.1.0.5",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": MAIN, **RUNNING}],
    }
    seen = seen_of(foreign.slim(own_pod(ready, nodeName="n")))[0]
    assert isinstance(seen, Seen)
    assert (seen.life, seen.address) == (Life.READY, "10.1.0.5:8080")


def test_of_own_pods_nothing_is_left_out_that_anybody_reads() -> None:
    gates = [{"name": names.GATE}, {"name": "other"}]
    claims = [{"name": "devices"}]
    running = {
        "phase": "Running",
        "podIP": "fd00::5",
        "containerStatuses": [{"name": MAIN, **RUNNING}],
    }
    for status, spec in (
        (PENDING, {"schedulingGates": gates, "resourceClaims": claims}),
        (PENDING, {"nodeName": "n", "resourceClaims": claims}),
        (running, {"nodeName": "n"}),
        (OVER, {"nodeName": "n"}),
    ):
        whole, kept = own_pod(status, **spec), foreign.slim(own_pod(status, **spec))
        assert seen_of(kept) == seen_of(whole)
        for read in (is_bound, stuck_why, unbound_why, gangs.is_gated, gangs.rank_of):
            assert read(kept) == read(whole), read
        assert kept["spec"].get("resourceClaims") == whole["spec"].get("resourceClaims")
        made = "resourceClaimStatuses"
        assert kept["status"].get(made) == whole["status"].get(made)
        if "schedulingGates" in spec:
            assert gangs.placed_patch(kept, "n") == gangs.placed_patch(whole, "n")
