"""What Pods that are not Dure's hold of each node, and what DaemonSets hold of all of them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dure.kube.devices import NodeDevices
from dure.kube.inventory import Overhead
from dure.kube.quantities import pod_requests
from dure.kube.resources import Object, ObjectKey
from dure.member.kube import names
from dure.member.ports import Taken

_OVER = ("Succeeded", "Failed")
_KEPT_METADATA = ("name", "namespace", "uid", "resourceVersion")
_KEPT_SPEC = ("nodeName", "schedulingGates", "resourceClaims")
_DROPPED_STATUS = ("podIPs", "hostIP", "hostIPs", "qosClass")


def slim(pod: Object) -> Object:
    """A Pod without what nobody reads: of a stranger little more than what it asks for is kept."""
    pod["metadata"].pop("managedFields", None)
    metadata = pod["metadata"]
    if names.is_ours(metadata.get("labels") or {}):
        return _slim_own(pod)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    kept = {key: metadata[key] for key in _KEPT_METADATA if key in metadata}
    owners = [{"kind": owner.get("kind")} for owner in metadata.get("ownerReferences") or ()]
    slimmed = {
        "containers": _only_resources(spec.get("containers") or ()),
        "initContainers": _only_resources(spec.get("initContainers") or ()),
    }
    slimmed |= {key: spec[key] for key in ("nodeName", "overhead", "resources") if key in spec}
    return {
        "metadata": {**kept, "ownerReferences": owners},
        "spec": slimmed,
        "status": {"phase": status.get("phase")},
    }


def _slim_own(pod: Object) -> Object:
    """Of Dure's own Pods the note says what they run; what becomes of them their status does."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return {
        "metadata": pod["metadata"],
        "spec": {key: spec[key] for key in _KEPT_SPEC if key in spec},
        "status": {key: value for key, value in status.items() if key not in _DROPPED_STATUS},
    }


def _only_resources(containers: Iterable[Object]) -> list[Object]:
    return [
        {key: container[key] for key in ("resources", "restartPolicy") if key in container}
        for container in containers
    ]


@dataclass(frozen=True, slots=True)
class _Share:
    node: str
    daemon: bool
    requests: dict[str, Decimal]


@dataclass
class Foreigners:
    """All such Pods that are bound and not over, by node."""

    _by_pod: dict[ObjectKey, _Share] = field(default_factory=dict)
    _by_node: dict[str, dict[ObjectKey, _Share]] = field(default_factory=dict)

    def put(self, key: ObjectKey, pod: Object | None) -> set[str]:
        """A Pod as it is now, None for one that is gone; the nodes it makes a difference to."""
        touched = set()
        before = self._by_pod.pop(key, None)
        if before is not None:
            del self._by_node[before.node][key]
            touched.add(before.node)
        if pod is not None and pod["spec"].get("nodeName") and not _is_over(pod):
            owners = pod["metadata"].get("ownerReferences") or ()
            daemon = any(owner.get("kind") == "DaemonSet" for owner in owners)
            share = _Share(pod["spec"]["nodeName"], daemon, pod_requests(pod))
            self._by_pod[key] = share
            self._by_node.setdefault(share.node, {})[key] = share
            touched.add(share.node)
        return touched

    def taken(self, node: str, devices: NodeDevices, claimed: int = 0) -> Taken:
        """What they hold of a node; devices that claims gave them come from elsewhere.

        Which devices of a node they hold is not known: a part of one may be on any, so that as
        many are taken as could be touched.
        """
        total = _sum(one for one in self._shares(node) if not one.daemon)
        touched = sum(
            int(amount) for name, amount in total.items() if name in dict(devices.resources)
        )
        return Taken(
            node=node,
            devices=min(devices.count, touched + claimed),
            cpu_milli=_milli(total),
            host_memory_bytes=int(total.get("memory", 0)),
        )

    def overhead(self, node: str) -> Overhead:
        """What DaemonSets hold of a node."""
        total = _sum(one for one in self._shares(node) if one.daemon)
        return Overhead(_milli(total), int(total.get("memory", 0)))

    def holders(self, node: str, devices: NodeDevices) -> list[ObjectKey]:
        """Pods that hold devices of a node."""
        resources = dict(devices.resources).keys()
        shares = self._by_node.get(node, {})
        return [key for key, share in shares.items() if resources & share.requests.keys()]

    def _shares(self, node: str) -> Iterable[_Share]:
        return self._by_node.get(node, {}).values()


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _OVER


def _sum(shares: Iterable[_Share]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for share in shares:
        for name, amount in share.requests.items():
            total[name] = total.get(name, Decimal(0)) + amount
    return total


def _milli(total: dict[str, Decimal]) -> int:
    return math.ceil(total.get("cpu", Decimal(0)) * 1000)
