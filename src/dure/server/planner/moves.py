"""Rows of migrations as the planner begins and changes them, beside the orders they belong to."""

from collections.abc import Callable
from dataclasses import replace

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.instructions import MoveWorkload
from dure.domain.fleet.migrations import Move, MoveKind, MoveStep, kind_of
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import ClusterId
from dure.domain.units import NS_PER_MS
from dure.fleet.migrating import Deed, first_deeds, ordered
from dure.fleet.terms import BYTES_PER_GB
from dure.server.planner.book import Book
from dure.server.planner.deeds import Deeds
from dure.stores.ids import new_id
from dure.stores.rows import Attempt, Migration

_CARRIED = "transfer"
"""The term of an explanation that is billed as egress."""


def move_of(row: Migration) -> Move:
    """What the next step of a migration depends on."""
    return Move(
        row.kind,
        row.step,
        row.since_ns,
        row.old_attempt,
        row.new_attempt,
        row.request,
        row.saved_share,
        row.reason,
    )


def stepped(row: Migration, move: Move) -> Migration:
    """A row after a step."""
    return replace(
        row,
        step=move.step,
        since_ns=move.since_ns,
        new_attempt=move.new,
        request=move.request,
        saved_share=move.saved_share,
        reason=move.why,
        ended_ns=move.since_ns if move.step.ended else None,
    )


