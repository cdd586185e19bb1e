"""An instance as a Pod: bound to its node by name, with its devices, and nothing of ours to break.

Users may add fields of a Pod's spec; labels, affinity, gates, claims and resources stay ours.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dure.client.report import CHECKPOINT_FILE, CONTROL_VARIABLE
from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.migrations import MoveKind, kind_of
from dure.domain.fleet.programs import Program, Thing, ThingKind
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.labels import PREFIX
from dure.kube.resources import Object
from dure.member.kube import names
from dure.member.kube.claims import Offer
from dure.member.kube.notes import Note, write_note
from dure.member.kube.settings import KubeSettings
from dure.member.kube.spots import NodeSpot

MAIN = "main"
"""Name of the container that runs the program."""
CLAIM = "devices"
"""Name of the claim within a Pod."""
MOST_GRACE_S = 24 * 3600
_OWN_FIELDS = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "schedulerName",
    "schedulingGates",
    "topologySpreadConstraints",
)
"""Fields of a Pod's spec that decide where it runs and with what."""
_PROBE_S = 5
_FOREVER = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
)
"""What becomes of Pods on a silent node is decided at the centre, not by a five-minute timer."""


CONTROL, CONTROL_FOLDER = "dure-control", "/var/run/dure/control"
"""Volume in which a program that can be moved finds what it is asked for."""
_CONTROL: Object = {
    "name": CONTROL,
    "downwardAPI": {
        "items": [
            {
                "path": CHECKPOINT_FILE,
                "fieldRef": {"fieldPath": f"metadata.annotations['{names.CHECKPOINT_REQUESTED}']"},
            }
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Unit:
    """An instance with everything that makes its Pod."""

    instance: InstanceId
    desired: Desired
    spot: NodeSpot
    resource: str = ""
    """The extended resource its devices are; empty: a claim gives them."""
    taint_keys: tuple[str, ...] = ()
    """Taints that keep others away from such devices."""
    offers: tuple[Offer, ...] = ()
    """The devices that a claim must give."""
    rank: int = 0
    world_size: int = 1

    @property
    def name(self) -> str:
        """Of its objects."""
        return names.object_name(self.instance)

    @property
    def claim_name(self) -> str:
        """Of the claim of this place; one for another place is another claim."""
        place = ",".join((self.spot.node, *(offer.name for offer in self.offers)))
        return f"{self.name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def pod_of(unit: Unit, settings: KubeSettings) -> Object:
    """The Pod of an instance that stands alone."""
    instance, desired = unit.instance, unit.desired
    serving = desired.order.workload.kind is WorkloadKind.SERVING
    ranks = {"DURE_RANK": str(unit.rank), "DURE_WORLD_SIZE": str(unit.world_size)}
    spec = pod_spec(unit, settings, ranks)
    spec["affinity"] = node_affinity(unit.spot.node)
    spec["restartPolicy"] = "Always" if serving else "Never"
    if unit.offers:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": unit.claim_name}]
    note = Note(desired, (instance.index,), (unit.spot,), _device_names(unit))
    metadata = pod_metadata(desired, settings)
    metadata["labels"][names.INDEX] = str(instance.index)
    metadata["annotations"][names.NOTE] = write_note(note)
    metadata |= {"name": unit.name, "namespace": desired.namespace}
    return {"metadata": metadata, "spec": spec}


def trial_pod(desired: Desired, settings: KubeSettings) -> Object:
    """A Pod as it might be made, without a place: what a cluster's rules are asked about."""
    key = desired.key
    unit = Unit(InstanceId(key.job, key.attempt, 0), desired, NodeSpot("", ()))
    spec = pod_spec(unit, settings, {})
    metadata = pod_metadata(desired, settings)
    metadata |= {"name": f"{names.attempt_name(key)}-trial", "namespace": desired.namespace}
    return {"metadata": metadata, "spec": {**spec, "restartPolicy": "Never"}}


def pod_metadata(desired: Desired, settings: KubeSettings) -> Object:
    """Labels and annotations of an attempt's Pods; what a user writes in our name is left out."""
    program, key = desired.program, desired.key
    own = names.attempt_labels(key.job, key.attempt)
    own[names.CLUSTER] = names.label_value(settings.cluster)
    return {
        "labels": {**_not_ours(program.labels), **own},
        "annotations": _not_ours(program.annotations),
    }


def pod_spec(unit: Unit, settings: KubeSettings, env: Mapping[str, Any]) -> Object:
    """What all Pods of a program have in common, wherever they run."""
    program = unit.desired.program
    volumes, mounts = _mounted(program)
    if kind_of(unit.desired.order.workload) is MoveKind.CHECKPOINT:
        volumes.append(_CONTROL)
        mounts.append({"name": CONTROL, "mountPath": CONTROL_FOLDER, "readOnly": True})
        env = {**env, CONTROL_VARIABLE: CONTROL_FOLDER}
    container: Object = {
        "name": MAIN,
        "image": program.image,
        "env": _variables(unit, settings, env),
        "resources": _resources(unit),
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    stated = {
        "command": list(program.command),
        "args": list(program.args),
        "envFrom": [_env_from(thing) for thing in program.env_from],
        "workingDir": program.working_dir,
        "volumeMounts": mounts,
    }
    container |= {name: value for name, value in stated.items() if value}
    if program.port is not None:
        container["ports"] = [{"containerPort": program.port}]
        probe = {"tcpSocket": {"port": program.port}, "periodSeconds": _PROBE_S}
        container["readinessProbe"] = probe
    spec: Object = {
        "containers": [container],
        "volumes": volumes,
        "terminationGracePeriodSeconds": whole_seconds(program.grace_s),
        "automountServiceAccountToken": bool(program.service_account),
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [*_FOREVER, *tolerations(unit.taint_keys, settings)],
    }
    if program.service_account:
        spec["serviceAccountName"] = program.service_account
    return {**merged(spec, _allowed(program.pod))}


def node_affinity(node: str) -> Object:
    """That node and no other."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def whole_seconds(grace_s: float) -> int:
    """A grace period as Kubernetes counts it; never 0, which would not wait for the node's word."""
    return max(1, min(MOST_GRACE_S, round(grace_s)))


def tolerations(taint_keys: Sequence[str], settings: KubeSettings) -> list[Object]:
    """Taints that Pods stand: those named after accelerators, and those of the settings."""
    of_devices: list[Object] = [{"key": key, "operator": "Exists"} for key in taint_keys]
    return [*of_devices, *(dict(one) for one in settings.tolerations)]


def merged(base: Any, more: Any) -> Any:
    """Fields of `more` over those of `base`; lists of named things by name, others in a row."""
    if isinstance(base, Mapping) and isinstance(more, Mapping):
        both = {key: merged(base[key], more[key]) if key in base else more[key] for key in more}
        return {**base, **both}
    if isinstance(base, list) and isinstance(more, list):
        named = {one["name"]: one for one in base if isinstance(one, Mapping) and "name" in one}
        new = []
        for one in more:
            name = one.get("name") if isinstance(one, Mapping) else None
            if name in named:
                named[name] = merged(named[name], one)
            else:
                new.append(one)
        kept = [
            named[one["name"]] if isinstance(one, Mapping) and "name" in one else one
            for one in base
        ]
        return [*kept, *new]
    return more


def _allowed(pod: Mapping[str, Any]) -> Object:
    """What a user may add; containers of theirs get no resources that nobody planned."""
    kept = {key: value for key, value in pod.items() if key not in _OWN_FIELDS}
    for key in ("containers", "initContainers"):
        if isinstance(kept.get(key), list):
            kept[key] = [_without_resources(container) for container in kept[key]]
    return kept


def _without_resources(container: Any) -> Any:
    if not isinstance(container, Mapping):
        return container
    kept = {key: value for key, value in container.items() if key != "resources"}
    if kept.get("name") == MAIN:
        kept = {key: value for key, value in kept.items() if key not in ("image", "envFrom")}
        own = [one for one in kept.get("env") or () if not str(one.get("name")).startswith("DURE_")]
        kept |= {"env": own} if "env" in kept else {}
    return kept


def _not_ours(stated: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in stated.items() if not key.startswith(PREFIX)}


def _variables(unit: Unit, settings: KubeSettings, more: Mapping[str, Any]) -> list[Object]:
    own: dict[str, Any] = {
        "DURE_JOB": unit.desired.key.job,
        "DURE_ATTEMPT": str(unit.desired.key.attempt),
        "DURE_CLUSTER": settings.cluster,
        "DURE_SHARE": f"{unit.spot.compute_milli / 1000:g}",
        **more,
    }
    stated = {**unit.desired.program.env, **own}
    return [
        {"name": name, **({"value": value} if isinstance(value, str) else {"valueFrom": value})}
        for name, value in stated.items()
    ]


def _resources(unit: Unit) -> Object:
    demand = unit.desired.order.workload.demand
    requests: Object = {}
    if demand.cpu_milli:
        requests["cpu"] = f"{demand.cpu_milli}m"
    if demand.host_memory_bytes:
        requests["memory"] = str(demand.host_memory_bytes)
    resources: Object = {"requests": requests}
    if unit.resource:
        resources["limits"] = {unit.resource: str(len(unit.spot.devices))}
    if unit.offers:
        resources["claims"] = [{"name": CLAIM}]
    return resources


def _env_from(thing: Thing) -> Object:
    field = "secretRef" if thing.kind == ThingKind.SECRET.value else "configMapRef"
    return {field: {"name": thing.name}}


def _mounted(program: Program) -> tuple[list[Object], list[Object]]:
    """Volumes and where they appear; one volume for all mounts of a thing."""
    volumes: dict[Thing, Object] = {}
    mounts: list[Object] = []
    for mount in program.mounts:
        thing = mount.thing
        name = volumes.setdefault(thing, {"name": f"dure-{len(volumes)}", **_source(thing)})["name"]
        mounts.append({"name": name, "mountPath": mount.path, "readOnly": mount.read_only})
    return list(volumes.values()), mounts


def _source(thing: Thing) -> Object:
    if thing.kind == ThingKind.SECRET.value:
        return {"secret": {"secretName": thing.name}}
    if thing.kind == ThingKind.CONFIG_MAP.value:
        return {"configMap": {"name": thing.name}}
    return {"persistentVolumeClaim": {"claimName": thing.name}}


def _device_names(unit: Unit) -> tuple[tuple[str, ...], ...]:
    return (tuple(offer.name for offer in unit.offers),) if unit.offers else ()
