"""How orders go on with the instances they have: their speed, power, checkpoints and end."""

from typing import TYPE_CHECKING

from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.events import CheckpointReached, InstanceEnded
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import WorkloadId
from dure.fleet.fit import Footprint, footprint, slice_speed
from dure.sim.agenda import NEVER_NS
from dure.sim.fleet.hardware import Hardware
from dure.sim.fleet.jobs import Instance, Run
from dure.sim.fleet.surroundings import Surroundings
from dure.sim.fleet.turns import TurnPlace

if TYPE_CHECKING:
    from dure.sim.fleet.members import Member


class Pace:
    """Looks at orders whose instances have changed."""

    def __init__(self, member: "Member", hardware: Hardware, around: Surroundings) -> None:
        self._member = member
        self._hardware = hardware
        self._around = around
        self._touched: list[Run] = []

    def touch(self, run: Run) -> None:
        """An order's instances have changed, or who shares their devices."""
        if not run.touched:
            run.touched = True
            self._touched.append(run)

    def touch_all(self, guests: set[Instance]) -> None:
        """The same of all that are on a node."""
        for guest in sorted(guests, key=by_id):
            self.touch(guest.run)

    def settle(self, now_ns: int) -> None:
        """Look at every order whose instances have changed."""
        while self._touched:
            run = self._touched.pop()
            run.touched = False
            if not run.ended:
                self._reconsider(run, now_ns)

    def _reconsider(self, run: Run, now_ns: int) -> None:
        """Set an order's speed, power and end by the instances it has now."""
        if run.workload.kind is WorkloadKind.SERVING:
            self._around.service_changed(run, self._member)
            if not run.told_start and run.warm >= run.order.instances:
                run.told_start = True
                self._around.running(run, self._member, now_ns)
            return
        before = run.workers
        if before and run.warm < run.least:
            self._around.lost_work(run, run.fall_back(now_ns))
        slowdown = self._slowdown(run)
        end_ns = run.set_rate(now_ns, slowdown)
        self.set_power(run, run.workers / slowdown, now_ns)
        if end_ns < NEVER_NS:
            self._around.agenda.note(end_ns, self._end, (run, run.version))
        if run.rate and not run.told_start:
            run.told_start = True
            self._around.running(run, self._member, now_ns)
        elif before != run.workers:
            if before and run.workers:
                self._around.count("grown" if run.workers > before else "shrunk")
            self._around.workers_changed(run, self._member, now_ns)
        if run.workers > run.least:
            self.await_checkpoint(run, now_ns)

    def _slowdown(self, run: Run) -> float:
        """Of the whole gang: as slow as its slowest worker."""
        if not run.instances:
            return 1.0
        first = next(iter(run.instances.values()))
        if not self._hardware.nodes[first.placement.node].turns:
            return 1.0
        return max(self._hardware.slowdown(each.placement) for each in run.instances.values())

    def set_power(self, run: Run, busy: float, now_ns: int) -> None:
        """Draw for so many busy instances."""
        watts = busy * self.busy_w(run) if busy else 0.0
        if watts != run.watts:
            run.account.draw(watts, now_ns)
            run.watts = watts

    def busy_w(self, run: Run) -> float:
        """What one instance at full load draws beyond its idle devices."""
        shape = self._least(run)
        share = shape.device_share if shape is not None else run.workload.demand.devices
        power = run.profile.power
        return (power.peak_w - power.idle_w) * share

    def slice_speeds(self, run: Run) -> tuple[float, float]:
        """Mean and least speed of a service's warm instances, over that on the smallest slice."""
        least = self._least(run)
        warm = [each.serves_on.compute_milli for each in run.instances.values() if each.warm]
        if least is None or not warm or max(warm) == least.compute_milli:
            return (1.0, 1.0)
        speeds = [slice_speed(least, compute_milli) for compute_milli in warm]
        return (sum(speeds) / len(speeds), min(speeds))

    def turn_places(self, run: Run) -> list[TurnPlace]:
        """Devices where a service's requests take turns with those of others."""
        hardware = self._hardware
        if hardware.groups[run.order.site.group].group.mode is not ShareMode.QUEUE:
            return []
        found = []
        for instance in run.instances.values():
            serves_on = instance.serves_on
            for place in instance.places:
                found += [
                    TurnPlace(
                        (hardware.index, device),
                        place.compute_milli,
                        hardware.held_milli[device],
                        instance.warm and place is serves_on,
                    )
                    for device in place.devices
                ]
        return found

    def _least(self, run: Run) -> Footprint | None:
        """The smallest slice that meets the demand where a run is."""
        mode = self._hardware.groups[run.order.site.group].group.mode
        return footprint(run.workload.demand, run.profile, mode)

    def await_checkpoint(self, run: Run, now_ns: int) -> None:
        """Somebody wants to know when a job saves its progress next."""
        if run.awaited or run.ended or not run.rate or run.workload.gang.checkpoint_s is None:
            return
        run.awaited = True
        self._around.agenda.note(run.next_checkpoint_ns(now_ns), self._checkpoint, run)

    def _checkpoint(self, now_ns: int, run: Run) -> None:
        """A job saves its progress: the moment to move or shrink it."""
        run.awaited = False
        if run.ended:
            return
        if run.rate and run.next_checkpoint_ns(now_ns - 1) == now_ns:
            self._member.tell(CheckpointReached(now_ns, run.workload.id))
        if run.workers > run.least or run.workload.id in self._member.stage.awaited:
            self.await_checkpoint(run, now_ns)

    def _end(self, now_ns: int, what: tuple[Run, int]) -> None:
        """A job has done its work, unless something changed since that was foreseen."""
        run, version = what
        if run.ended or run.version != version:
            return
        run.settle(now_ns)
        run.done = run.saved = 1.0
        names: list[InstanceId] = [instance.id for instance in run.instances.values()]
        self._member.close(run, now_ns)
        self._member.jobs_ended += 1
        self._around.ended(run, self._member, now_ns)
        for name in names:
            self._member.tell(InstanceEnded(now_ns, name))


def by_id(instance: Instance) -> tuple[WorkloadId, int, int]:
    """A fixed order of instances."""
    name = instance.id
    return (name.workload, name.attempt, name.index)
