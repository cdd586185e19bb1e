"""The door for members: who may come in, and what is refused without harm to others."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import grpc
import pytest

from dure.domain.fleet.accounts import Role
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.link import Hello
from dure.domain.fleet.protocol.reports import Outcome, Report, RunPhase
from dure.domain.ids import ClusterId, WorkloadId
from dure.server.links.service import SERVICE
from dure.server.ports import NotLinkedHere
from dure.stores.errors import StoreUnavailableError
from dure.stores.repos.access import Grant
from dure.wire.codec import from_member
from dure.wire.parts import MOST_MESSAGE_BYTES
from tests.server.centres import QUICK, world
from tests.server.members import linked, used
from tests.stores.helpers import asynchronous

_HELLO = from_member(Hello(ClusterId("seoul"), "process", "raw", "test")).SerializeToString()


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'state.db'}"


async def _say(port: int, secret: str, *frames: bytes) -> grpc.aio.AioRpcError:
    """Send bytes as a member would, and tell how the centre ended the call."""

    async def words() -> AsyncIterator[bytes]:
        for frame in frames:
            yield frame
        await asyncio.sleep(60)

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream(f"/{SERVICE}/Link")(
            words(), metadata=(("authorization", f"Bearer {secret}"),)
        )
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            async for _ in call:
                pass
        return ended.value


@asynchronous
async def test_only_the_token_of_a_cluster_s_own_member_opens_a_link(tmp_path: Path) -> None:
    async with world(_sqlite(tmp_path), "seoul", "busan") as centre:
        async with centre.store.transaction() as tx:
            _, admin = await tx.tokens.issue(Grant(Role.ADMIN))
            revoked, gone = await tx.tokens.issue(Grant(Role.MEMBER, cluster="seoul"))
            await tx.tokens.revoke(revoked.id)
        for secret in ("", "nonsense", admin, gone):
            refused = await _say(centre.port, secret, _HELLO)
            assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "authorization: Bearer" in str(refused.details())
        wrong = await _say(centre.port, centre.secrets["busan"], _HELLO)
        assert wrong.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "this token is of cluster busan, not of seoul" in str(wrong.details())


@asynchronous
async def test_while_the_database_is_away_no_token_counts_as_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(_sqlite(tmp_path)) as centre:

        def away() -> NoReturn:
            raise StoreUnavailableError("the database does not answer", "try again")

        with monkeypatch.context() as cut:
            cut.setattr(centre.store, "reading", away)
            refused = await _say(centre.port, centre.secrets["seoul"], _HELLO)
        assert refused.code() is grpc.StatusCode.UNAVAILABLE


@asynchronous
async def test_frames_that_make_no_sense_are_refused_with_a_reason_and_harm_nobody(
    tmp_path: Path,
) -> None:
    chance = random.Random(6)
    async with (
        world(_sqlite(tmp_path), "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["busan"], "busan") as other,
    ):
        await other.join()
        report = from_member(Report(1, 1, True)).SerializeToString()
        frames: list[list[bytes]] = [
            [b"\xff" * 40],
            [b""],
            [report],
            [_HELLO, b"\x0a\xff\xff"],
            [_HELLO, _HELLO[:-3]],
            [_HELLO, b""],
        ]
        frames += [[_HELLO, chance.randbytes(chance.randrange(1, 400))] for _ in range(20)]
        for frame in frames:
            refused = await _say(centre.port, centre.secrets["seoul"], *frame)
            assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT, (frame, refused)
            assert refused.details()
        large = await _say(
            centre.port, centre.secrets["seoul"], _HELLO, bytes(MOST_MESSAGE_BYTES + 1)
        )
        assert large.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        job = await centre.submit()
        key = (await other.wanted()).key
        await other.ended(key, Outcome.SUCCEEDED)
        await centre.phase(job, JobPhase.SUCCEEDED)


@asynchronous
async def test_a_link_ends_when_its_member_is_silent(tmp_path: Path) -> None:
    settings = replace(QUICK, silence_s=0.5)
    async with world(_sqlite(tmp_path), settings=settings) as centre:

        async def silent() -> AsyncIterator[bytes]:
            yield _HELLO
            await asyncio.sleep(60)

        async with grpc.aio.insecure_channel(f"127.0.0.1:{centre.port}") as channel:
            call = channel.stream_stream(f"/{SERVICE}/Link")(
                silent(), metadata=(("authorization", f"Bearer {centre.secrets['seoul']}"),)
            )
            words = [word async for word in call]
        assert b"said nothing for 0.5 s" in words[-1]

        async def unlinked() -> bool:
            async with centre.store.reading() as tx:
                return (await tx.clusters.get("seoul")).linked_url == ""

        await centre.until(unlinked, "no link")


@asynchronous
async def test_what_an_older_link_brings_is_refused(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as old,
    ):
        await old.join()
        await centre.submit()
        key = (await old.wanted()).key
        async with linked(centre.port, centre.secrets["seoul"], "seoul", incarnation="two") as new:
            await new.wanted()
            # The centre may have ended the old link by itself before this is said.
            with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
                await old.status(key, RunPhase.RUNNING, usage=(used(key, 1.0),))
            code, why = await old.refusal()
            assert code is grpc.StatusCode.ABORTED
            assert "its member said hello again" in why
            async with centre.store.reading() as tx:
                assert await tx.charges.all() == ()
            # The newer one counts its reports from the start.
            assert new.welcome is not None
            assert new.welcome.heard == 0
            await new.ended(key, Outcome.SUCCEEDED)
            await centre.phase(key.job, JobPhase.SUCCEEDED)


@asynchronous
async def test_a_member_goes_on_counting_where_its_reports_were_stored(tmp_path: Path) -> None:
    async with world(_sqlite(tmp_path)) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            await member.join()
            await member.until(lambda me: me.acked == 1)
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            assert member.welcome is not None
            assert member.welcome.heard == 1
            member.seq = 7
            await member.report()
            code, why = await member.refusal()
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "report 8 of cluster seoul came after 1" in why


@asynchronous
async def test_a_cluster_that_nobody_registered_is_told_so(tmp_path: Path) -> None:
    async with world(_sqlite(tmp_path)) as centre:
        async with centre.store.transaction() as tx:
            _, secret = await tx.tokens.issue(Grant(Role.MEMBER, cluster="jeju"))
        async with linked(centre.port, secret, "jeju") as member:
            assert member.goodbye is not None
            assert member.goodbye.why == "there is no cluster jeju: register it first"
            assert not member.goodbye.retry_elsewhere
        async with linked(
            centre.port, centre.secrets["seoul"], "seoul", kind="kubernetes"
        ) as member:
            assert member.goodbye is not None
            assert "is of kind process, not kubernetes" in member.goodbye.why


@asynchronous
async def test_logs_of_a_cluster_without_a_link_here_name_who_has_it(tmp_path: Path) -> None:
    async with world(_sqlite(tmp_path)) as centre:
        async with centre.store.transaction() as tx:
            await tx.clusters.linked("seoul", "one", "https://other:7600")
        key = AttemptKey(WorkloadId("j"), 1)
        source = centre.core.services.logs
        with pytest.raises(NotLinkedHere) as told:
            async for _ in source.logs(ClusterId("seoul"), key, 0, follow=False, tail=None):
                pass
        assert told.value.url == "https://other:7600"


@asynchronous
async def test_a_member_that_does_not_take_a_plan_gets_the_whole_set_but_not_at_once(
    tmp_path: Path,
) -> None:
    settings = replace(QUICK, poll_s=0.3)
    async with (
        world(_sqlite(tmp_path), settings=settings) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await member.until(lambda me: me.known[0] > 0)
        # As if it had heard of a later leader.
        member.known = (99, 1)
        seen = len(member.plans)
        await centre.submit()
        # What was on its way when the member objected may still be a difference.
        await member.until(
            lambda me: [plan.base for plan in me.plans[seen:][-3:]] == [None, None, None]
        )
        await asyncio.sleep(1.0)
        assert len(member.plans) < seen + 15
