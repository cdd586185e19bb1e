"""Pools as objects of a virtual cluster's API: nodes with what they have now, and their leases."""

import datetime
import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass
from typing import Any

from dure import __version__
from dure.api.virtual import VirtualNode
from dure.kube import labels
from dure.kube.resources import Object

CLUSTER = f"{labels.PREFIX}virtual-cluster"
"""Label of nodes and jobs: whose they are."""
POOL = f"{labels.PREFIX}pool"
SHARES = f"{labels.PREFIX}shares"
"""Annotation of a node: units by cluster."""
LEASES_NAMESPACE = "kube-node-lease"
LEASE_S = 40
"""After so long without a word a node counts as not ready."""
MOST_PODS = 1000
_STORAGE = "1Ti"
"""Of scratch space; whether it is there decides the cluster that carries a Pod out."""
_DNS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class Door:
    """Where the API server asks for logs of Pods; port 0: nowhere."""

    host: str
    port: int


def node_name(pool: str) -> str:
    """What the node of a pool is called."""
    if _DNS.fullmatch(pool):
        return pool
    plain = re.sub(r"[^a-z0-9.-]", "-", pool.lower()).strip(".-")[:50]
    return f"{plain}-{hashlib.sha256(pool.encode()).hexdigest()[:8]}"


def node_object(virtual: str, node: VirtualNode, *, tainted: bool) -> Object:
    """A node as it is created; what it has is its status."""
    taint = {"key": node.resource, "effect": "NoSchedule"}
    return {
        "metadata": {"name": node_name(node.pool), **node_metadata(virtual, node)},
        "spec": {"taints": [taint] if tainted else []},
    }


def node_metadata(virtual: str, node: VirtualNode) -> Object:
    """Labels and annotations of a node."""
    shares = {each.cluster: each.used + each.room for each in node.shares}
    return {
        "labels": {
            CLUSTER: virtual,
            POOL: node.pool,
            labels.PROFILE: node.profile,
            "kubernetes.io/hostname": node_name(node.pool),
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node-role.kubernetes.io/virtual": "",
        },
        "annotations": {SHARES: json.dumps(shares, sort_keys=True)},
    }


def node_status(node: VirtualNode, door: Door, reached: str, now_s: float) -> Object:
    """What a node has, and how it is; `reached`: why the centre is not, empty where it is."""
    return {
        "capacity": _amounts(node, node.capacity),
        "allocatable": _amounts(node, node.allocatable),
        "conditions": [
            _condition("Ready", "True", "VirtualNode", _how(node), now_s),
            *(
                _condition(name, "False", "VirtualNode", "", now_s)
                for name in ("MemoryPressure", "DiskPressure", "PIDPressure")
            ),
            _condition(
                "CentreReachable",
                "False" if reached else "True",
                "NoAnswer" if reached else "Answers",
                reached,
                now_s,
            ),
        ],
        # Not its name: API servers ask that first by default, and no name server knows it.
        "addresses": [{"type": _kind_of(door.host), "address": door.host}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": door.port}},
        "nodeInfo": _info(node),
    }


def _kind_of(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "Hostname"
    return "InternalIP"


def _how(node: VirtualNode) -> str:
    parts = [f"{each.cluster}: {each.used + each.room}" for each in node.shares]
    said = f"{node.allocatable} units ({', '.join(parts) or 'in no cluster'})"
    if node.missing:
        said += f"; {node.missing} guaranteed units have no place: the fleet has no room for them"
    return said


def _amounts(node: VirtualNode, units: int) -> dict[str, str]:
    return {
        "cpu": f"{node.cpu_milli}m",
        "memory": str(node.memory_bytes),
        "ephemeral-storage": _STORAGE,
        "pods": str(MOST_PODS),
        node.resource: str(units),
    }


def _info(node: VirtualNode) -> dict[str, str]:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": f"dure://{__version__}",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": f"v{__version__}-dure",
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": f"Dure pool {node.pool}",
        "systemUUID": "",
    }


def _condition(kind: str, status: str, reason: str, message: str, now_s: float) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:1024],
        "lastHeartbeatTime": moment(now_s),
    }


def lease_object(name: str, holder: str, now_s: float) -> Object:
    """The lease by which a node says that somebody looks after it."""
    spec: dict[str, Any] = {
        "holderIdentity": holder,
        "leaseDurationSeconds": LEASE_S,
        "renewTime": _fine_moment(now_s),
    }
    return {"metadata": {"name": name, "namespace": LEASES_NAMESPACE}, "spec": spec}


def moment(now_s: float) -> str:
    """As Kubernetes writes it."""
    told = datetime.datetime.fromtimestamp(int(now_s), tz=datetime.UTC)
    return told.strftime("%Y-%m-%dT%H:%M:%SZ")


def _fine_moment(now_s: float) -> str:
    told = datetime.datetime.fromtimestamp(now_s, tz=datetime.UTC)
    return told.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
