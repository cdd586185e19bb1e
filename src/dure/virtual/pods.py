"""Pods of a virtual cluster at work: jobs for those on our nodes, and how they stand on the Pods.

Everything may be done twice: a job has the Pod's UID as its key, an end is asked for until it is
there. While the centre or the API server is away, nothing is decided.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass

from dure.api.job_views import JobDocument, SortOrder
from dure.api.jobs import JobSpec
from dure.client.fleet import AsyncFleetClient, FleetError, RefusedError, calls
from dure.client.fleet.doors import EventGap
from dure.domain.errors import DureError
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.client import KubeClient
from dure.kube.errors import KubeConflictError, KubeInvalidError, KubeNotFoundError
from dure.kube.informer import Broken, Change, ChangeKind, Informer, Synced
from dure.kube.requests import Preconditions
from dure.kube.resources import PODS, key_of, uid_of
from dure.virtual import book as steps
from dure.virtual.book import Entry, PodBook
from dure.virtual.keeping import NodeKeeper
from dure.virtual.nodes import CLUSTER
from dure.virtual.statuses import (
    JOB,
    Status,
    differs,
    notes_of,
    refused_status,
    status_of,
    waiting_status,
)
from dure.virtual.telling import Teller
from dure.virtual.translating import PLANE, UID, UnsupportedPodError, job_of

_log = logging.getLogger("dure.virtual")

RESYNC_S = 30.0
"""How often all jobs are compared with all Pods, in case an event was missed."""
_TICK_S = 2.0
_AGAIN_S = 1.0
_HANDS = 16
"""Requests at a time."""
_MOST_STEPS = 8
"""Of one Pod in a row."""
_LIVE = tuple(phase.value for phase in JobPhase if not phase.ended)
_GONE = 404
_REFUSALS = frozenset({400, 403, 409, 413, 422})
"""Answers that would be the same tomorrow, unless somebody changes something."""
_MEANT_TO_WAIT = frozenset({"quota", "budget"})
"""Refusals that pass by themselves."""
_KEY_REUSED = "key-reused"
_WAIT_S = 15.0
_ID_CHARACTERS = 26
"""Of a job's id; subjects of its attempts go on after it."""


@dataclass(frozen=True)
class Ends:
    """The two sides between which Pods are carried."""

    name: str
    """Of the virtual cluster."""
    plane: str
    """Names this life of its API server: a new one has Pods of its own."""
    kube: KubeClient
    centre: AsyncFleetClient


