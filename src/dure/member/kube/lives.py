"""Where an instance is, read from its Pod: what Kubernetes says, in the words of `Life`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.resources import Object
from dure.member.kube.pods import MAIN
from dure.member.ports import Life

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class PodLife:
    """What a Pod says of its instance."""

    life: Life
    why: str = ""
    exit_code: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None


def pod_life(pod: Object, kind: WorkloadKind | None) -> PodLife:
    """The life of a Pod that exists.

    One that was asked to end is ending until its object is gone: only then has its node said so,
    or somebody who knows that the node is dead.
    """
    status = pod.get("status") or {}
    phase = status.get("phase")
    state = _main(status).get("state") or {}
    ended = state.get("terminated") or {}
    started = (state.get("running") or ended).get("startedAt") or status.get("startTime")
    exit_code = ended.get("exitCode")
    times = (exit_code, nanoseconds(started), nanoseconds(ended.get("finishedAt")))
    if phase == "Succeeded":
        return PodLife(Life.SUCCEEDED, "", *times)
    if pod["metadata"].get("deletionTimestamp"):
        return PodLife(Life.ENDING, _why(status), *times)
    if phase == "Failed":
        return PodLife(*_failed(status, ended), *times)
    if phase in ("Running", "Unknown"):
        return PodLife(*_running(status, kind), *times)
    return PodLife(Life.PENDING, _why(status))


def _failed(status: Mapping[str, Any], ended: Mapping[str, Any]) -> tuple[Life, str]:
    """A program that failed, or one that its node threw out."""
    displaced = _condition(status, "DisruptionTarget")
    if displaced.get("status") == "True":
        return Life.GONE, str(displaced.get("message") or "it was evicted")
    return Life.FAILED, _failure(status, ended)


def _running(status: Mapping[str, Any], kind: WorkloadKind | None) -> tuple[Life, str]:
    if status.get("phase") == "Unknown":
        return Life.RUNNING, "its node does not answer"
    ready = _condition(status, "Ready").get("status") == "True"
    if ready or kind is not WorkloadKind.SERVING:
        return Life.READY, ""
    return Life.RUNNING, _why(status)


def is_bound(pod: Object) -> bool:
    """Whether a Pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def stuck_why(pod: Object) -> str:
    """Why a Pod that is bound does not start; empty: it does, or its node is still at it."""
    status = pod.get("status") or {}
    if status.get("phase") != "Pending" or not is_bound(pod):
        return ""
    return _why(status)


def unbound_why(pod: Object) -> str:
    """What the scheduler says of a Pod without a node."""
    status = pod.get("status") or {}
    return str(_condition(status, "PodScheduled").get("message") or "the scheduler did not bind it")


def nanoseconds(text: object) -> int | None:
    """A time of the API since 1970."""
    if not isinstance(text, str) or not text:
        return None
    return round(datetime.fromisoformat(text).timestamp() * _SECOND_NS)


def _main(status: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = status.get("containerStatuses") or ()
    return next((one for one in containers if one.get("name") == MAIN), {})


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = status.get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


def _why(status: Mapping[str, Any]) -> str:
    """What keeps it from running, from the nearest who knows."""
    for container in [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return ": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key))
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    return str(status.get("message") or "")


def _failure(status: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    said = ended.get("message") or status.get("message") or ""
    reason = ended.get("reason") or status.get("reason") or ""
    code = ended.get("exitCode")
    what = f"exit code {code}" if code is not None else str(reason or "it failed")
    if reason and reason not in ("Error", what):
        what = f"{what} ({reason})"
    return f"{what}: {said}" if said else what
