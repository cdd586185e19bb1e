"""What the global stage remembers of every workload, and columns of those that have a place."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.decisions import Explanation
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.fit import Footprint, footprint, runtime_ns
from dure.fleet.sites import DIMENSIONS, Floats, Integers, SiteBook, usage_of
from dure.fleet.track_loops import Held, released, remaining, reserved

HOUR_NS = 3600 * 10**9
FOR_EVER_NS = 2**62
"""When a service ends; no job, however long its owner says that it takes."""

MaskKey: TypeAlias = tuple[int, frozenset[ClusterId] | None]


class Phase(Enum):
    """Where a workload is in its life."""

    PENDING = "pending"
    """Waits for a place; will be weighed in the next round."""
    WAITING = "waiting"
    """Was weighed and waits for a better hour or for room."""
    PLACED = "placed"
    """Ordered somewhere, not yet running."""
    RUNNING = "running"
    MOVING = "moving"
    """Runs, and is ordered to another cluster."""


HAS_PLACE = (Phase.PLACED, Phase.RUNNING, Phase.MOVING)


@dataclass(frozen=True, slots=True)
class Needs:
    """What a workload takes on each class of devices; shared by workloads that ask for the same."""

    shapes: tuple[Footprint | None, ...]
    """Of one instance by class of devices; None: not there."""
    usage: Floats
    """[P, D] of one instance; 0 where there is no shape."""
    busy: Floats
    """[P]: devices of one instance that compute, in whole ones."""
    fits: NDArray[np.bool_]
    """[P]"""
    whole: NDArray[np.bool_]
    """[P]: whether an instance takes whole devices."""
    devices: Floats
    """[P]: of one instance, whole or in part; 0 where there is no shape."""
    share: Floats
    """[P]: of each of these devices."""
    templates: tuple[str, ...]
    """[P]: names of the slices; empty where there is no shape."""
    masks: dict[MaskKey, tuple[int, NDArray[np.bool_]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """By instances and clusters: where workloads of this shape could run, as of a version of the
    book of sites."""
    reach: dict[MaskKey, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)
    """The same: in how many clusters that can be reached."""
    most: dict[int, Floats] = field(default_factory=dict, compare=False, repr=False)
    """By instances: what all of them take where they take the most, as fairness counts it."""


def needs_of(workload: Workload, sites: SiteBook) -> Needs:
    """What one instance of a workload takes on each class of devices of the fleet."""
    shapes = tuple(
        footprint(workload.demand, profile, mode)
        if workload.profiles is None or profile.name in workload.profiles
        else None
        for profile, mode in sites.kinds
    )
    usage = np.zeros((len(shapes), len(DIMENSIONS)))
    for number, shape in enumerate(shapes):
        if shape is not None:
            usage[number] = usage_of(shape, 1)
    return Needs(
        shapes=shapes,
        usage=usage,
        busy=usage[:, 0].copy(),
        fits=np.array([shape is not None for shape in shapes], dtype=np.bool_),
        whole=np.array(
            [shape is not None and shape.compute_milli == WHOLE_MILLI for shape in shapes],
            dtype=np.bool_,
        ),
        devices=np.array([0.0 if shape is None else shape.devices for shape in shapes]),
        share=np.array(
            [1.0 if shape is None else shape.compute_milli / WHOLE_MILLI for shape in shapes]
        ),
        templates=tuple("" if shape is None else shape.template for shape in shapes),
    )


@dataclass(slots=True)
class Track:
    """One workload and all that happened to it."""

    workload: Workload
    needs: Needs
    runtime_h: Floats
    """[P]: of all its work on its least number of workers; infinite where it does not fit."""
    id: WorkloadId = field(init=False)
    """Of the workload."""
    is_job: bool = field(init=False)
    """Whether it ends by itself."""
    instances: int = field(init=False)
    """Workers a job starts with."""
    number: int = 0
    """Counts the workloads that were ever known, this one included."""
    phase: Phase = Phase.PENDING
    attempt: int = 0
    places: dict[int, "PlaceRow"] = field(default_factory=dict)
    """By attempt; a job has at most one."""
    saved_share: float = 0.0
    done_share: float = 0.0
    workers: int = 0
    avoid: dict[int, int] = field(default_factory=dict)
    """Sites that turned it down, and until when they are not asked."""
    pending_ns: int = 0
    """Since when it has had no place."""
    wake_ns: int = 0
    priority: int = 0
    """Its own and its tenant's."""
    stamp: int = 0
    """Changes whenever it is woken or put to wait, so that old wake-up calls are known as such."""
    plan: int = -1
    """Row of its plan for later; -1: none."""
    until_ns: int = 0
    """The start it was told to wait for; 0: none."""
    why: str = ""
    """Why it waits."""
    explanation: Explanation | None = None
    moved_ns: int | None = None
    claimed_ns: int | None = None
    """When room was last sought for it among tenants above their share."""
    gave_way_ns: int | None = None
    """When it was last displaced for a tenant below its share."""
    violated: float = 0.0
    """Of a service: smoothed share of time in violation."""
    rate: float = 0.0
    """Of a service: requests per second over all clusters to provide for; 0: nothing observed."""
    parts: int = 0
    """Of a service: clusters it is split over because one has not enough room."""

    def __post_init__(self) -> None:
        # Read millions of times in a long run: as attributes, not as properties.
        self.id = self.workload.id
        self.is_job = self.workload.kind is not WorkloadKind.SERVING
        self.instances = self.workload.gang.workers

    @property
    def active(self) -> bool:
        """Whether it has a place."""
        return self.phase in HAS_PLACE


