"""Pods and nodes of the API as records of shadow mode."""

import datetime
from dataclasses import replace
from typing import Any

from dure.beside.shadow.records import NodeRecord, PodRecord, WorkloadRecord
from dure.beside.translating import wish_of
from dure.domain.units import NS_PER_S
from dure.kube.devices import node_devices
from dure.kube.inventory import kube_node
from dure.kube.quantities import pod_requests
from dure.kube.resources import Object, uid_of

_LIVES_ON = {"ReplicaSet", "StatefulSet", "DaemonSet"}
"""Owners whose Pods are not meant to end."""
_ONE_BY_ONE = _LIVES_ON | {"Job"}
"""Owners whose Pods do not wait for each other, but for an indexed Job."""
_INDEX = "batch.kubernetes.io/job-completion-index"
_POD_GROUP = "kueue.x-k8s.io/pod-group-name"
_WORKLOAD = "kueue.x-k8s.io/workload"
_OVER = ("Succeeded", "Failed")
_MOST_PRIORITY = 1000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def node_record(cluster: str, node: Object, now_ns: int) -> NodeRecord | None:
    """A node with accelerators; None: it has none. Raises where they are not known."""
    devices = node_devices(node)
    if devices is None:
        return None
    seen = kube_node(node, devices, "")
    return NodeRecord(
        cluster=cluster,
        name=seen.name,
        profile=devices.profile.name,
        mode=devices.mode,
        devices=devices.count,
        cpu_milli=seen.cpu_milli,
        host_memory_bytes=seen.host_memory_bytes,
        link_domain=seen.link_domain,
        seen_ns=now_ns,
    )


def pod_record(cluster: str, pod: Object, gone_ns: int | None = None) -> PodRecord | None:
    """A Pod that asks for accelerators; None: it asks for none. `gone_ns`: when it was deleted.

    Raises `UntranslatableError` where it asks in a way that is not understood.
    """
    wish = wish_of(pod)
    if wish is None:
        return None
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    requests = pod_requests(pod)
    owner, kind = _owner(pod)
    notes = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    together = notes.get(_POD_GROUP) or (
        owner if kind and (kind not in _ONE_BY_ONE or _INDEX in notes) else ""
    )
    return PodRecord(
        uid=uid_of(pod),
        cluster=cluster,
        namespace=metadata["namespace"],
        name=metadata["name"],
        gang=f"{cluster}/{metadata['namespace']}/{together}" if together else uid_of(pod),
        resource=wish.resource,
        count=wish.count,
        profiles=tuple(sorted(wish.profiles)),
        memory_bytes=wish.memory_bytes,
        whole=wish.whole,
        cpu_milli=int(requests.get("cpu", 0) * 1000),
        host_memory_bytes=int(requests.get("memory", 0)),
        priority=max(-_MOST_PRIORITY, min(_MOST_PRIORITY, int(spec.get("priority") or 0))),
        created_ns=_moment_ns(metadata["creationTimestamp"]),
        workload=notes.get(_WORKLOAD, ""),
        node=spec.get("nodeName") or "",
        bound_ns=_bound_ns(pod),
        ended_ns=_ended_ns(status, gone_ns),
        served=kind in _LIVES_ON,
    )


def workload_record(cluster: str, workload: Object) -> WorkloadRecord:
    """A Workload of Kueue."""
    metadata = workload["metadata"]
    created_ns = _moment_ns(metadata["creationTimestamp"])
    return WorkloadRecord(cluster, metadata["namespace"], metadata["name"], created_ns)


def expected_pods(cluster: str, workload: Object, gone_ns: int | None = None) -> list[PodRecord]:
    """The Pods that a Workload will have once it is admitted; `gone_ns`: when it was deleted.

    One that is admitted, or over, has its Pods or will never have any: these are expected no more.
    """
    metadata, status = workload["metadata"], workload.get("status") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    over_ns = gone_ns
    for kind in ("Admitted", "Finished"):
        condition = conditions.get(kind, {})
        if over_ns is None and condition.get("status") == "True":
            over_ns = _moment_ns(condition["lastTransitionTime"])
    found = []
    for pod_set in (workload.get("spec") or {}).get("podSets") or ():
        template = pod_set["template"]
        named = {
            "name": f"{metadata['name']}-{pod_set['name']}",
            "namespace": metadata["namespace"],
            "uid": f"{uid_of(workload)}/{pod_set['name']}",
            "creationTimestamp": metadata["creationTimestamp"],
        }
        record = pod_record(cluster, {"metadata": named, "spec": template["spec"]}, over_ns)
        if record is None:
            continue
        gang = f"{cluster}/{metadata['namespace']}/{metadata['name']}"
        found += [
            replace(
                record,
                uid=f"{record.uid}/{number}",
                gang=gang,
                workload=metadata["name"],
                expected=True,
            )
            for number in range(int(pod_set.get("count", 1)))
        ]
    return found


def slim(pod: Object) -> Object:
    """A Pod without what nobody reads here: clusters have many."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    metadata.pop("managedFields", None)
    containers = {
        kind: [
            {key: each[key] for key in ("resources", "restartPolicy") if key in each}
            for each in spec.get(kind) or ()
        ]
        for kind in ("containers", "initContainers")
    }
    kept = ("nodeName", "nodeSelector", "priority", "overhead", "resources")
    said = ("phase", "conditions", "containerStatuses")
    return {
        "metadata": metadata,
        "spec": {key: spec[key] for key in kept if key in spec} | containers,
        "status": {key: status[key] for key in said if key in status},
    }


def _owner(pod: Object) -> tuple[str, str]:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid", "")), str(owner.get("kind", ""))
    return "", ""


def _bound_ns(pod: Object) -> int | None:
    if not pod["spec"].get("nodeName"):
        return None
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return _moment_ns(condition["lastTransitionTime"])
    return _moment_ns(pod["metadata"]["creationTimestamp"])


def _ended_ns(status: dict[str, Any], gone_ns: int | None) -> int | None:
    if status.get("phase") in _OVER:
        ends = [
            _moment_ns(ended["finishedAt"])
            for each in status.get("containerStatuses") or ()
            if (ended := (each.get("state") or {}).get("terminated")) and ended.get("finishedAt")
        ]
        if ends:
            return max(ends)
        return gone_ns
    return gone_ns


def _moment_ns(text: str) -> int:
    since = datetime.datetime.fromisoformat(text) - _EPOCH
    return (since.days * 86400 + since.seconds) * NS_PER_S + since.microseconds * 1000
