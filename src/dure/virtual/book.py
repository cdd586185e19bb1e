"""Pods of a virtual cluster and their jobs: what is to be done about each. No I/O.

A Pod's UID names its job for ever. What is known of a Pod is on the Pod itself and at the centre,
so that a process that begins anew finds it all there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dure.api.job_views import JobDocument, JobSummary
from dure.api.virtual import VirtualNode
from dure.kube.resources import Object, uid_of
from dure.virtual.statuses import JOB
from dure.virtual.translating import UID, asks_for

_OVER = ("Succeeded", "Failed")
AGAIN_S = 15.0
"""After which something is asked for again that has not come."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Its job is to be submitted, on this node's pool."""

    node: VirtualNode


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its job is to end."""

    job: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Nothing of it runs any more: the object may go."""


@dataclass(frozen=True, slots=True)
class Show:
    """It is to show how its job stands."""

    job: JobDocument


@dataclass(frozen=True, slots=True)
class Learn:
    """How its job stands is to be asked."""

    job: str


@dataclass(frozen=True, slots=True)
class Forget:
    """There is nothing to be remembered of it."""


Step = Submit | Cancel | Remove | Show | Learn | Forget | None


@dataclass(slots=True, eq=False)
class Entry:
    """One Pod."""

    uid: str
    pod: Object
    gone: bool = False
    """Whether the object is there no more."""
    job: str = ""
    """Of the centre; empty: none is known."""
    pool: str = ""
    """That the job was submitted to."""
    stand: JobDocument | None = None
    stale: bool = True
    """Whether the job may stand otherwise than was last heard."""
    cancelled_s: float | None = None
    refused: bool = False
    """Whether it was told that it cannot be carried out."""

    @property
    def node(self) -> str:
        """Where it is bound; empty: nowhere."""
        return str(self.pod["spec"].get("nodeName", ""))

    @property
    def deleting(self) -> bool:
        """Whether somebody deleted it."""
        return self.gone or "deletionTimestamp" in self.pod["metadata"]

    @property
    def over(self) -> bool:
        """Whether it shows its end."""
        return (self.pod.get("status") or {}).get("phase") in _OVER

    @property
    def unplaced(self) -> bool:
        """Whether the scheduler found no node that has room for it."""
        if self.node or self.pod["spec"].get("schedulingGates"):
            return False
        return any(
            each.get("type") == "PodScheduled" and each.get("reason") == "Unschedulable"
            for each in (self.pod.get("status") or {}).get("conditions") or ()
        )


@dataclass(slots=True)
class PodBook:
    """All Pods, by UID."""

    entries: dict[str, Entry] = field(default_factory=dict)
    _by_job: dict[str, str] = field(default_factory=dict)

    def put(self, pod: Object) -> Entry:
        """A Pod is there, new or changed."""
        uid = uid_of(pod)
        entry = self.entries.get(uid)
        if entry is None:
            entry = self.entries[uid] = Entry(uid, pod)
            noted = (pod["metadata"].get("annotations") or {}).get(JOB, "")
            if noted:
                self.attach(entry, noted)
        entry.pod = pod
        return entry

    def gone(self, uid: str) -> Entry | None:
        """A Pod is there no more."""
        entry = self.entries.get(uid)
        if entry is not None:
            entry.gone = True
        return entry

    def forget(self, entry: Entry) -> None:
        """Nothing more is to be done about it."""
        self.entries.pop(entry.uid, None)
        self._by_job.pop(entry.job, None)

    def attach(self, entry: Entry, job: str) -> None:
        """A Pod's job is known."""
        entry.job, entry.stale = job, True
        self._by_job[job] = entry.uid

    def of_job(self, job: str) -> Entry | None:
        """The Pod of a job."""
        return self.entries.get(self._by_job.get(job, ""))

    def found(self, job: JobSummary) -> Entry | None:
        """A job that the centre has for this virtual cluster; None: it has no Pod here."""
        uid = job.labels.get(UID, "")
        entry = self.entries.get(uid)
        if entry is not None and not entry.job:
            self.attach(entry, job.id)
        return entry

    def step(self, entry: Entry, pools: Mapping[str, VirtualNode], now_s: float) -> Step:
        """What is to be done about a Pod now; None: nothing."""
        if entry.job and (entry.stand is None or entry.stale):
            return Learn(entry.job)
        stand = entry.stand
        misplaced = stand is not None and _misplaced(entry, pools)
        if stand is not None and not stand.phase.ended and (entry.deleting or misplaced):
            due = entry.cancelled_s is None or now_s - entry.cancelled_s > AGAIN_S
            return Cancel(entry.job) if due else None
        if entry.deleting:
            return self._end(entry, pools)
        if misplaced:
            entry.job, entry.stand, stand = "", None, None  # Its job is one of the other pool.
        if entry.over or entry.refused:
            return None
        if stand is not None:
            return Show(stand) if entry.node in pools else None
        return self._begin(entry, pools)

    def _begin(self, entry: Entry, pools: Mapping[str, VirtualNode]) -> Step:
        if entry.node in pools:
            return Submit(pools[entry.node])
        wanted = self._wanted(entry, pools) if entry.unplaced else None
        return None if wanted is None else Submit(wanted)

    def _wanted(self, entry: Entry, pools: Mapping[str, VirtualNode]) -> VirtualNode | None:
        """The pool that a Pod without room waits for, as far as others have units of it: a job
        that waits calls them back."""
        chosen = entry.pod["spec"].get("nodeSelector") or {}
        for name, node in sorted(pools.items()):
            if chosen.get("kubernetes.io/hostname", name) != name or not asks_for(entry.pod, node):
                continue
            if node.allocatable + self._called(node) < node.capacity:
                return node
        return None

    def _called(self, node: VirtualNode) -> int:
        """Units of a pool that jobs of Pods without a node wait for."""
        return sum(
            asks_for(each.pod, node)
            for each in self.entries.values()
            if each.pool == node.pool
            and not each.node
            and (each.stand is None or each.stand.cluster is None)
        )

    def _end(self, entry: Entry, pools: Mapping[str, VirtualNode]) -> Step:
        if entry.gone:
            return Forget()
        return Remove() if entry.node in pools else None


def _misplaced(entry: Entry, pools: Mapping[str, VirtualNode]) -> bool:
    """Whether a Pod was bound to the node of another pool than its job waits in."""
    node = pools.get(entry.node)
    return node is not None and bool(entry.pool) and node.pool != entry.pool and not entry.over
