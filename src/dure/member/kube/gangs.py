"""A gang as an Indexed Job: Pods behind a gate until each has its node, ranks behind a barrier.

The barrier is a volume: every Pod mounts a config map that does not exist before all Pods are
bound, and no container of a Pod starts before its volumes are there. It needs no image, no shell
and no rights of the program, and the config map can say who is where.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dure.kube.resources import JOBS, Object, uid_of, version_of
from dure.member.kube import names
from dure.member.kube.notes import Note, write_note
from dure.member.kube.pods import CLAIM, MAIN, Unit, node_affinity, pod_metadata, pod_spec
from dure.member.kube.settings import KubeSettings

BARRIER = "dure-gang"
"""Name of the volume."""
BARRIER_FOLDER = "/var/run/dure/gang"
HOSTS = "hosts"
"""File in it: one line for each rank, its host name and its node."""


def gang_name(units: Sequence[Unit]) -> str:
    """What the Job of a gang, its service, barrier and claims are called."""
    return units[0].name


def job_of(units: Sequence[Unit], settings: KubeSettings) -> Object:
    """The Job of a gang, suspended; ranks are the units in their order."""
    first, count, name = units[0], len(units), gang_name(units)
    desired = first.desired
    metadata = pod_metadata(desired, settings)
    devices = tuple(tuple(offer.name for offer in unit.offers) for unit in units)
    note = Note(
        desired,
        tuple(unit.instance.index for unit in units),
        tuple(unit.spot for unit in units),
        devices if first.offers else (),
    )
    metadata["annotations"][names.NOTE] = write_note(note)
    spec = pod_spec(first, settings, _rank_variables(name, count))
    spec |= {
        "restartPolicy": "Never",
        "subdomain": name,
        "schedulingGates": [{"name": names.GATE}],
        "volumes": [*spec["volumes"], {"name": BARRIER, "configMap": {"name": name}}],
    }
    spec["containers"] = [_behind_barrier(container) for container in spec["containers"]]
    if first.offers:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": name}]
    return {
        "metadata": {
            "name": name,
            "namespace": desired.namespace,
            "labels": dict(metadata["labels"]),
            "annotations": dict(metadata["annotations"]),
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    }
                ]
            },
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def _rank_variables(name: str, count: int) -> Mapping[str, Any]:
    return {
        "DURE_RANK": {"fieldRef": {"fieldPath": f"metadata.annotations['{names.RANK_LABEL}']"}},
        "DURE_WORLD_SIZE": str(count),
        "DURE_MASTER": f"{name}-0.{name}",
        "DURE_HOSTS_FILE": f"{BARRIER_FOLDER}/{HOSTS}",
    }


def _behind_barrier(container: Mapping[str, Any]) -> Object:
    if container["name"] != MAIN:
        return dict(container)
    mount = {"name": BARRIER, "mountPath": BARRIER_FOLDER, "readOnly": True}
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}


def service_of(job: Object) -> Object:
    """Names for the ranks before any of them is ready: `<job>-<rank>.<job>`."""
    name = job["metadata"]["name"]
    return {
        "metadata": _owned(job),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.JOB_NAME_LABEL: name},
        },
    }


def barrier_of(job: Object, note: Note) -> Object:
    """What lets all ranks start."""
    name = job["metadata"]["name"]
    lines = [f"{name}-{rank}.{name} {spot.node}" for rank, spot in enumerate(note.spots)]
    return {"metadata": _owned(job), "data": {HOSTS: "\n".join(lines) + "\n"}}


def claim_template_of(job: Object, spec: Object) -> Object:
    """What the claims of all ranks are made from."""
    labels = {key: job["metadata"]["labels"][key] for key in _MARKS}
    return {"metadata": _owned(job), "spec": {"metadata": {"labels": labels}, "spec": spec}}


def placed_patch(pod: Object, node: str) -> Object:
    """Gives a gated Pod its node and opens our gate, if it is still what was seen."""
    others = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != names.GATE]
    return {
        "metadata": {"resourceVersion": version_of(pod)},
        "spec": {"affinity": node_affinity(node), "schedulingGates": others or None},
    }


def rank_of(pod: Object) -> int | None:
    """The rank of a gang's Pod; None: it is not one."""
    stated = (pod["metadata"].get("labels") or {}).get(names.RANK_LABEL, "")
    return int(stated) if stated.isdigit() else None


def is_gated(pod: Object) -> bool:
    """Whether a Pod waits for us before it waits for a scheduler."""
    gates = pod["spec"].get("schedulingGates") or ()
    return any(gate["name"] == names.GATE for gate in gates)


def finished(job: Object) -> str:
    """`Complete` or `Failed` of a Job that is over, else empty."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


_MARKS = (names.MANAGED_BY, names.JOB, names.ATTEMPT)


def _owned(job: Object) -> Object:
    """Metadata of something that goes when the Job goes."""
    metadata = job["metadata"]
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": metadata["name"],
        "uid": uid_of(job),
    }
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "labels": {key: metadata["labels"][key] for key in _MARKS},
        "ownerReferences": [owner],
    }
