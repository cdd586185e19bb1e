"""How large services are, from what their clusters said of them last."""

from collections.abc import Iterable
from typing import Any

from dure.api.base import maybe_moment, moment_text
from dure.api.loads import SizeDocument
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.fleet.protocol.reports import AttemptStatus
from dure.domain.fleet.workloads import WorkloadKind
from dure.server.records import status_of
from dure.stores.rows import Attempt, Job

_HERE = (AttemptState.COMMITTED, AttemptState.RUNNING)


def size_document(attempt: Attempt) -> SizeDocument | None:
    """How large an attempt of a service is, and why; None: it is none, or nothing was said yet."""
    status = status_of(attempt) if attempt.state in _HERE else None
    if status is None or status.sizing is None:
        return None
    sizing = status.sizing
    heard = sizing.heard_ns > 0
    ready = _ready(status)
    standby = sum(each.ready and each.standby for each in status.instances)
    return SizeDocument(
        ready=ready,
        serving=sizing.serving,
        standby=standby,
        starting=max(0, sizing.serving + sizing.standby - ready - standby),
        level=sizing.level,
        slice=_slice(status),
        why=sizing.why,
        changed_at=moment_text(sizing.changed_ns),
        requests_per_second=sizing.requests_per_s if heard else None,
        queue=sizing.queue_length if heard else None,
        latency_ms=sizing.latency_ms if heard else None,
        heard_at=maybe_moment(sizing.heard_ns if heard else None),
    )


def instances_of(row: Job, attempts: Iterable[Attempt]) -> dict[str, Any]:
    """Of a service: instances that take requests, and that shall, in all its clusters."""
    if row.spec["kind"] != WorkloadKind.SERVING.value:
        return {}
    ready = wanted = 0
    for attempt in attempts:
        status = status_of(attempt) if attempt.state in _HERE else None
        if status is not None:
            ready += _ready(status)
            wanted += len(status.instances) if status.sizing is None else status.sizing.serving
    return {"ready": ready, "wanted": wanted}


def _ready(status: AttemptStatus) -> int:
    return sum(each.ready and not each.standby for each in status.instances)


def _slice(status: AttemptStatus) -> str:
    names = sorted({each.placement.template or "whole" for each in status.instances})
    return ", ".join(names)
