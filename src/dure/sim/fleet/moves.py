"""Migrations between clusters, carried out: a service warm first, a job at its next checkpoint."""

from dataclasses import replace
from typing import Protocol

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import GlobalEvent, OrderTurnedDown, WorkloadStopped
from dure.domain.fleet.instructions import MoveWorkload
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import ClusterId, WorkloadId
from dure.sim.agenda import Agenda
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.members import Member
from dure.sim.fleet.savings import Move, Savings
from dure.sim.fleet.transfers import Stores, Transfer


class Orders(Protocol):
    """What brings an order to its cluster."""

    def give(self, order: Order, now_ns: int) -> None:
        """Bring an order to its cluster."""


class MovingWorld(Protocol):
    """What a migration needs of the world around it."""

    agenda: Agenda
    stores: Stores
    members: list[Member]

    @property
    def directives(self) -> Orders:
        """Brings orders to clusters."""

    def find(self, name: WorkloadId, cluster: ClusterId) -> Run | None:
        """The order of a workload in a cluster."""

    def save(self, run: Run, now_ns: int) -> float:
        """What a checkpoint holds of a job that is about to stop; the rest is lost."""

    def pay_transfer(self, workload: Workload, transfer: Transfer) -> None:
        """Charge a transfer."""

    def report(self, event: GlobalEvent, member: Member | None = None) -> None:
        """Let the centre know."""

    def count(self, what: str) -> None:
        """One more of something."""


class Moves:
    """Migrations that are under way."""

    def __init__(self, world: MovingWorld, savings: Savings) -> None:
        self._world = world
        self._savings = savings
        self._warming: dict[tuple[WorkloadId, int], Move] = {}
        """Services whose new place is not warm yet, by the new attempt."""
        self._leaving: dict[Run, Move] = {}
        """Jobs that wait for a checkpoint to leave."""

    def begin(self, instruction: MoveWorkload, now_ns: int) -> None:
        """The centre wants something elsewhere."""
        world = self._world
        if instruction.dry_run:
            world.count("moves_proposed")
            return
        run = world.find(instruction.workload, instruction.source)
        if run is None:
            self._abandon(instruction, "it is no longer there", now_ns)
            return
        move = Move(instruction, run)
        if run.workload.kind is WorkloadKind.SERVING:
            self._warming[instruction.workload, instruction.order.attempt] = move
            world.directives.give(instruction.order, now_ns)
        else:
            self._leaving[run] = move
            world.agenda.note(run.next_checkpoint_ns(now_ns), self._depart, run)

    def _abandon(self, instruction: MoveWorkload, why: str, now_ns: int) -> None:
        """A move cannot be made: the centre hears that its order came to nothing."""
        self._world.count("moves_abandoned")
        order = instruction.order
        self._world.report(OrderTurnedDown(now_ns, order.workload.id, order.attempt, why))

    def _depart(self, now_ns: int, run: Run) -> None:
        """A job that moves has saved its progress: it leaves."""
        move = self._leaving.get(run)
        if move is None:
            return
        source = self._world.members[run.cluster]
        if not source.reachable:
            del self._leaving[run]
            self._abandon(move.instruction, "its cluster cannot be reached", now_ns)
            return
        next_ns = run.next_checkpoint_ns(now_ns - 1) if run.rate else now_ns
        if next_ns > now_ns:  # it stood still in between: its checkpoints have shifted
            self._world.agenda.note(next_ns, self._depart, run)
            return
        saved = self._world.save(run, now_ns)
        source.withdraw(run, now_ns)
        stopped = WorkloadStopped(now_ns, run.workload.id, run.attempt, saved, "moved")
        self._world.report(stopped, source)

    def left(self, run: Run, now_ns: int) -> None:
        """A job's order is gone from its cluster; if it was to move, it moves now."""
        move = self._leaving.pop(run, None)
        if move is None:
            return
        world, workload = self._world, run.workload
        if run.done >= 1.0:
            world.count("moves_abandoned")
            return
        move.leave(run, now_ns)
        source = world.members[run.cluster]
        target = move.instruction.order.site.cluster
        transfer = world.stores.checkpoint(workload, source.id, target, now_ns)
        world.pay_transfer(workload, transfer)
        move.sunk += transfer.cost
        world.count("moves")
        order = replace(move.instruction.order, resume_share=run.saved)
        self._savings.job_moved(order, move)
        world.agenda.note(transfer.arrives_ns, self._arrive, order)

    def _arrive(self, now_ns: int, order: Order) -> None:
        self._world.directives.give(order, now_ns)

    def warm(self, run: Run, now_ns: int) -> None:
        """A service is warm somewhere: if it moved there, its old place ends."""
        move = self._warming.pop((run.workload.id, run.attempt), None)
        if move is None:
            return
        world, old = self._world, move.run
        source = world.members[old.cluster]
        if old.ended or not source.reachable:
            world.count("moves_abandoned")
            return
        world.count("moves")
        move.leave(old, now_ns)
        self._savings.service_moved(run, move)
        source.withdraw(old, now_ns)
        world.report(WorkloadStopped(now_ns, run.workload.id, old.attempt, 0.0, "moved"), source)
