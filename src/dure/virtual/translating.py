"""A Pod of a virtual cluster as a job of the fleet; or why it cannot be one."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from dure.api.jobs import POD_FIELDS, EnvFrom, JobSpec, Mount, Resources, Serving, Work
from dure.api.virtual import VirtualNode
from dure.domain.errors import DureError
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube import labels
from dure.kube.quantities import pod_requests
from dure.kube.resources import Object, uid_of
from dure.virtual.nodes import CLUSTER

UID = f"{labels.PREFIX}pod-uid"
NAMESPACE = f"{labels.PREFIX}pod-namespace"
PLANE = f"{labels.PREFIX}virtual-uid"
"""Labels of a job: the Pod it is for, and the API server that has it."""
WORK = f"{labels.PREFIX}work"
"""Annotation of a Pod: how long it takes, as `2h`."""
HOST_IMAGE = f"{labels.PREFIX}host"
"""Image of a Pod that is a command of the host: clusters of processes run those, and no images."""
_MOST_PRIORITY = 1000
_MOST_RETRIES = 1000
_NAME_CHARACTERS = 63
_ACCOUNT_VOLUME = "kube-api-access-"
"""Prefix of the volume with which every Pod gets a token of the virtual cluster's own API server,
which is of no use elsewhere."""
_PASSED = POD_FIELDS & {"runtimeClassName", "imagePullSecrets"}
"""Fields of a Pod that mean the same in the cluster that carries it out; who may be beside whom is
decided there."""


class UnsupportedPodError(DureError):
    """A Pod that the fleet cannot carry out."""


def asks_for(pod: Object, node: VirtualNode) -> int:
    """Units of a pool that a Pod asks for."""
    return int(pod_requests(pod).get(node.resource, Decimal(0)))


def job_of(pod: Object, node: VirtualNode, virtual: str, plane: str) -> JobSpec:
    """The job of a Pod on a node; the same whenever it is made. Raises `UnsupportedPodError`."""
    container = _container(pod)
    units = asks_for(pod, node)
    if units < 1:
        raise UnsupportedPodError(
            f"it asks for no {node.resource}, and this node has nothing else to give",
            f"set resources.limits of {node.resource}, or let it run elsewhere",
        )
    if node.slice and units > 1:
        raise UnsupportedPodError(
            f"it asks for {units} slices {node.slice}", "ask for one slice a Pod"
        )
    always = pod["spec"].get("restartPolicy", "Always") == "Always"
    on_host = container.get("image") == HOST_IMAGE
    metadata = pod["metadata"]
    notes = metadata.get("annotations") or {}
    try:
        return JobSpec(
            name=str(metadata["name"])[:_NAME_CHARACTERS],
            kind=WorkloadKind.SERVING if always else WorkloadKind.BATCH,
            priority=_priority(pod),
            image="" if on_host else str(container.get("image", "")),
            command=[str(word) for word in container.get("command") or ()],
            args=[str(word) for word in container.get("args") or ()],
            env=dict(_variables(pod, container, virtual)),
            env_from=list(_env_from(container)),
            mounts=list(_mounts(pod["spec"], container)),
            working_dir=str(container.get("workingDir", "")),
            grace=f"{int(pod['spec'].get('terminationGracePeriodSeconds', 30))}s",
            port=_port(container) if always else None,
            labels={
                CLUSTER: virtual,
                UID: uid_of(pod),
                NAMESPACE: str(metadata["namespace"]),
                PLANE: plane,
            },
            annotations={
                name: value for name, value in notes.items() if not _is_ours_to_keep(name)
            },
            pod={} if on_host else _passed(pod["spec"]),
            resources=_resources(pod, node, units),
            work=None if always else _work(notes),
            service=_service() if always else None,
            pool=node.pool,
            retries=0 if pod["spec"].get("restartPolicy") == "Never" else _MOST_RETRIES,
        )
    except ValueError as error:  # pydantic's, too
        raise UnsupportedPodError(
            f"it cannot be a job of Dure's: {_first(error)}", "change the Pod"
        ) from error


def _container(pod: Object) -> Mapping[str, Any]:
    spec = pod["spec"]
    if spec.get("initContainers") or len(spec.get("containers") or ()) != 1:
        raise UnsupportedPodError(
            "it has more than one container", "put all into one, or split it into several Pods"
        )
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            raise UnsupportedPodError(f"it wants {name}, a part of its host", "leave it out")
    found: Mapping[str, Any] = spec["containers"][0]
    if (found.get("securityContext") or {}).get("privileged"):
        raise UnsupportedPodError("it wants to be privileged", "leave it out")
    return found


def _resources(pod: Object, node: VirtualNode, units: int) -> Resources:
    asked = pod_requests(pod)
    return Resources(
        memory=f"{node.unit_memory_bytes}B" if node.slice else "0B",
        cpu=float(asked.get("cpu", Decimal(0))),
        host_memory=f"{int(asked.get('memory', Decimal(0)))}B",
        devices=1 if node.slice else units,
        whole=not node.slice,
        profiles=[node.profile],
    )


def _passed(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name in _PASSED and value}


def _service() -> Serving:
    """One instance that is always there: what a Pod is that never ends by itself."""
    return Serving(
        requests_per_second=0.0,
        replica_requests_per_second=1.0,
        latency="1h",
        service_time="1ms",
        warm=1,
        most=1,
    )


def _port(container: Mapping[str, Any]) -> int | None:
    ports = [each.get("containerPort") for each in container.get("ports") or ()]
    return int(ports[0]) if ports else None


def _priority(pod: Object) -> int:
    stated = int(pod["spec"].get("priority") or 0)
    return max(-_MOST_PRIORITY, min(_MOST_PRIORITY, stated))


def _work(notes: Mapping[str, str]) -> Work | None:
    stated = notes.get(WORK, "")
    try:
        return Work(time=stated) if stated else None
    except ValueError as error:
        raise UnsupportedPodError(
            f"its annotation {WORK} is '{stated}', which is no time", "write it as 90m or 2h"
        ) from error


def _is_ours_to_keep(name: str) -> bool:
    """Annotations that say something of the Pod in its own cluster alone."""
    prefix = name.partition("/")[0]
    return prefix == "dure.io" or prefix.endswith("kubernetes.io") or len(name) > 253


# --- what a program finds around it ------------------------------------------------------------


def _variables(
    pod: Object, container: Mapping[str, Any], virtual: str
) -> Iterator[tuple[str, str]]:
    for each in container.get("env") or ():
        if "valueFrom" not in each:
            yield str(each["name"]), str(each.get("value", ""))
            continue
        source = each["valueFrom"]
        if "fieldRef" not in source:
            kind = next(iter(source), "something")
            raise UnsupportedPodError(
                f"variable {each['name']} is from {kind}, which stays in the virtual cluster",
                "write its value, or use envFrom with a Secret or ConfigMap of the clusters",
            )
        yield str(each["name"]), _field(pod, str(source["fieldRef"].get("fieldPath", "")), virtual)


def _field(pod: Object, path: str, virtual: str) -> str:
    metadata = pod["metadata"]
    known = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", virtual),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", ""),
    }
    if path in known:
        return str(known[path])
    for part in ("labels", "annotations"):
        start = f"metadata.{part}['"
        if path.startswith(start) and path.endswith("']"):
            return str((metadata.get(part) or {}).get(path[len(start) : -2], ""))
    raise UnsupportedPodError(
        f"it wants to know its {path}, which is decided by the cluster that carries it out",
        "leave the variable out",
    )


def _env_from(container: Mapping[str, Any]) -> Iterator[EnvFrom]:
    for each in container.get("envFrom") or ():
        if each.get("prefix"):
            raise UnsupportedPodError("envFrom with a prefix cannot be carried out", "leave it out")
        if "secretRef" in each:
            yield EnvFrom(secret=each["secretRef"]["name"])
        elif "configMapRef" in each:
            yield EnvFrom(config_map=each["configMapRef"]["name"])


def _mounts(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[Mount]:
    volumes = {each["name"]: each for each in spec.get("volumes") or ()}
    for each in container.get("volumeMounts") or ():
        name = str(each["name"])
        if name.startswith(_ACCOUNT_VOLUME):
            continue
        volume = volumes.get(name, {})
        path, fixed = str(each["mountPath"]), bool(each.get("readOnly", False))
        if each.get("subPath"):
            raise UnsupportedPodError(f"volume {name} is mounted in part", "mount it whole")
        if "secret" in volume:
            yield Mount(path=path, read_only=fixed, secret=volume["secret"]["secretName"])
        elif "configMap" in volume:
            yield Mount(path=path, read_only=fixed, config_map=volume["configMap"]["name"])
        elif "persistentVolumeClaim" in volume:
            yield Mount(
                path=path, read_only=fixed, volume=volume["persistentVolumeClaim"]["claimName"]
            )
        else:
            kind = _kind_of(volume)
            raise UnsupportedPodError(
                f"volume {name} is of kind {kind}, which the fleet does not carry",
                "use a claim, a Secret or a ConfigMap that the clusters have",
            )


def _kind_of(volume: Mapping[str, Any]) -> str:
    return next((name for name in volume if name != "name"), "none")


def _first(error: ValueError) -> str:
    told: Any = getattr(error, "errors", None)
    if told is None:
        return str(error)
    found: Sequence[Any] = told()
    where = ".".join(str(part) for part in found[0]["loc"])
    return f"{where}: {found[0]['msg']}" if where else str(found[0]["msg"])
