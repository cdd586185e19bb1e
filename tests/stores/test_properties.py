"""Random histories: the store refuses exactly what a small model of it refuses."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dure.domain.fleet.lifecycle import LEGAL_STEPS, AttemptState
from dure.stores import tables
from dure.stores.errors import ConflictError, FencedError
from dure.stores.rows import Lease, NewEvent
from dure.stores.store import Store
from tests.stores.helpers import attempt, job, opened

_LONG_S = 3600.0


class _StoreMachine(RuleBasedStateMachine):
    """A store on SQLite, in an event loop of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        self._opened = opened(f"sqlite:///{Path(self._folder.name) / 'state.db'}")
        self.store: Store = self.run(self._opened.__aenter__())

    def run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)

    def teardown(self) -> None:
        self.run(self._opened.__aexit__(None, None, None))
        self._runner.close()
        self._folder.cleanup()


class Attempts(_StoreMachine):
    """Attempts of one training job."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[int, AttemptState] = {}
        self.job_id = self.run(self._add_job())

    async def _add_job(self) -> str:
        async with self.store.transaction() as tx:
            return (await tx.jobs.add(job())).id

    @rule(number=st.integers(1, 6))
    def reserve(self, number: int) -> None:
        async def add() -> bool:
            try:
                async with self.store.transaction() as tx:
                    await tx.attempts.add(attempt(self.job_id, number))
            except ConflictError:
                return False
            return True

        allowed = number > max(self.states, default=0)
        assert self.run(add()) is allowed
        if allowed:
            self.states[number] = AttemptState.RESERVED

    @precondition(lambda self: self.states)
    @rule(data=st.data(), to=st.sampled_from(AttemptState))
    def advance(self, data: st.DataObject, to: AttemptState) -> None:
        number = data.draw(st.sampled_from(sorted(self.states)))

        async def step() -> bool:
            try:
                async with self.store.transaction() as tx:
                    await tx.attempts.advance(self.job_id, number, to)
            except ConflictError:
                return False
            return True

        now = self.states[number]
        others = any(state.live for other, state in self.states.items() if other != number)
        legal = to in LEGAL_STEPS[now] and not (to is AttemptState.COMMITTED and others)
        assert self.run(step()) is (now is to or legal)
        if legal:
            self.states[number] = to

    @invariant()
    def what_is_stored_is_what_the_model_says(self) -> None:
        async def stored() -> dict[int, AttemptState]:
            async with self.store.reading() as tx:
                return {one.attempt: one.state for one in await tx.attempts.of_job(self.job_id)}

        assert self.run(stored()) == self.states
        assert sum(state.live for state in self.states.values()) <= 1


class Leases(_StoreMachine):
    """Several servers that want to lead, and write whenever they believe they do."""

    def __init__(self) -> None:
        super().__init__()
        self.believed: dict[str, Lease] = {}
        self.leader: str | None = None
        self.epoch = 0
        self.written = 0

    @rule(server=st.sampled_from("abc"))
    def acquire(self, server: str) -> None:
        lease = self.run(self.store.acquire(server, _LONG_S))
        assert (lease is not None) is (self.leader is None)
        if lease is not None:
            self.epoch += 1
            assert lease.epoch == self.epoch
            self.leader, self.believed[server] = server, lease

    @precondition(lambda self: self.believed)
    @rule(data=st.data(), verb=st.sampled_from(["renew", "release", "write"]))
    def act(self, data: st.DataObject, verb: str) -> None:
        server = data.draw(st.sampled_from(sorted(self.believed)))
        lease = self.believed[server]
        leads = self.leader == server and lease.epoch == self.epoch
        try:
            self.run(getattr(self, f"_{verb}")(lease))
        except FencedError:
            assert not leads
        else:
            assert leads or verb == "release"
            self.written += verb == "write"
            if verb == "release" and leads:
                self.leader = None

    @rule()
    def time_passes(self) -> None:
        async def expire() -> None:
            async with self.store.transaction() as tx:
                await tx.link.execute(tables.leases.update().values(expires_ns=1), "lease")

        self.run(expire())
        self.leader = None

    async def _renew(self, lease: Lease) -> None:
        await self.store.renew(lease, _LONG_S)

    async def _release(self, lease: Lease) -> None:
        await self.store.release(lease)

    async def _write(self, lease: Lease) -> None:
        async with self.store.transaction(fence=lease.epoch) as tx:
            tx.events.add(NewEvent("written", lease.holder))

    @invariant()
    def only_leaders_have_written(self) -> None:
        async def last() -> int:
            async with self.store.reading() as tx:
                return await tx.events.last()

        assert self.run(last()) == self.written


_SETTINGS = settings(max_examples=12, stateful_step_count=25)
TestAttempts = Attempts.TestCase
TestAttempts.settings = _SETTINGS
TestLeases = Leases.TestCase
TestLeases.settings = _SETTINGS
