import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa

from dure.stores import tables
from dure.stores.errors import ExpiredError
from dure.stores.ids import new_id
from dure.stores.retention import Retention
from dure.stores.rows import AuditEntry, IdempotencyKey, NewEvent
from dure.stores.store import Store
from tests.stores.helpers import asynchronous, opened


async def _happen(store: Store, *subjects: str, tenant: str | None = None) -> None:
    async with store.transaction() as tx:
        for subject in subjects:
            tx.events.add(NewEvent("job.changed", subject, tenant, {"of": subject}))


@asynchronous
async def test_events_are_numbered_without_gaps_and_only_of_what_was_stored(address: str) -> None:
    async with opened(address) as store:
        await _happen(store, "a", "b")

        async def fail() -> None:
            async with store.transaction() as tx:
                tx.events.add(NewEvent("job.changed", "never"))
                await tx.events.flush()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        await _happen(store, "c", tenant="acme")
        async with store.reading() as tx:
            assert [(e.seq, e.subject) for e in await tx.events.since(0)] == [
                (1, "a"),
                (2, "b"),
                (3, "c"),
            ]
            assert [e.seq for e in await tx.events.since(1, limit=1)] == [2]
            assert [e.data for e in await tx.events.since(0, tenant="acme")] == [{"of": "c"}]
            assert [e.seq for e in await tx.events.since(0, subject="b")] == [2]
            assert await tx.events.last() == 3


@asynchronous
async def test_who_follows_misses_nothing_while_many_write(address: str) -> None:
    writers, each = 8, 25
    async with opened(address) as store:

        async def write(writer: int) -> None:
            for number in range(each):
                async with store.transaction() as tx:
                    tx.events.add(NewEvent("job.changed", f"{writer}-{number}"))
                    await asyncio.sleep(0.001 * (number % 3))

        async def follow() -> list[int]:
            seen = [0]
            while len(seen) <= writers * each:
                async with store.reading() as tx:
                    seen += [event.seq for event in await tx.events.since(seen[-1], limit=10)]
            return seen

        seen, *_ = await asyncio.gather(follow(), *(write(writer) for writer in range(writers)))
        assert seen == list(range(writers * each + 1))


@asynchronous
async def test_the_outbox_holds_what_the_bus_was_not_told(address: str) -> None:
    async with opened(address) as store:
        await _happen(store, "a", "b", "c")
        async with store.transaction() as tx:
            first, second, _ = await tx.events.unpublished()
            await tx.events.mark_published(second.seq)
            await tx.events.mark_published(first.seq)
        async with store.reading() as tx:
            assert [event.subject for event in await tx.events.unpublished()] == ["c"]


@asynchronous
async def test_old_history_is_pruned_in_batches_and_followers_are_told(address: str) -> None:
    async with opened(address) as store:
        await _happen(store, *(str(number) for number in range(10)))
        async with store.transaction() as tx:
            for number in range(7):
                entry = AuditEntry(new_id(), tx.now_ns, "me", "submit", str(number), "done")
                await tx.audit.add(entry)
                await tx.keys.claim(IdempotencyKey("acme", f"k{number}", "h", {}))
            await tx.events.mark_published(8)
            young = tables.events.update().where(tables.events.c.seq >= 6)
            for table, column in (
                (tables.events, "at_ns"),
                (tables.audit, "at_ns"),
                (tables.idempotency_keys, "created_ns"),
            ):
                await tx.link.execute(table.update().values({column: 1}), "age")
            await tx.link.execute(young.values(at_ns=tx.now_ns), "age")
        kept = await store.prune(Retention(None, None, None), batch=2)
        assert (kept.events, kept.audit, kept.keys) == (0, 0, 0)
        gone = await store.prune(Retention(60.0, 60.0, 60.0), batch=2)
        assert (gone.events, gone.audit, gone.keys) == (5, 7, 7)
        async with store.reading() as tx:
            assert [event.seq for event in await tx.events.since(5)] == [6, 7, 8, 9, 10]
            with pytest.raises(ExpiredError, match="up to 5 were pruned"):
                await tx.events.since(4)
        async with store.transaction() as tx:
            await tx.link.execute(tables.events.update().values(at_ns=1), "age")
        # Two were never told to the bus, so they stay.
        assert (await store.prune(Retention(60.0), batch=100)).events == 3
        await _happen(store, "next")
        async with store.reading() as tx:
            assert await tx.events.last() == 11
            count = sa.select(sa.func.count()).select_from(tables.events)
            assert (await tx.link.execute(count, "events")).scalar_one() == 3


@asynchronous
async def test_a_key_of_a_pruned_answer_is_new_again(address: str) -> None:
    key = IdempotencyKey("acme", "k", "h", {"id": 1})
    async with opened(address) as store:
        async with store.transaction() as tx:
            assert await tx.keys.claim(key) is None
            await tx.link.execute(tables.idempotency_keys.update().values(created_ns=1), "age")
        await store.prune(Retention(keys_s=1.0))
        async with store.transaction() as tx:
            assert await tx.keys.claim(replace(key, body_hash="other")) is None
