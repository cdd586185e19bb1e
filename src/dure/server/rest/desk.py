"""What the routes share: the server's services, who is who, limits, what is known, who waits."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dure.server.auth import Caller, Gate
from dure.server.rerun.running import Reruns
from dure.server.rest.known import Known
from dure.server.rest.limits import RateLimit
from dure.server.rest.settings import RestSettings
from dure.server.rest.waking import Waker
from dure.server.services import Services
from dure.server.signals import SignalDesk
from dure.server.telemetry.desk import Telemetry
from dure.server.whatif import WhatIf
from dure.stores.ids import new_id
from dure.stores.rows import AuditEntry, NewEvent
from dure.stores.transaction import Transaction

DONE = "done"


@dataclass(frozen=True)
class Desk:
    """One for each application."""

    services: Services
    gate: Gate
    limits: RestSettings
    rates: RateLimit
    strangers: RateLimit
    known: Known
    waker: Waker
    telemetry: Telemetry
    whatif: WhatIf
    reruns: Reruns
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Answers given, by method and status."""
    signals: SignalDesk = field(default_factory=SignalDesk)
    open_streams: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator["Change"]:
        """A transaction in which somebody changes something; all who wait hear of it after."""
        async with self.services.state.transaction() as tx:
            yield Change(tx, self.services.now_ns())
        self.known.forget()
        self.waker.tell()


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction, and the way to say in it what was done."""

    tx: Transaction
    now_ns: int

    async def note(
        self,
        caller: Caller,
        event: NewEvent | None,
        action: str,
        subject: str,
        **data: Any,
    ) -> None:
        """Write what was done to the audit log, and let it happen for those who follow."""
        if event is not None:
            self.tx.events.add(event)
        tenant = event.tenant if event is not None else None
        await self.tx.audit.add(
            AuditEntry(
                new_id(), self.now_ns, caller.actor, action, subject, DONE, tenant, data=data
            )
        )
