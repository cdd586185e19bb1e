"""How a job runs in one cluster: workers that come and go, progress, checkpoints, its end.

Progress is the share of the work that is done. It grows at a constant rate between two changes
(workers, company on shared devices), so the end is known exactly and only changes cost anything.
"""

from dure.domain.fleet.decisions import InstanceId, Order, Placement
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.units import NS_PER_S
from dure.fleet.fit import speed
from dure.sim.agenda import NEVER_NS
from dure.sim.fleet.billing import Account, Holding


class Instance:
    """One instance with the place it holds."""

    __slots__ = ("arrival", "holding", "id", "leaving", "placement", "run", "warm")

    def __init__(
        self, instance: InstanceId, run: "Run", placement: Placement, holding: Holding
    ) -> None:
        self.id = instance
        self.run = run
        self.placement = placement
        self.holding = holding
        self.leaving: tuple[Placement, Holding] | None = None
        """The place it still holds while its replacement warms."""
        self.warm = False
        self.arrival = 0
        """Counts its starts, so that late news of a former one is ignored."""

    @property
    def serves_on(self) -> Placement:
        """Where its work is done now: at the old place while the new one warms."""
        return self.placement if self.leaving is None else self.leaving[0]

    @property
    def places(self) -> tuple[Placement, ...]:
        """All it holds now."""
        return (self.placement,) if self.leaving is None else (self.placement, self.leaving[0])


class Run:
    """One order in one cluster, with its instances; of a job also its progress."""

    __slots__ = (
        "_full_rate",
        "account",
        "attempt",
        "awaited",
        "began_ns",
        "cluster",
        "done",
        "ended",
        "first_warm_ns",
        "given_ns",
        "instances",
        "least",
        "order",
        "profile",
        "rate",
        "saved",
        "since_ns",
        "told_start",
        "touched",
        "version",
        "warm",
        "watts",
        "workers",
        "workload",
    )

    def __init__(
        self, order: Order, cluster: int, profile: DeviceProfile, account: Account, now_ns: int
    ) -> None:
        workload = order.workload
        self.account = account
        self.order = order
        self.workload: Workload = workload
        self.attempt = order.attempt
        self.cluster = cluster
        self.profile = profile
        self.given_ns = now_ns
        self.instances: dict[int, Instance] = {}
        self.warm = 0
        """Instances that are ready."""
        self.least = order.instances if workload.kind is not WorkloadKind.SERVING else 1
        """Workers without which it stands still."""
        self.rate = 0.0
        """Share of the work done in a nanosecond, now."""
        self.workers = 0
        """That work now; 0: it stands still."""
        self.awaited = False
        """Whether somebody will be told of its next checkpoint."""
        self.done = order.resume_share
        """At `since_ns`."""
        self.saved = order.resume_share
        """By the last checkpoint, as of `since_ns`."""
        self.since_ns = now_ns
        self.began_ns = now_ns
        """Since when checkpoints are counted."""
        self.first_warm_ns = -1
        """When it first ran here."""
        self.version = 0
        """Counts changes of the rate, so that a former end is ignored."""
        self.told_start = False
        self.watts = 0.0
        """What its running instances draw now beyond idle devices."""
        self.touched = False
        """Whether its instances have changed and it has not been looked at since."""
        self.ended = False
        work = workload.work
        self._full_rate = speed(workload, profile) / (work.reference_s * NS_PER_S) if work else 0.0

    def read(self, now_ns: int) -> None:
        """Put everything owed up to a moment on its account."""
        account = self.account
        account.read(now_ns)
        for instance in self.instances.values():
            instance.holding.settle(account, now_ns)
            if instance.leaving is not None:
                instance.leaving[1].settle(account, now_ns)

    def set_rate(self, now_ns: int, slowdown: float) -> int:
        """Go on with the workers that are ready now; returns when the work will be done."""
        self.settle(now_ns)
        self.version += 1
        was_running = self.rate > 0.0
        if self.warm < self.least or not self._full_rate:
            self.rate, self.workers = 0.0, 0
            return NEVER_NS
        self.workers = self.warm
        if not was_running:
            self.began_ns = now_ns
        if self.first_warm_ns < 0:
            self.first_warm_ns = now_ns
        self.rate = self._full_rate * self.workload.gang.speed(self.warm) / slowdown
        return now_ns + max(0, round((1.0 - self.done) / self.rate))

    def settle(self, now_ns: int) -> None:
        """Bring progress up to a moment."""
        if self.rate:
            self.saved = self.saved_at(now_ns)
            self.done = min(1.0, self.done + self.rate * (now_ns - self.since_ns))
        self.since_ns = now_ns

    def saved_at(self, now_ns: int) -> float:
        """Progress that would survive a stop now."""
        interval_s = self.workload.gang.checkpoint_s
        if not self.rate or interval_s is None:
            return self.saved
        interval_ns = round(interval_s * NS_PER_S)
        last_ns = self.began_ns + (now_ns - self.began_ns) // interval_ns * interval_ns
        if last_ns < self.since_ns or last_ns == self.began_ns:
            return self.saved
        return min(1.0, self.done + self.rate * (last_ns - self.since_ns))

    def done_at(self, now_ns: int) -> float:
        """Progress at a moment."""
        return min(1.0, self.done + self.rate * (now_ns - self.since_ns))

    def fall_back(self, now_ns: int) -> float:
        """Lose what no checkpoint holds; returns the share of the work that must be done again."""
        self.settle(now_ns)
        lost = self.done - self.saved
        self.done = self.saved
        self.began_ns = now_ns
        return lost

    def next_checkpoint_ns(self, now_ns: int) -> int:
        """When its progress is saved next; now, where nothing can be saved or it stands still."""
        interval_s = self.workload.gang.checkpoint_s
        if not self.rate or interval_s is None:
            return now_ns
        interval_ns = round(interval_s * NS_PER_S)
        return self.began_ns + ((now_ns - self.began_ns) // interval_ns + 1) * interval_ns

    def device_s(self, share: float) -> float:
        """Device-seconds on this profile of a share of its work, by its least workers."""
        if not self._full_rate:
            return 0.0
        workload = self.workload
        devices = workload.gang.workers * workload.demand.devices
        return share / self._full_rate / NS_PER_S * devices
