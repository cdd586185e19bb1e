"""What a member cluster deals with: its local stage, and the world around it."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from dure.domain.fleet.events import LocalEvent
from dure.domain.fleet.instructions import LocalInstruction, ReportSummary, Warn
from dure.domain.ids import WorkloadId
from dure.sim.agenda import Agenda
from dure.sim.fleet.billing import Books
from dure.sim.fleet.jobs import Run

if TYPE_CHECKING:
    from dure.sim.fleet.members import Member


class LocalStage(Protocol):
    """What the world drives in every cluster."""

    @property
    def awaited(self) -> Collection[WorkloadId]:
        """Jobs whose next checkpoint it waits for, beside those that have grown."""

    def handle(self, event: LocalEvent) -> list[LocalInstruction]:
        """Take an event, answer with instructions."""


class Surroundings(Protocol):
    """What a member needs of the world around it."""

    agenda: Agenda
    books: Books

    def stored_ns(self, run: Run, member: "Member", now_ns: int) -> int:
        """When all data of a run is in its cluster; transfers begin where it is not."""

    def received(self, run: Run, member: "Member") -> None:
        """An order is about to be handed to a local stage."""

    def closed(self, run: Run, now_ns: int) -> None:
        """An order is gone from its cluster."""

    def started(self, run: Run, member: "Member", now_ns: int) -> None:
        """The first instance of an order got a place."""

    def running(self, run: Run, member: "Member", now_ns: int) -> None:
        """All instances of an order are warm."""

    def ended(self, run: Run, member: "Member", now_ns: int) -> None:
        """A job is done."""

    def turned_down(self, run: Run, member: "Member", why: str, now_ns: int) -> None:
        """A cluster gave an order back."""

    def workers_changed(self, run: Run, member: "Member", now_ns: int) -> None:
        """A running job grew or shrank."""

    def lost_work(self, run: Run, share: float) -> None:
        """Work that must be done again."""

    def summarised(self, member: "Member", summary: ReportSummary, now_ns: int) -> None:
        """A cluster said what is left."""

    def warned(self, warning: Warn) -> None:
        """A stage had something to say."""

    def service_changed(self, run: Run, member: "Member") -> None:
        """A service has another number of warm instances."""

    def count(self, what: str) -> None:
        """One more of something."""
