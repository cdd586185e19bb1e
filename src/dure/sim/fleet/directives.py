"""Carries out what the centre says: orders reach clusters, work is stopped, leases passed on."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    AllotmentsSet,
    GlobalEvent,
    WorkloadEnded,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import (
    DeferWorkload,
    GlobalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    PublishPrices,
    RefuseWorkload,
    SetAllotments,
    Warn,
)
from dure.domain.ids import WorkloadId
from dure.sim.fleet.members import Member

if TYPE_CHECKING:
    from dure.sim.fleet.world import World


class Directives:
    """The centre's instructions on their way to clusters."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.ordered: set[int] = set()
        """Clusters that have got orders since their last round."""
        self._carry: dict[type[Any], Callable[[Any, int], None]] = {
            PlaceWorkload: self._place,
            DeferWorkload: self._defer,
            MoveWorkload: self._move,
            PreemptWorkload: self._preempt,
            SetAllotments: self._allot,
            RefuseWorkload: self._refuse,
            PublishPrices: self._publish,
            Warn: self._warn,
        }

    def carry_out(self, instructions: list[GlobalInstruction], now_ns: int) -> None:
        """Do what the centre says, in its order."""
        carry = self._carry
        for instruction in instructions:
            carry[type(instruction)](instruction, now_ns)

    def _move(self, instruction: MoveWorkload, now_ns: int) -> None:
        self._world.moves.begin(instruction, now_ns)

    def _place(self, instruction: PlaceWorkload, now_ns: int) -> None:
        order = instruction.order
        self._world.count("placements")
        self._world.history.explain(order, now_ns)
        self.give(order, now_ns)

    def give(self, order: Order, now_ns: int) -> None:
        """Bring an order to its cluster, once it can be reached."""
        member = self._world.member_of[order.site.cluster]
        if not member.reachable:
            member.inbox.append(lambda later_ns: self.give(order, later_ns))
            return
        job = self._world.jobs.get(order.workload.id)
        if job is not None and job.told_end:
            return
        if self._world.race and job is not None and any(run.instances for run in job.live):
            self.lost_race(order, now_ns)
            return
        member.give(order, now_ns)
        self.ordered.add(member.index)

    def lost_race(self, order: Order, now_ns: int) -> None:
        """Another cluster was first: the centre hears that this order stands no longer."""
        why = "another cluster was first"
        self._world.report(WorkloadStopped(now_ns, order.workload.id, order.attempt, 0.0, why))

    def _refuse(self, instruction: RefuseWorkload, now_ns: int) -> None:
        self._world.count("refused")
        said = f"{instruction.why}; {instruction.nearest}"
        self._world.waits.refused(instruction.workload, said, now_ns)
        if instruction.workload not in self._world.setting.never_fitting:
            self._world.history.warn(said)
        job = self._world.jobs.get(instruction.workload)
        if job is not None and not job.refused:
            job.refused = True
            self._world.open_jobs -= 1

    def _defer(self, instruction: DeferWorkload, now_ns: int) -> None:
        self._world.count("deferrals")

    def _publish(self, instruction: PublishPrices, now_ns: int) -> None:
        self._world.prices.update(instruction.prices)

    def _warn(self, instruction: Warn, now_ns: int) -> None:
        self._world.feedback.warned(instruction)

    def _preempt(self, instruction: PreemptWorkload, now_ns: int) -> None:
        member = self._world.member_of[instruction.cluster]
        if not member.reachable:
            member.inbox.append(lambda later_ns: self._preempt(instruction, later_ns))
            return
        run = member.runs.get((instruction.workload, instruction.attempt))
        if run is None:
            return
        self._world.count("preemptions")
        why = f"displaced by {instruction.wanted_by}"
        if instruction.why:
            why += f": {instruction.why}"
        saved = self._world.save(run, now_ns)
        member.withdraw(run, now_ns)
        stopped = WorkloadStopped(now_ns, run.workload.id, run.attempt, saved, why)
        self._world.report(stopped, member)

    def _allot(self, instruction: SetAllotments, now_ns: int) -> None:
        member = self._world.member_of[instruction.cluster]
        if member.reachable:
            member.tell(AllotmentsSet(now_ns, instruction.allotments))
        else:
            member.inbox.append(lambda later_ns: self._allot(instruction, later_ns))

    def call_off(self, workload: WorkloadId, now_ns: int) -> None:
        """The centre hears that a job is done: it ends wherever else it still runs."""
        job = self._world.jobs[workload]
        job.told_end = True
        for run in list(job.live):
            member = self._world.members[run.cluster]
            if member.reachable:
                member.withdraw(run, now_ns)

    def over(self, member: Member, news: list[GlobalEvent], now_ns: int) -> None:
        """A cluster is back with news: stop what ended there or elsewhere in the meantime."""
        for event in news:
            if isinstance(event, WorkloadEnded):
                self.call_off(event.workload, now_ns)
        for run in list(member.runs.values()):
            job = self._world.jobs.get(run.workload.id)
            if job is not None and job.told_end:
                member.withdraw(run, now_ns)
