"""How a job stands, as the status of its Pod."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dure.api.job_views import JobDocument
from dure.domain.fleet.lifecycle import JobPhase
from dure.kube import labels
from dure.kube.resources import Object
from dure.virtual.nodes import moment

JOB = f"{labels.PREFIX}job"
WHERE = f"{labels.PREFIX}cluster"
ATTEMPT = f"{labels.PREFIX}attempt"
"""Annotations of a Pod: what the centre calls its job, where it is, in which attempt."""
_FAILED = 1
"""Of a program whose cluster told no exit code."""
Status = dict[str, Any]


def notes_of(job: JobDocument) -> dict[str, str | None]:
    """Annotations of a Pod whose job it is; None: it has none."""
    return {
        JOB: job.id,
        WHERE: job.cluster,
        ATTEMPT: str(job.attempt) if job.attempt else None,
    }


def status_of(pod: Object, job: JobDocument, addresses: Sequence[str] = ()) -> Status:
    """The status of a Pod whose job stands so."""
    before = (pod.get("status") or {}).get("phase", "Pending")
    state, ready, phase = _state(pod, job)
    if phase == "Pending" and before == "Running":
        phase = "Running"  # A Pod does not go back; its container waits to be started anew.
    container = pod["spec"]["containers"][0]
    status: Status = {
        "phase": phase,
        "reason": _reason(job),
        "message": job.reason or None,
        "startTime": (pod.get("status") or {}).get("startTime") or _whole(job.submitted_at),
        "conditions": _conditions(pod, phase, ready=ready),
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": ready,
                "started": ready,
                "restartCount": max(0, job.attempt - 1),
                "state": state,
                "lastState": {},
            }
        ],
    }
    if addresses:
        status |= {"podIP": addresses[0], "podIPs": [{"ip": each} for each in addresses]}
    return {name: value for name, value in status.items() if value is not None}


def refused_status(pod: Object, reason: str, message: str) -> Status:
    """The status of a Pod that is not carried out at all."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": message,
        "conditions": _conditions(pod, "Failed", ready=False),
    }


def waiting_status(pod: Object, reason: str, message: str) -> Status:
    """The status of a Pod that waits for somebody else."""
    return {
        "phase": "Pending",
        "reason": reason,
        "message": message,
        "conditions": _conditions(pod, "Pending", ready=False),
    }


def _state(pod: Object, job: JobDocument) -> tuple[Status, bool, str]:
    """Of its container, whether that is ready, and the Pod's phase."""
    if job.phase is JobPhase.SUCCEEDED:
        return _ended(job, 0, "Completed"), False, "Succeeded"
    if job.phase.ended:
        reason = "Cancelled" if job.phase is JobPhase.CANCELLED else "Error"
        return _ended(job, _exit_code(job), reason), False, "Failed"
    running = _running_at(job)
    match job.phase:
        case JobPhase.RUNNING | JobPhase.UNKNOWN | JobPhase.CANCELLING if running:
            ready = job.phase is JobPhase.RUNNING
            return {"running": {"startedAt": running}}, ready, "Running"
        case JobPhase.PLACED:
            what = f"it starts in cluster {job.cluster}" if job.cluster else job.reason
            return _waiting("ContainerCreating", what), False, "Pending"
    what = job.reason or "it waits for a place"
    again = (pod.get("status") or {}).get("phase") == "Running"
    return _waiting("Requeued" if again else "Queued", what), False, "Pending"


def _waiting(reason: str, message: str) -> Status:
    return {"waiting": {"reason": reason, "message": message}}


def _ended(job: JobDocument, code: int, reason: str) -> Status:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": job.reason,
            "startedAt": _running_at(job),
            "finishedAt": _whole(job.ended_at or job.updated_at),
        }
    }


def _exit_code(job: JobDocument) -> int:
    told = [each.exit_code for each in job.attempts if each.exit_code is not None]
    return (told[-1] % 256 or _FAILED) if told else _FAILED


def _running_at(job: JobDocument) -> str | None:
    told = [each.running_at for each in job.attempts if each.running_at]
    return _whole(told[-1]) if told else None


def _reason(job: JobDocument) -> str | None:
    known: Mapping[JobPhase, str] = {
        JobPhase.UNKNOWN: "ClusterUnreachable",
        JobPhase.CANCELLED: "Cancelled",
        JobPhase.FAILED: "Failed",
    }
    return known.get(job.phase)


def _conditions(
    pod: Object, phase: str, *, ready: bool, now_s: Callable[[], float] = time.time
) -> list[Status]:
    """Those of others as they are, and ours; when each became so is kept."""
    ours = {
        "Initialized": True,
        "ContainersReady": ready,
        "Ready": ready,
    }
    before = {each["type"]: each for each in (pod.get("status") or {}).get("conditions") or ()}
    kept = [each for name, each in before.items() if name not in ours]
    return kept + [
        _condition(before.get(name), name, value, phase, now_s) for name, value in ours.items()
    ]


def _condition(
    before: Mapping[str, Any] | None, name: str, value: bool, phase: str, now_s: Callable[[], float]
) -> Status:
    status = "True" if value else "False"
    since = before.get("lastTransitionTime") if before and before.get("status") == status else None
    made: Status = {"type": name, "status": status, "lastTransitionTime": since or moment(now_s())}
    if not value:
        over = phase in ("Succeeded", "Failed")
        made["reason"] = "PodCompleted" if over else "ContainersNotReady"
    return made


def _whole(text: str) -> str:
    """A moment of the centre as Kubernetes writes it."""
    return moment(datetime.fromisoformat(text).timestamp())


def differs(status: Status, pod: Object) -> bool:
    """Whether a Pod shows something else."""
    shown = pod.get("status") or {}
    return any(_pruned(shown.get(name)) != _pruned(value) for name, value in status.items())


def _pruned(value: Any) -> Any:
    """Without what is nothing: the API leaves that out."""
    if isinstance(value, Mapping):
        return {
            name: kept for name, each in value.items() if (kept := _pruned(each)) not in (None, "")
        }
    if isinstance(value, list):
        return [_pruned(each) for each in value]
    return value
