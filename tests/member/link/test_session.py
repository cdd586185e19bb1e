"""A member of real processes on a link to a centre over real gRPC."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.protocol.link import Goodbye, LogCancel, LogRequest
from dure.domain.fleet.protocol.reports import Outcome, RunPhase
from dure.member.link.servers import Server, Trust, server_of
from dure.member.link.session import Centre as CentreAddress
from dure.member.main import serve
from dure.member.options import MemberOptions, ProcessOptions
from tests.member.core.factories import CLUSTER, a_job, released
from tests.member.link.centres import Centre, centre
from tests.member.process.beds import NODES, shell


@contextlib.asynccontextmanager
async def member(folder: Path, *ports: int) -> AsyncIterator[None]:
    """A member, until it dies; its programs run on."""
    nodes = folder / "nodes.yaml"
    nodes.write_text(NODES, encoding="utf-8")
    token = folder / "token"
    token.write_text("secret\n", encoding="utf-8")
    servers = [Server("127.0.0.1", port, secure=False) for port in ports]
    options = MemberOptions(
        CLUSTER, CentreAddress(servers, "", token), ProcessOptions(nodes, folder / "state")
    )
    task = asyncio.create_task(serve(options))
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def runs(name: str, line: str, **rest: object) -> Desired:
    return replace(a_job(name, **rest), program=Program(command=shell(line), grace_s=2.0))  # type: ignore[arg-type]


def is_over(made: Centre, name: str, outcome: Outcome) -> bool:
    status = made.status(name)
    return status is not None and status.outcome is outcome


def is_running(made: Centre, name: str) -> bool:
    status = made.status(name)
    return status is not None and status.phase is RunPhase.RUNNING


def test_plans_become_programs_and_their_ends_become_reports(folder: Path) -> None:
    async def scenario() -> None:
        async with centre() as made, member(folder, made.port):
            good, bad = runs("good", "echo hi"), runs("bad", "exit 4")
            gang, long = runs("gang", "sleep 0.1", workers=3), runs("long", "sleep 600")
            await made.until("a link", lambda: made.reports)
            assert made.tokens[0] == "Bearer secret"
            assert made.reports[0].whole
            assert made.reports[0].inventory is not None
            await made.want(good, bad, gang, long)
            for name, outcome in (
                ("good", Outcome.SUCCEEDED),
                ("bad", Outcome.FAILED),
                ("gang", Outcome.SUCCEEDED),
            ):
                await made.until(f"{name} to end", partial(is_over, made, name, outcome))
            assert {key.job for key in made.answers[-1].accepted} == {"good", "bad", "gang", "long"}
            await made.until("long to run", lambda: is_running(made, "long"))
            await made.want(good, bad, gang, released(long))
            await made.until("a stop", lambda: is_over(made, "long", Outcome.STOPPED))
            await made.want()
            await made.until("all to be forgotten", lambda: not left(folder))

    asyncio.run(scenario())


def left(folder: Path) -> list[Path]:
    return list((folder / "state" / "instances").iterdir())


def test_programs_run_on_without_member_and_centre_and_nothing_is_lost_or_doubled(
    folder: Path,
) -> None:
    mark = folder / "mark"
    wait = f"echo x >> {mark}; while ! test -e {folder}/go; do sleep 0.05; done"

    async def scenario() -> None:
        made = Centre()
        await made.start()
        port = made.port
        long, short = runs("long", wait), runs("short", f"{wait}; exit 5")
        async with member(folder, port):
            await made.until("a link", lambda: made.reports)
            await made.want(long, short)
            await made.until("both to run", lambda: is_running(made, "long"))
            await made.until("both to run", lambda: is_running(made, "short"))
            await made.stop()
            await asyncio.sleep(0.5)
        (folder / "go").touch()
        await asyncio.sleep(0.5)
        again = Centre()
        again.plan, again.revision = made.plan, made.revision
        await again.start(port)
        async with member(folder, port):
            await again.until("an end", lambda: is_over(again, "long", Outcome.SUCCEEDED))
            await again.until("an end", lambda: is_over(again, "short", Outcome.FAILED))
        await again.stop()
        assert again.hellos[0].revision == made.revision
        assert mark.read_text() == "x\nx\n"

    asyncio.run(scenario())


def test_reports_go_on_after_the_last_stored_one(folder: Path) -> None:
    async def scenario() -> None:
        async with centre() as made, member(folder, made.port):
            await made.until("a link", lambda: made.reports)
            made.deaf_after = len(made.reports)
            await made.want(runs("a", "true"), runs("b", "true"))
            await made.until("another link", lambda: len(made.hellos) > 1)
            await made.until("a to end", lambda: is_over(made, "a", Outcome.SUCCEEDED))
            await made.until("b to end", lambda: is_over(made, "b", Outcome.SUCCEEDED))
            assert made.hellos[0].incarnation == made.hellos[-1].incarnation
            assert [each.seq for each in made.reports] == list(range(1, len(made.reports) + 1))
            assert sum(each.whole for each in made.reports) == 1

    asyncio.run(scenario())


def test_a_server_that_is_silent_or_sends_the_member_away_is_left_for_another(
    folder: Path,
) -> None:
    async def scenario() -> None:
        async with (
            centre(silence_s=1.0) as silent,
            centre(silence_s=600.0) as other,
            member(folder, silent.port, other.port),
        ):
            await other.until("the other", lambda: other.hellos)
            await other.say(Goodbye("maintenance"))
            seen = len(silent.hellos)
            await silent.until("the first", lambda: len(silent.hellos) > seen)
            seen = len(other.hellos)
            await other.until("the other again", lambda: len(other.hellos) > seen)

    asyncio.run(scenario())


def test_logs_are_sent_to_several_readers_until_they_stop(folder: Path) -> None:
    line = "echo one; echo two; while :; do echo more; sleep 0.05; done"

    async def scenario() -> None:
        async with centre() as made, member(folder, made.port):
            each = runs("a", line)
            await made.want(each)
            await made.until("it to run", lambda: is_running(made, "a"))
            await made.say(LogRequest(1, each.key, 0, follow=True))
            await made.say(LogRequest(2, each.key, 0, follow=False, tail=1))
            await made.say(LogRequest(3, each.key, 7))

            def of(number: int) -> bytes:
                return b"".join(chunk.data for chunk in made.chunks if chunk.id == number)

            await made.until("more", lambda: of(1).count(b"more") > 5)
            assert of(1).startswith(b"one\ntwo\n")
            await made.until("a tail", lambda: any(c.id == 2 and c.end for c in made.chunks))
            assert of(2).count(b"\n") <= 3
            await made.until("no", lambda: any(c.id == 3 and c.error for c in made.chunks))
            await made.say(LogCancel(1))
            await asyncio.sleep(0.5)
            before = len(made.chunks)
            await asyncio.sleep(0.3)
            assert len(made.chunks) == before
            await made.want()
            await made.until("its end", lambda: not left(folder))

    asyncio.run(scenario())


def test_what_the_centre_does_not_store_is_no_contact(folder: Path) -> None:
    async def scenario() -> None:
        async with centre(silence_s=600.0) as made, member(folder, made.port):
            each = runs("a", "sleep 600", fence_after_s=3.0)
            await made.until("a link", lambda: made.reports)
            await made.want(each)
            await made.until("it to run", lambda: is_running(made, "a"))
            await asyncio.sleep(4.0)
            assert is_running(made, "a")
            made.acks = False
            await made.until("a fence", lambda: is_over(made, "a", Outcome.FENCED))

    asyncio.run(scenario())


def test_what_is_fenced_ends_also_where_the_member_is_dead(folder: Path) -> None:
    async def scenario() -> None:
        pid = folder / "pid"
        each = runs("a", f"echo $$ > {pid}; exec sleep 600", fence_after_s=6.0)
        async with centre() as made:
            async with member(folder, made.port):
                await made.until("a link", lambda: made.reports)
                await made.want(each)
                await made.until("it to run", lambda: is_running(made, "a"))
            process = Path(f"/proc/{pid.read_text().strip()}")
            assert process.exists()
            await made.until("its end", lambda: not process.exists())
            async with member(folder, made.port):
                await made.until("a fence", lambda: is_over(made, "a", Outcome.FENCED))

    asyncio.run(scenario())


def test_a_centre_whose_clock_is_ahead_has_nothing_fenced_by_that(folder: Path) -> None:
    marks = folder / "marks"

    async def scenario() -> None:
        each = runs("a", f"echo x >> {marks}; exec sleep 600", fence_after_s=20.0)
        made = Centre()
        await made.start()
        async with member(folder, made.port):
            await made.until("a link", lambda: made.reports)
            await made.want(each)
            await made.until("it to run", lambda: is_running(made, "a"))
            made.ahead_s = 3600.0
            await made.say(Goodbye("maintenance"))
            await made.until("another link", lambda: len(made.hellos) > 1)
            seen = len(made.reports)
            await made.until("reports", lambda: len(made.reports) > seen)
            await asyncio.sleep(1.5)
            assert is_running(made, "a")
            await asyncio.sleep(3.0)  # until the contact is remembered
        again = Centre()
        again.plan, again.revision = made.plan, made.revision
        await made.stop()
        await again.start(made.port)
        again.ahead_s = 3600.0
        async with member(folder, again.port):
            await again.until("it to be told", lambda: again.status("a"))
            await asyncio.sleep(1.5)
            assert is_running(again, "a")
            await again.want(released(each))
            await again.until("a stop", lambda: is_over(again, "a", Outcome.STOPPED))
        await again.stop()
        assert marks.read_text() == "x\n"

    asyncio.run(scenario())


def test_a_server_that_ends_every_link_at_once_is_asked_ever_less_often(folder: Path) -> None:
    async def scenario() -> None:
        async with centre() as made, member(folder, made.port):
            await made.until("a link", lambda: made.hellos)
            began = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() - began < 4.0:
                made.deaf_after = 0
                await asyncio.sleep(0.02)
            assert len(made.hellos) < 9  # 0.1 to 0.2 s, and twice as much each time

    asyncio.run(scenario())


def test_addresses_of_servers_are_checked() -> None:
    assert server_of("centre.example:443", Trust()).secure
    assert not server_of("http://127.0.0.1:8", Trust()).secure
    for wrong in ("centre.example", "ftp://a:1", "https://a:b"):
        with pytest.raises(InputError):
            server_of(wrong, Trust())
    with pytest.raises(InputError):
        server_of("a:1", Trust(ca=Path("/no/such")))
