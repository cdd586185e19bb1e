"""Pods and Workloads as a cluster tells them, as records."""

from typing import Any

from dure.beside.shadow.reading import expected_pods, pod_record, slim
from dure.domain.units import NS_PER_S

CREATED, BOUND, ENDED = "2026-11-16T10:00:00Z", "2026-11-16T10:00:05Z", "2026-11-16T11:00:00Z"


def pod(**more: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "trainer:1",
        "env": [{"name": "SECRET", "value": "x"}],
        "resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "4"}},
    }
    metadata = {
        "name": "one",
        "namespace": "team",
        "uid": "u1",
        "creationTimestamp": CREATED,
        "managedFields": [{}],
    }
    return {
        "metadata": metadata | more.pop("metadata", {}),
        "spec": {"containers": [container], "nodeName": "gpu-0"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}],
        }
        | more,
    }


def test_what_a_slim_pod_says_is_what_the_whole_one_says() -> None:
    whole = pod_record("home", pod())
    slimmed = slim(pod())
    assert pod_record("home", slimmed) == whole
    assert "SECRET" not in str(slimmed)
    assert whole is not None
    assert (whole.count, whole.cpu_milli, whole.node) == (2, 4000, "gpu-0")
    assert whole.bound_ns == whole.created_ns + 5 * NS_PER_S
    assert whole.ended_ns is None


def test_an_end_is_when_the_last_container_ended() -> None:
    ended = {"state": {"terminated": {"finishedAt": ENDED}}}
    record = pod_record("home", pod(phase="Succeeded", containerStatuses=[ended]), gone_ns=1)
    assert record is not None
    assert record.ended_ns == record.created_ns + 3600 * NS_PER_S


def test_pods_of_an_indexed_job_belong_together_and_those_of_a_plain_one_do_not() -> None:
    owner = {"ownerReferences": [{"uid": "job-uid", "kind": "Job", "controller": True}]}
    plain = pod_record("home", pod(metadata=owner))
    index = {"labels": {"batch.kubernetes.io/job-completion-index": "0"}}
    indexed = pod_record("home", pod(metadata=owner | index))
    assert plain is not None
    assert indexed is not None
    assert plain.gang == plain.uid
    assert indexed.gang == "home/team/job-uid"


def test_a_workload_that_waits_has_pods_that_are_expected_until_it_is_admitted() -> None:
    def workload(*conditions: dict[str, str]) -> dict[str, Any]:
        pods: dict[str, Any] = {"name": "main", "count": 3, "template": {"spec": pod()["spec"]}}
        pods["template"]["spec"].pop("nodeName")
        metadata = {"name": "w", "namespace": "team", "uid": "w1", "creationTimestamp": CREATED}
        return {
            "metadata": metadata,
            "spec": {"podSets": [pods]},
            "status": {"conditions": list(conditions)},
        }

    waiting = expected_pods("home", workload())
    assert [each.uid for each in waiting] == ["w1/main/0", "w1/main/1", "w1/main/2"]
    assert all(each.expected and each.ended_ns is None and not each.node for each in waiting)
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": ENDED}
    assert all(each.ended_ns for each in expected_pods("home", workload(admitted)))