@dataclass(slots=True)
class PlaceRow:
    """Where an order of a workload went."""

    site: int
    row: int
    """In the running columns."""
    instances: int
    ordered_ns: int
    started_ns: int | None = None
    start_ns: int = 0
    """When it was expected to start."""
    start_share: float = 0.0
    """Part of the work that was done when it was ordered."""
    extra: int = 0
    """Workers beyond the least that an elastic gang has now."""
    told: int = 0
    """Summaries the site had given when it was ordered."""
    replicas: int = 0
    """Of a service: instances there, as last observed; 0: nothing observed."""
    kept: int = 0
    """Of a service: instances that room is kept for beside those it has."""


def runtimes_h(workload: Workload, sites: SiteBook, needs: Needs) -> Floats:
    """Hours of all the work by class of devices; infinite where it cannot run."""
    hours = np.full(len(sites.kinds), np.inf)
    for number, (profile, _) in enumerate(sites.kinds):
        if needs.fits[number]:
            hours[number] = runtime_ns(workload, profile, workload.gang.workers) / HOUR_NS
    return hours


def after_h(moment_ns: int, hours: float) -> int:
    """So many hours later, before for ever."""
    return min(moment_ns + round(hours * HOUR_NS), FOR_EVER_NS - 1)


class RunningBook:
    """Everything that has a place, in columns: where, until when, how much, for what money."""

    def __init__(self) -> None:
        size = 256
        self.used = np.zeros(size, dtype=np.bool_)
        self.site = np.zeros(size, dtype=np.int64)
        self.tenant = np.zeros(size, dtype=np.int64)
        self.start_ns = np.zeros(size, dtype=np.int64)
        self.end_ns = np.zeros(size, dtype=np.int64)
        """Expected; far in the future for a service."""
        self.usage = np.zeros((size, len(DIMENSIONS)))
        self.money = np.zeros(size)
        """Expected over the run."""
        self.grams = np.zeros(size)
        self.priority = np.zeros(size, dtype=np.int64)
        self.preemptible = np.zeros(size, dtype=np.bool_)
        self.owner: list[WorkloadId | None] = [None] * size
        self.count = 0
        self.version = 0
        self._spare = list(range(size - 1, -1, -1))

    def add(
        self, owner: WorkloadId, site: int, tenant: int, span_ns: tuple[int, int], usage: Floats
    ) -> int:
        """Take a placed workload in; returns its row."""
        if not self._spare:
            self._grow()
        row = self._spare.pop()
        self.used[row] = True
        self.owner[row] = owner
        self.site[row] = site
        self.tenant[row] = tenant
        self.start_ns[row], self.end_ns[row] = span_ns
        self.usage[row] = usage
        self.money[row] = self.grams[row] = 0.0
        self.priority[row] = 0
        self.preemptible[row] = False
        self.count += 1
        self.version += 1
        return row

    def remove(self, row: int) -> None:
        """It ended or left."""
        self.used[row] = self.preemptible[row] = False
        self.usage[row] = 0.0
        self.money[row] = self.grams[row] = 0.0
        self.owner[row] = None
        self._spare.append(row)
        self.count -= 1
        self.version += 1

    def released(self, starts_ns: Integers, sites: int) -> Floats:
        """[M, T, D]: what ends until each start slot; what is overdue ends in the next."""
        if len(starts_ns) == 1:
            return np.zeros((sites, 1, len(DIMENSIONS)))
        return released(self._held(), starts_ns, sites)

    def reserved(self, starts_ns: Integers, sites: int) -> Floats:
        """[M, T, D]: what plans of these rows take of each later start slot; of the first nothing.

        Slots are as long as to the next one; a plan counts where it begins before their end and
        ends after their beginning.
        """
        if len(starts_ns) == 1:
            return np.zeros((sites, 1, len(DIMENSIONS)))
        return reserved(self._held(), starts_ns, sites)

    def remaining_h(self, now_ns: int, sites: int) -> Floats:
        """[M]: how long work at each site still runs, on average; 0 where nothing runs."""
        return remaining(self._held(), now_ns, sites) / HOUR_NS

    def _held(self) -> Held:
        return Held(self.used, self.site, self.start_ns, self.end_ns, self.usage)

    def committed(self, now_ns: int, tenants: int) -> tuple[Floats, Floats]:
        """[K] money and grams that placed work is still expected to use, by tenant."""
        rows = np.flatnonzero(self.used)
        length = np.maximum(self.end_ns[rows] - self.start_ns[rows], 1)
        part = np.clip((self.end_ns[rows] - now_ns) / length, 0.0, 1.0)
        tenant = self.tenant[rows]
        return (
            np.bincount(tenant, self.money[rows] * part, tenants).astype(np.float64),
            np.bincount(tenant, self.grams[rows] * part, tenants).astype(np.float64),
        )

    def _grow(self) -> None:
        size = len(self.owner)
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate((column, np.zeros_like(column))))
        self.owner.extend([None] * size)
        self._spare.extend(range(2 * size - 1, size - 1, -1))


_COLUMNS = (
    "used",
    "site",
    "tenant",
    "start_ns",
    "end_ns",
    "usage",
    "money",
    "grams",
    "priority",
    "preemptible",
)