class MoveDesk:
    """Begins migrations and puts their deeds to those of the round."""

    def __init__(self, book: Book, now_ns: Callable[[], int], deeds: Callable[[], Deeds]) -> None:
        self._book = book
        self._now_ns = now_ns
        self._deeds = deeds

    def put(self, row: Migration) -> None:
        """Have a row stored as it is."""
        self._deeds().moves[row.id] = row
        if row.step.ended:
            self._book.moves.pop(row.job_id, None)
        else:
            self._book.moves[row.job_id] = row

    def moved(self, move: MoveWorkload, old: int, why: str) -> None:
        """The machine ordered a job elsewhere, by itself or because somebody asked."""
        job, order = move.workload, move.order
        known = self._book.moves.get(job)
        row = known or self._new(order.workload, old, move.source, why)
        row = replace(
            row,
            old_attempt=old,
            old_cluster=str(move.source),
            new_cluster=str(order.site.cluster),
            saving=move.expected_saving,
            egress=move.egress,
            carbon_saved_g=move.carbon_saved_g,
        )
        if known is None or known.step in (MoveStep.ASKED, MoveStep.PLACING):
            self._begin(row, order.attempt)
        else:  # It leaves already, and knows now where to.
            self.put(replace(row, new_attempt=order.attempt))

    def leaves(self, workload: Workload, old: int, cluster: str, why: str) -> None:
        """A job must leave its place, wherever it will go: its cluster is drained."""
        row = replace(self._new(workload, old, cluster, why), stop_anyway=True)
        self._begin(row, None)

    def seeks(self, workload: Workload, old: int, cluster: str, why: str) -> None:
        """A service must leave its place once there is another one."""
        row = self._new(workload, old, cluster, why)
        self.put(replace(row, step=MoveStep.PLACING, stop_anyway=True))

    def left_by(self, order: Order) -> tuple[int, str] | None:
        """Attempt and cluster that a service leaves for a new place; None: it leaves none, or has
        another place to go to already, so that this one is a further part of it."""
        job = order.workload.id
        row = self._book.moves.get(job)
        goes = row is not None and row.new_attempt is not None
        return None if goes else self._book.replaced.get(job)

    def placed(self, order: Order, replaces: tuple[int, str] | None, policy: FleetPolicy) -> Order:
        """A job on its way has got its place: the order, with what is carried there."""
        job = order.workload.id
        row = self._book.moves.get(job)
        if row is None and replaces is not None:
            row = self._new(order.workload, *replaces, "its place is given up")
        if row is None or (replaces is None and row.kind is MoveKind.WARM):
            return order
        if row.step in (MoveStep.ASKED, MoveStep.PLACING):
            self._begin(replace(row, new_cluster=str(order.site.cluster)), order.attempt)
            return order
        egress = self._egress(row, order)
        self.put(
            replace(
                row,
                new_attempt=order.attempt,
                new_cluster=str(order.site.cluster),
                egress=row.egress or egress,
            )
        )
        weight = policy.of(order.workload.kind).cost_weight
        return _carrying(order, egress * weight)

    def found(self, workload: Workload, old: int, cluster: str, new: Attempt) -> None:
        """A service was on its way when nobody kept rows of that."""
        row = self._new(workload, old, cluster, "it was on its way")
        self._begin(replace(row, new_cluster=new.cluster), new.attempt)

    def refused(self, job: str, why: str) -> None:
        """A move that somebody asked for cannot be made."""
        row = self._book.moves.get(job)
        if row is not None and row.step is MoveStep.ASKED:
            self.end(row, MoveStep.UNDONE, why)

    def end(self, row: Migration, step: MoveStep, why: str) -> None:
        """Nothing more comes of it."""
        now_ns = self._now_ns()
        self.put(replace(row, step=step, reason=why, since_ns=now_ns, ended_ns=now_ns))

    def _new(self, workload: Workload, old: int, cluster: str, why: str) -> Migration:
        now_ns = self._now_ns()
        return Migration(
            id=new_id(),
            job_id=workload.id,
            kind=kind_of(workload),
            step=MoveStep.ASKED,
            since_ns=now_ns,
            old_attempt=old,
            old_cluster=str(cluster),
            why=why,
            begun_ns=now_ns,
        )

    def _begin(self, row: Migration, new: int | None) -> None:
        """The first step of a migration that has a place, or needs none to begin."""
        now_ns = self._now_ns()
        move = ordered(move_of(row), new, now_ns)
        deeds = first_deeds(move)
        if Deed.REQUEST in deeds:
            move = replace(move, request=now_ns // NS_PER_MS)
        row = stepped(row, move)
        self.put(row)
        self.carry_out(row, deeds)

    def carry_out(self, row: Migration, deeds: tuple[Deed, ...]) -> None:
        """Put what a step needs to what is to be written."""
        todo, old = self._deeds(), (row.job_id, row.old_attempt)
        for deed in deeds:
            match deed:
                case Deed.REQUEST:
                    todo.requests[old] = (row.old_cluster, row.request)
                case Deed.WITHDRAW:
                    todo.requests[old] = (row.old_cluster, 0)
                case Deed.RELEASE_OLD:
                    self._book.replaced.pop(row.job_id, None)
                    todo.releases[old] = (row.old_cluster, _why_it_leaves(row))
                case Deed.YIELD_NEW if row.new_attempt is not None:
                    todo.yields[row.job_id, row.new_attempt] = row.new_cluster
                case Deed.RELEASE_NEW if row.new_attempt is not None:
                    new = (row.job_id, row.new_attempt)
                    todo.releases[new] = (row.new_cluster, f"it stays in {row.old_cluster}")

    def _egress(self, row: Migration, order: Order) -> float:
        """What carrying a checkpoint costs that no explanation tells yet."""
        fleet = self._book.declared.fleet
        per_gb = fleet.egress(ClusterId(row.old_cluster), order.site.cluster)
        return per_gb * order.workload.gang.checkpoint_bytes / BYTES_PER_GB


def _carrying(order: Order, counted: float) -> Order:
    if not counted:
        return order
    terms = dict(order.explanation.terms)
    terms[_CARRIED] = terms.get(_CARRIED, 0.0) + counted
    return replace(order, explanation=replace(order.explanation, terms=tuple(terms.items())))


def _why_it_leaves(row: Migration) -> str:
    where = f"moves to {row.new_cluster}" if row.new_cluster else row.why
    saved = f", which saves {row.saving:.4g}" if row.saving > 0 else ""
    return f"{where}{saved}"
