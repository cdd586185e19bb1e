"""Two servers on one PostgreSQL: the leader dies, or is stopped and wakes up again."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dure.domain.fleet.lifecycle import AttemptState
from dure.stores.repos.leases import LEADER
from dure.stores.rows import Attempt, NewEvent
from dure.stores.store import Store
from dure.stores.submissions import Submission
from tests.kube.ports import free_port
from tests.server.centres import SPEC, job_row, prepare
from tests.server.members import FakeMember, linked
from tests.stores.helpers import asynchronous
from tests.stores.services import Postgres

pytestmark = pytest.mark.services

PROMISE_S = 10.0
"""From the leader's end until a new job's object is wanted of a member."""


@dataclass
class Process:
    """One `dure server`."""

    port: int
    process: asyncio.subprocess.Process
    log: Path

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)


@asynccontextmanager
async def server(address: str, folder: Path) -> AsyncIterator[Process]:
    """A server as a process of its own; killed at the end."""
    port, rest = free_port(), free_port()
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    options = ("--data", folder, "--database", address, "--lease-ttl", "5")
    listening = ("--listen", f"127.0.0.1:{rest}", "--grpc", f"127.0.0.1:{port}")
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from dure.cli.main import main; main()",
            "server",
            *map(str, (*options, *listening)),
            stdout=out,
            stderr=out,
        )
    try:
        yield Process(port, process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _leader_pid(store: Store) -> int | None:
    async with store.reading() as tx:
        lease = await tx.leases.find(LEADER)
    return None if lease is None else int(lease.holder.rpartition(":")[2])


async def _until_led(store: Store, *, but: int | None = None) -> int:
    async with asyncio.timeout(60):
        while (pid := await _leader_pid(store)) in (None, but):
            await asyncio.sleep(0.1)
    assert pid is not None
    return pid


@asynccontextmanager
async def member_of(port: int, secret: str) -> AsyncIterator[FakeMember]:
    """A member of seoul that has joined."""
    async with linked(port, secret, "seoul") as member:
        await member.join()
        yield member


async def _submit(store: Store) -> str:
    job = job_row()
    event = NewEvent("job.submitted", job.id, job.tenant)
    await store.submit(Submission((job,), {"id": job.id}, (event,)))
    return job.id


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@asynchronous
async def test_another_server_plans_within_ten_seconds_and_the_old_one_writes_nothing_more(
    postgres: Postgres, tmp_path: Path, number: signal.Signals
) -> None:
    address = postgres.fresh()
    async with Store.open(address) as store:
        secrets = await prepare(store, {"seoul": SPEC})
        async with (
            server(address, tmp_path / "a") as one,
            server(address, tmp_path / "b") as two,
        ):
            pid = await _until_led(store)
            leader, other = (one, two) if one.process.pid == pid else (two, one)
            async with _patient(other.port, secrets["seoul"]) as member:
                first = await _submit(store)
                await member.until(lambda me: [k for k in me.desired if k.job == first], 60)
                leader.signal(number)
                loop = asyncio.get_running_loop()
                began = loop.time()
                second = await _submit(store)
                await member.until(lambda me: [k for k in me.desired if k.job == second], 60)
                took = loop.time() - began
                assert took <= PROMISE_S, f"{took:.1f} s"
                assert await _until_led(store, but=pid) == other.process.pid
                if number is signal.SIGSTOP:
                    await _wake(store, leader)
                attempts = await _committed(store)
        # Decided once each, by the epoch that held then.
        assert [(each.job_id, each.attempt, each.epoch) for each in attempts][:2] == [
            (first, 1, 1),
            (second, 1, 2),
        ]


@asynccontextmanager
async def _patient(port: int, secret: str) -> AsyncIterator[FakeMember]:
    """A member whose server may not listen yet."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.1)
    async with member_of(port, secret) as member:
        yield member


async def _wake(store: Store, old: Process) -> None:
    """Let a stopped leader go on, and see it find out that it leads no more."""
    third = await _submit(store)
    async with asyncio.timeout(60):
        while not (await _state_of(store, third)):
            await asyncio.sleep(0.1)
        old.signal(signal.SIGCONT)
        while b"leads no more" not in old.log.read_bytes():
            await asyncio.sleep(0.1)
    async with store.reading() as tx:
        (attempt,) = await tx.attempts.of_job(third)
        assert attempt.epoch == 2
        events = await tx.events.since(0, 10_000)
    # Whoever woke up has written nothing: no attempt was reserved twice.
    reserved = [(e.subject, e.data["attempt"]) for e in events if e.kind == "attempt.reserved"]
    assert len(reserved) == len(set(reserved))


async def _committed(store: Store) -> tuple[Attempt, ...]:
    """All attempts, once their member has taken them."""
    async with asyncio.timeout(60):
        while True:
            async with store.reading() as tx:
                found = await tx.attempts.unfinished()
            if all(each.state is AttemptState.COMMITTED for each in found):
                return found
            await asyncio.sleep(0.1)


async def _state_of(store: Store, job: str) -> bool:
    async with store.reading() as tx:
        return bool(await tx.attempts.of_job(job))
