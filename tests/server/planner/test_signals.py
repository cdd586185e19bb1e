"""The planner watches what it hears: what it sees coming moves weights and becomes an event."""

from typing import Any, cast

from dure.domain.fleet.events import GlobalEvent, ServiceObserved, SignalSeen
from dure.domain.fleet.instructions import GlobalInstruction, WarnKind
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.server.declared import Declared
from dure.server.planner.book import Book
from dure.server.planner.centre import Centre
from dure.server.planner.suspects import Suspects
from tests.fleet.factories import cluster
from tests.fleet.machines import machine

MINUTE_NS = 60 * 10**9


class Heard:
    """A machine, and everything it was told."""

    def __init__(self, inner: GlobalMachine) -> None:
        self._inner = inner
        self.events: list[GlobalEvent] = []

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        self.events.append(event)
        return self._inner.handle(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_promises_that_fail_reach_the_machine_as_a_signal_and_people_as_a_warning() -> None:
    heard = Heard(machine(cluster("seoul")))
    book = Book(cast(Declared, None))
    centre = Centre(cast(GlobalMachine, heard), book, lambda: 0, Suspects())
    for minute in range(10):
        observed = ServiceObserved(
            minute * MINUTE_NS, WorkloadId("web"), ClusterId("seoul"), 10.0, 2, 0.4
        )
        centre.feed(observed)
    assert any(isinstance(event, SignalSeen) for event in heard.events)
    (told,) = [each for each in centre.take_deeds().warnings if each.kind is WarnKind.ADAPTED][:1]
    assert "the latency weight goes from 1 to" in told.what
