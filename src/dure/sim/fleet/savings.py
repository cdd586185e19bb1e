"""What migrations between clusters were expected to save, and what they really saved.

What a workload really paid at its new place (rent and energy, its part of the nodes it was on, a
service also its penalties) is compared with what the same work, or time, would have
cost at the rate it had paid at its old place; the cost of moving is subtracted.
"""

from dataclasses import dataclass, field

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.instructions import MoveWorkload
from dure.domain.fleet.policy import HOUR_NS
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import WorkloadId
from dure.fleet.fit import footprint, runtime_ns
from dure.sim.fleet.jobs import Run

_ENOUGH = 0.01
"""Share of a job's work that it must have done somewhere for its bill there to say anything."""


@dataclass(slots=True)
class Move:
    """One migration, from the decision to its last consequence."""

    instruction: MoveWorkload
    run: Run
    """At the old place."""
    left_ns: int = -1
    share: float = 0.0
    """Of the work that was saved when it left."""
    workers: int = 1
    sunk: float = 0.0
    """Paid for the move itself."""

    def leave(self, run: Run, now_ns: int) -> None:
        """It leaves its old place."""
        self.left_ns = now_ns
        self.share = run.saved_at(now_ns)
        self.workers = max(run.warm, run.workers, 1)


@dataclass(slots=True)
class Savings:
    """What the migrations of a run came to."""

    fleet: Fleet
    expected: float = 0.0
    """Of those whose outcome is known."""
    realised: float = 0.0
    _jobs: dict[tuple[WorkloadId, int], Move] = field(default_factory=dict)
    """By the new attempt."""
    _services: list[tuple[Move, Run]] = field(default_factory=list)
    """With the order at the new place."""
    _penalties: dict[Run, float] = field(default_factory=dict)
    """Of services while they were at a place."""

    def job_moved(self, order: Order, move: Move) -> None:
        """A job left for a new place."""
        self._jobs[order.workload.id, order.attempt] = move

    def service_moved(self, run: Run, move: Move) -> None:
        """A service is warm at a new place."""
        self._services.append((move, run))

    def job_left(self, run: Run, share: float) -> None:
        """A job that had moved ends, stops or moves on, with so much of its work done."""
        move = self._jobs.pop((run.workload.id, run.attempt), None)
        if move is None:
            return
        self.expected += move.instruction.expected_saving
        work = max(0.0, share - move.share)
        self.realised += self._work_cost(move, work) - run.account.paid - move.sunk

    def close(self, now_ns: int) -> None:
        """At the end: what the moves of services have saved since."""
        for move, run in self._services:
            self.expected += move.instruction.expected_saving
            until_ns = run.since_ns if run.ended else now_ns
            stayed_ns = move.left_ns - move.run.given_ns
            share = (until_ns - move.left_ns) / stayed_ns if stayed_ns > 0 else 0.0
            self.realised += self._paid(move.run) * share - self._paid(run) - move.sunk
        self._services.clear()

    def service_begins(self, run: Run, penalty: float) -> None:
        """A service has come to a place; its penalties so far."""
        self._penalties[run] = -penalty

    def service_ends(self, run: Run, penalty: float) -> None:
        """It is gone from there."""
        self._penalties[run] += penalty

    def _paid(self, run: Run) -> float:
        """Rent, energy and penalties of a service while it was at a place."""
        return run.account.paid + self._penalties.get(run, 0.0)

    def _work_cost(self, move: Move, work: float) -> float:
        """A part of a job's work at its old place: as billed there, or by devices before that."""
        old = move.run
        done = move.share - old.order.resume_share
        if done > _ENOUGH:
            return old.account.paid / done * work
        took_ns = round(runtime_ns(old.workload, old.profile, move.workers) * work)
        return self._cost(old, move.left_ns, move.left_ns + took_ns, move.workers)

    def _cost(self, run: Run, start_ns: int, end_ns: int, workers: int) -> float:
        """Devices of a run for a while at the true prices of its place: rent, or their energy."""
        if end_ns <= start_ns:
            return 0.0
        cluster = self.fleet.clusters[run.cluster]
        group = next(each for each in cluster.groups if each.name == run.order.site.group)
        devices = _devices(run.workload, group) * workers
        per_hour = device_hour_cost(self.fleet, cluster, group, start_ns, end_ns)
        return devices * per_hour * (end_ns - start_ns) / HOUR_NS


def _devices(workload: Workload, group: NodeGroup) -> float:
    """Devices one instance uses up there."""
    found = footprint(workload.demand, device_profile(group.profile), group.mode)
    return found.device_share if found is not None else float(workload.demand.devices)


def device_hour_cost(
    fleet: Fleet, cluster: Cluster, group: NodeGroup, start_ns: int, end_ns: int
) -> float:
    """A busy device's rent or energy per hour, mean over a time, in the base currency."""
    price = cluster.tariff.device_hour.get(group.profile)
    if price is not None:
        hours = range(start_ns // HOUR_NS, max(start_ns, end_ns - 1) // HOUR_NS + 1)
        factor = sum(cluster.tariff.factor(hour * HOUR_NS) for hour in hours) / len(hours)
        return fleet.rates.to_base(price, cluster.tariff.currency) * factor
    watts = device_profile(group.profile).power_w(1.0) + group.base_power_w / group.devices
    per_mwh = cluster.electricity_per_mwh.mean(start_ns, end_ns)
    return fleet.rates.to_base(watts / 1e6 * per_mwh * cluster.pue, cluster.tariff.currency)