class PodKeeper:
    """All Pods of one virtual cluster."""

    def __init__(self, ends: Ends, nodes: NodeKeeper) -> None:
        self.book = PodBook()
        self._ends = ends
        self._nodes = nodes
        self._teller = Teller(ends.kube, ends.name)
        self._dirty: set[str] = set()
        self._stirred = asyncio.Event()
        self._synced = asyncio.Event()
        self._compared = False
        self._hands = asyncio.Semaphore(_HANDS)
        self._later: dict[str, float] = {}

    @property
    def count(self) -> int:
        """Pods on our nodes that have not ended."""
        pools = self._nodes.pools
        return sum(entry.node in pools and not entry.over for entry in self.book.entries.values())

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_pods())
            tasks.create_task(self._follow_jobs())
            tasks.create_task(self._compare())
            tasks.create_task(self._tick())
            tasks.create_task(self._tend_all())

    # What happens on either side

    async def _follow_pods(self) -> None:
        informer = Informer(self._ends.kube, PODS)
        async with aclosing(informer.happenings()) as happenings:
            async for happening in happenings:
                match happening:
                    case Change(ChangeKind.DELETED, thing):
                        self.book.gone(uid_of(thing))
                        self._stir(uid_of(thing))
                    case Change(_, thing):
                        self.book.put(thing)
                        self._stir(uid_of(thing))
                    case Synced():
                        self._synced.set()
                    case Broken(error):
                        _log.info("Pods cannot be followed: %s", error)

    async def _follow_jobs(self) -> None:
        """Events of the centre tell which jobs stand otherwise than before."""
        await self._nodes.known.wait()
        tenant, _ = self._nodes.owner
        after: int | None = None
        while True:
            try:
                async for event in self._ends.centre.events(after, tenant=tenant):
                    if isinstance(event, EventGap):
                        after = event.last
                        self._all_stale()
                        continue
                    after = event.seq
                    entry = self.book.of_job(event.subject[:_ID_CHARACTERS])
                    if entry is not None:
                        entry.stale = True
                        self._stir(entry.uid)
            except FleetError as error:
                _log.info("events cannot be followed: %s", error)
            await asyncio.sleep(_AGAIN_S)

    def _all_stale(self) -> None:
        for entry in self.book.entries.values():
            entry.stale = True
            self._stir(entry.uid)

    async def _compare(self) -> None:
        """Jobs whose Pod is gone end; Pods whose job nobody noted get it."""
        await self._synced.wait()
        while True:
            try:
                await self._compare_once()
                self._compared = True
                self._stirred.set()
            except DureError as error:
                _log.warning("jobs and Pods cannot be compared: %s", error)
                await asyncio.sleep(_AGAIN_S)
                continue
            await asyncio.sleep(RESYNC_S)

    async def _compare_once(self) -> None:
        label, cursor = f"{CLUSTER}={self._ends.name}", ""
        while True:
            page = await self._ends.centre.do(
                calls.list_jobs(label=[label], phase=list(_LIVE), cursor=cursor, limit=1000)
            )
            for job in page.items:
                entry = self.book.found(job)
                if entry is not None:
                    entry.stale = entry.stale or _moved(entry, job.revision)
                    self._stir(entry.uid)
                elif job.labels.get(PLANE) != self._ends.plane:
                    _log.warning(
                        "job %s is of another API server that this virtual cluster had; "
                        "end it with: dure cancel %s",
                        job.id,
                        job.id,
                    )
                elif job.phase is not JobPhase.CANCELLING:
                    _log.info("the Pod of job %s is gone: it ends", job.id)
                    await self._ends.centre.do(calls.cancel_job(job.id))
            cursor = page.cursor
            if not cursor:
                return

    async def _tick(self) -> None:
        """Look again at those that wait for somebody."""
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.monotonic()
            for uid, entry in list(self.book.entries.items()):
                waits = entry.deleting or entry.unplaced or (entry.job and entry.stand is None)
                if waits and self._later.get(uid, now_s) <= now_s:
                    self._stir(uid)

    # What is done about it

    def _stir(self, uid: str) -> None:
        self._dirty.add(uid)
        self._stirred.set()

    async def _tend_all(self) -> None:
        await self._synced.wait()
        await self._nodes.known.wait()
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if not self._compared:
                continue  # A job may be there that no Pod tells of.
            uids, self._dirty = self._dirty, set()
            entries = [self.book.entries[uid] for uid in uids if uid in self.book.entries]
            await asyncio.gather(*(self._tend(entry) for entry in entries))

    async def _tend(self, entry: Entry) -> None:
        async with self._hands:
            try:
                for _ in range(_MOST_STEPS):
                    pools = self._nodes.pools
                    step = self.book.step(entry, pools, time.monotonic())
                    if step is None or not await self._do(entry, step):
                        return
            except (KubeNotFoundError, KubeConflictError) as error:
                _log.debug("Pod %s changed meanwhile: %s", key_of(entry.pod), error)
            except KubeInvalidError as error:
                _log.error("Pod %s cannot be written: %s", key_of(entry.pod), error)
            except DureError as error:
                _log.warning("Pod %s is not tended yet: %s", key_of(entry.pod), error)
                self._again(entry)

    def _again(self, entry: Entry, after_s: float = _AGAIN_S) -> None:
        self._later[entry.uid] = time.monotonic() + after_s
        asyncio.get_running_loop().call_later(after_s, self._stir, entry.uid)

    async def _do(self, entry: Entry, step: steps.Step) -> bool:
        """Carry out a step; whether there may be another."""
        self._later.pop(entry.uid, None)
        match step:
            case steps.Learn(job):
                return await self._learn(entry, job)
            case steps.Submit():
                return await self._submit(entry, step)
            case steps.Cancel(job):
                await self._ends.centre.do(calls.cancel_job(job))
                entry.cancelled_s, entry.stale = time.monotonic(), True
                return False
            case steps.Remove():
                await self._remove(entry)
            case steps.Show(job):
                await self._show(entry, job)
            case steps.Forget():
                self.book.forget(entry)
        return False

    async def _learn(self, entry: Entry, job: str) -> bool:
        entry.stale = False
        try:
            entry.stand = await self._ends.centre.do(calls.get_job(job))
        except RefusedError as error:
            if error.status != _GONE:
                entry.stale = True
                raise
            # Its history was pruned: whatever it was, nothing of it runs any more.
            entry.job, entry.refused = "", True
            if not entry.over and not entry.deleting:
                what = "the centre has removed its job from its books"
                await self._write(entry, refused_status(entry.pod, "JobUnknown", what))
            return True
        except FleetError:
            entry.stale = True
            raise
        entry.pool = entry.stand.spec.pool or ""
        return True

    async def _submit(self, entry: Entry, step: steps.Submit) -> bool:
        node, ends = step.node, self._ends
        try:
            spec = job_of(entry.pod, node, ends.name, ends.plane)
        except UnsupportedPodError as error:
            await self._refuse(entry, "Unsupported", str(error))
            return False
        tenant, team = self._nodes.owner
        owned = spec.model_copy(update={"tenant": tenant, "team": team or None})
        key = f"virtual/{ends.name}/{entry.uid}/{node.pool}"
        try:
            job = await self._submitted(owned, key, entry.uid)
        except RefusedError as error:
            return await self._not_taken(entry, error)
        self.book.attach(entry, job)
        entry.pool = node.pool
        notes: Mapping[str, object] = {"annotations": {JOB: job}}
        await self._note(entry, notes)
        await self._teller.tell(entry.pod, "Submitted", f"became job {job} of pool {node.pool}")
        return True

    async def _submitted(self, spec: JobSpec, key: str, uid: str) -> str:
        try:
            return (await self._ends.centre.do(calls.submit(spec, key))).ids[0]
        except RefusedError as error:
            if _kind(error) != _KEY_REUSED:
                raise
            # Another version of us said it in other words: what is stored is its job.
            found = await self._ends.centre.do(
                calls.list_jobs(label=[f"{UID}={uid}"], order=SortOrder.NEWEST.value, limit=1)
            )
            if not found.items:
                raise
            return found.items[0].id

    async def _not_taken(self, entry: Entry, error: RefusedError) -> bool:
        if _kind(error) in _MEANT_TO_WAIT or error.status not in _REFUSALS:
            await self._write(entry, waiting_status(entry.pod, "NotTaken", str(error)))
            self._again(entry, _WAIT_S)
            return False
        await self._refuse(entry, "NotTaken", str(error))
        return False

    async def _refuse(self, entry: Entry, reason: str, message: str) -> None:
        """Tell a Pod that it is not carried out; those of a DaemonSet, which would be made anew at
        once, wait instead."""
        if not entry.node:
            return
        entry.refused = True
        owners = entry.pod["metadata"].get("ownerReferences") or ()
        daemon = any(each.get("kind") == "DaemonSet" for each in owners)
        make = waiting_status if daemon else refused_status
        await self._write(entry, make(entry.pod, reason, message))
        await self._teller.tell(entry.pod, reason, message, warning=True)

    async def _show(self, entry: Entry, job: JobDocument) -> None:
        before = entry.pod["metadata"].get("annotations") or {}
        notes = {name: value for name, value in notes_of(job).items() if before.get(name) != value}
        if notes:
            if job.cluster and WHERE_CHANGED & set(notes):
                said = f"attempt {job.attempt} in cluster {job.cluster}"
                await self._teller.tell(entry.pod, "Placed", said)
            await self._note(entry, {"annotations": notes})
        status = status_of(entry.pod, job, await self._addresses(job))
        if differs(status, entry.pod):
            await self._write(entry, status)

    async def _addresses(self, job: JobDocument) -> list[str]:
        """Where a Pod that serves answers, as far as its cluster says it."""
        if job.kind is not WorkloadKind.SERVING or job.phase is not JobPhase.RUNNING:
            return []
        with suppress(FleetError):
            found = await self._ends.centre.do(calls.get_endpoints(job.id))
            return _plain_addresses([each.address for each in found.items])
        return []

    async def _note(self, entry: Entry, metadata: Mapping[str, object]) -> None:
        space, name = key_of(entry.pod)
        changes = {"metadata": {**metadata, "uid": entry.uid}}
        entry.pod = await self._ends.kube.patch(PODS, name, changes, namespace=space)

    async def _write(self, entry: Entry, status: Status) -> None:
        if not differs(status, entry.pod):
            return
        space, name = key_of(entry.pod)
        changes = {"metadata": {"uid": entry.uid}, "status": status}
        entry.pod = await self._ends.kube.patch(
            PODS, name, changes, namespace=space, subresource="status"
        )

    async def _remove(self, entry: Entry) -> None:
        """Let a deleted Pod go, with its end shown first: others wait for that."""
        if entry.stand is not None and not entry.over:
            await self._write(entry, status_of(entry.pod, entry.stand))
        space, name = key_of(entry.pod)
        with suppress(KubeNotFoundError):
            await self._ends.kube.delete(
                PODS, name, namespace=space, only=Preconditions(uid=entry.uid), grace_s=0
            )


WHERE_CHANGED = frozenset({"dure.io/cluster", "dure.io/attempt"})


def _kind(error: RefusedError) -> str:
    return error.problem.type.rpartition(":")[2]


def _moved(entry: Entry, revision: int) -> bool:
    """Whether a job has changed since it was last read."""
    return entry.stand is None or entry.stand.revision != revision


def _plain_addresses(addresses: list[str]) -> list[str]:
    """Hosts of addresses that are numbers, which a Pod's address must be."""
    found = []
    for address in addresses:
        host = address.rpartition(":")[0].strip("[]")
        if host and host.replace(".", "").replace(":", "").isalnum() and host[0].isdigit():
            found.append(host)
    return list(dict.fromkeys(found))[:1]
