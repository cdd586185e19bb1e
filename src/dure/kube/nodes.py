"""Whether a node may be used, and if not, why: not ready, cordoned, tainted, being reclaimed."""

from collections.abc import Mapping, Sequence
from typing import Any

from dure.kube.labels import RECLAIM_AT
from dure.kube.resources import Object

CORDONED = "cordoned"
"""What the reason begins with where Pods that run there run on."""

_RECLAIM_TAINTS = {
    "aws-node-termination-handler/spot-itn": "its spot capacity is taken back",
    "aws-node-termination-handler/rebalance-recommendation": "its spot capacity is at risk",
    "aws-node-termination-handler/scheduled-maintenance": "maintenance is scheduled",
    "aws-node-termination-handler/asg-lifecycle-termination": "its scaling group ends it",
    "karpenter.sh/disrupted": "Karpenter is taking it away",
    "karpenter.sh/disruption": "Karpenter is taking it away",
    "cloud.google.com/impending-node-termination": "its spot capacity is taken back",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is taking it away",
    "node.cloudprovider.kubernetes.io/shutdown": "its machine is shut down",
    "node.kubernetes.io/out-of-service": "it is out of service",
}
"""What termination handlers put on nodes, whatever the effect, and what it means."""
_RECLAIM_CONDITIONS = {
    "VMEventScheduled": "an event of its machine is scheduled",
    "PreemptScheduled": "its spot capacity is taken back",
    "TerminationScheduled": "its termination is scheduled",
}
"""Conditions that clouds' node problem detectors set to True."""
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_CORDON_TAINT = "node.kubernetes.io/unschedulable"


def why_not(node: Object, tolerations: Sequence[Mapping[str, Any]]) -> str:
    """Why nothing new may go to a node; empty: it may."""
    spec = node.get("spec") or {}
    taints = spec.get("taints") or ()
    conditions = {one["type"]: one for one in (node.get("status") or {}).get("conditions") or ()}
    leaving = _leaving(node, taints, conditions)
    if leaving:
        return leaving
    ready = conditions.get("Ready", {})
    if ready.get("status") != "True":
        return f"not ready: {ready.get('reason') or 'it said nothing yet'}"
    if spec.get("unschedulable"):
        return CORDONED
    return _tainted(taints, tolerations)


def _leaving(
    node: Object, taints: Sequence[Mapping[str, Any]], conditions: Mapping[str, Mapping[str, Any]]
) -> str:
    """What announces a node's end; empty: nothing does."""
    metadata = node["metadata"]
    reclaim_at = (metadata.get("annotations") or {}).get(RECLAIM_AT)
    if metadata.get("deletionTimestamp"):
        return "reclaimed: it is being deleted"
    if reclaim_at:
        return f"reclaimed: it will be taken away at {reclaim_at}"
    for taint in taints:
        if taint["key"] in _RECLAIM_TAINTS:
            return f"reclaimed: {_RECLAIM_TAINTS[taint['key']]}"
    for kind, meaning in _RECLAIM_CONDITIONS.items():
        if conditions.get(kind, {}).get("status") == "True":
            return f"reclaimed: {meaning}"
    return ""


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration stands a taint, by Kubernetes' rules."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key = toleration.get("key") or ""
    exists = toleration.get("operator") == "Exists"
    if key and key != taint["key"]:
        return False
    return exists or bool(key and toleration.get("value", "") == taint.get("value", ""))


def _tainted(taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> str:
    for taint in taints:
        key = taint["key"]
        stood = any(tolerates(toleration, taint) for toleration in tolerations)
        if taint["effect"] in _KEEPS_AWAY and not stood and key != _CORDON_TAINT:
            said = f"{key}={taint['value']}" if taint.get("value") else key
            stays = taint["effect"] == "NoSchedule"
            return f"{CORDONED}: tainted {said}" if stays else f"tainted {said}: Pods must leave"
    return ""
