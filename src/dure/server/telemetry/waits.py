"""How long jobs wait for a place and until they run: follows events where this server leads.

Each job's way is counted once and, where traces are wanted, told as a trace: queued, committed by
its cluster, started.
"""

from dataclasses import dataclass
from itertools import pairwise

from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.units import NS_PER_S
from dure.server.services import Services
from dure.stores.errors import ExpiredError
from dure.stores.rows import Event
from dure.stores.transaction import Transaction

_BATCH = 1000
_MOST = 50_000
"""Jobs whose way is remembered; the oldest waits are the ones that matter."""
_WHOLE, _PARTS = "job", ("queue", "commit", "start")


@dataclass(slots=True)
class _Way:
    """How far a job has come."""

    submitted_ns: int
    placed_ns: int | None = None
    committed_ns: int | None = None
    cluster: str = ""


class JobWaits:
    """Counts each job's wait once: at its first place, and when it first runs."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._seq: int | None = None
        self._ways: dict[str, _Way] = {}
        """Of jobs that never ran, in the order of their submission."""

    def forget(self) -> None:
        """Another server leads: it counts from here on."""
        self._seq, self._ways = None, {}

    def oldest_ns(self) -> int | None:
        """When the oldest job without a place was submitted."""
        waiting = (way.submitted_ns for way in self._ways.values() if way.placed_ns is None)
        return next(waiting, None)

    async def follow(self, tx: Transaction) -> None:
        """Take in what happened since the last time."""
        if self._seq is None:
            await self._begin(tx)
            return
        while True:
            try:
                events = await tx.events.since(self._seq, _BATCH)
            except ExpiredError:
                self.forget()
                return
            for event in events:
                self._happened(event)
                self._seq = event.seq
            if len(events) < _BATCH:
                return

    async def _begin(self, tx: Transaction) -> None:
        self._seq = await tx.events.last()
        after = ""
        while len(self._ways) < _MOST:
            rows = await tx.jobs.live(after, _BATCH)
            for row in rows:
                if row.attempt == 0:
                    self._ways[row.id] = _Way(row.submitted_ns)
                elif row.phase is JobPhase.PLACED and row.attempt == 1:
                    self._ways[row.id] = _Way(row.submitted_ns, row.updated_ns)
            if len(rows) < _BATCH:
                return
            after = rows[-1].id

    def _happened(self, event: Event) -> None:
        way = self._ways.get(event.subject)
        if event.kind == "job.submitted" and len(self._ways) < _MOST:
            self._ways[event.subject] = _Way(event.at_ns)
        elif way is None:
            return
        elif event.kind == "attempt.committed":
            way.committed_ns, way.cluster = event.at_ns, str(event.data.get("cluster", ""))
        elif event.kind == "job.changed":
            self._changed(event.subject, way, str(event.data.get("phase")), event.at_ns)

    def _changed(self, job: str, way: _Way, phase: str, at_ns: int) -> None:
        figures = self._services.figures
        runs = phase == JobPhase.RUNNING.value
        if way.placed_ns is None and (runs or phase == JobPhase.PLACED.value):
            way.placed_ns = at_ns
            figures.placed.observe((at_ns - way.submitted_ns) / NS_PER_S)
        if runs:
            figures.started.observe((at_ns - way.submitted_ns) / NS_PER_S)
        if runs or phase not in (JobPhase.QUEUED.value, JobPhase.PLACED.value):
            del self._ways[job]
            self._trace(job, way, phase, at_ns)

    def _trace(self, job: str, way: _Way, phase: str, at_ns: int) -> None:
        """The way of a job that runs, or that came to its end before it did."""
        tracer = self._services.tracer
        if tracer is None:
            return
        about = {"dure.job": job, "dure.phase": phase, "dure.cluster": way.cluster}
        tracer.whole(job, _WHOLE, (way.submitted_ns, at_ns), **about)
        steps = (way.submitted_ns, way.placed_ns, way.committed_ns, at_ns)
        for name, (start_ns, end_ns) in zip(_PARTS, pairwise(steps), strict=True):
            if start_ns is not None and end_ns is not None:
                tracer.part(job, f"job.{name}", (start_ns, end_ns), **about)
