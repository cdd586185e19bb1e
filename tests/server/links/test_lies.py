"""A member that lies, or is broken: it harms its own cluster at most, and people are told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Site
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey, PlanAnswer
from dure.domain.fleet.protocol.reports import (
    AttemptStatus,
    Inventory,
    Outcome,
    Report,
    RunPhase,
    ServiceLoad,
    Usage,
)
from dure.domain.ids import ClusterId, WorkloadId
from dure.server.links.claims import MOST_GROUPS, MOST_WARNINGS, credible
from dure.stores.rows import Attempt, Event
from tests.server.centres import World, world
from tests.server.members import PROFILE, FakeMember, group, linked, summary
from tests.stores.helpers import asynchronous

MOST = 2**63 - 1
GPUS = group()


def inventory(*groups: NodeGroup) -> Inventory:
    return Inventory(tuple(groups), (), frozenset())


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "an accelerator that nobody knows": (
        {"inventory": inventory(replace(GPUS, profile="perpetuum"))},
        "is of perpetuum, which is no accelerator known here",
    ),
    "nodes without end": (
        {"inventory": inventory(NodeGroup("gpus", 1_000_000, PROFILE, 1024, MOST, MOST, MOST))},
        "group gpus has more than any node could",
    ),
    "power without end": (
        {"inventory": inventory(replace(GPUS, base_power_w=1e308))},
        "group gpus has more than any node could",
    ),
    "a group twice": ({"inventory": inventory(GPUS, GPUS)}, "group gpus is there twice"),
    "groups without end": (
        {"inventory": inventory(*(replace(GPUS, name=f"g{n}") for n in range(3000)))},
        f"is one more than {MOST_GROUPS}",
    ),
    "room without end": (
        {"sites": (replace(summary("seoul", 32), free_devices=MOST, free_compute_milli=MOST),)},
        "seoul/gpus has more than any group of nodes could",
    ),
    "another cluster's room": (
        {"sites": (summary("busan", 0),)},
        "busan/gpus is of another cluster",
    ),
    "warnings without end": ({"warnings": ("alas",) * 5000}, "warnings more in one report"),
}


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'state.db'}"


async def _warnings(centre: World) -> list[str]:
    async with centre.store.reading() as tx:
        events: tuple[Event, ...] = await tx.events.since(0, 10_000)
    return [each.data["what"] for each in events if each.kind == "warning"]


async def _heard(member: FakeMember) -> None:
    """Wait until the centre has taken in all that was said."""
    await member.until(lambda me: me.acked == me.seq)


@asynchronous
async def test_what_cannot_be_is_left_out_told_and_keeps_nobody_from_planning(
    tmp_path: Path,
) -> None:
    async with (
        world(_sqlite(tmp_path), "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["busan"], "busan") as honest,
        linked(centre.port, centre.secrets["seoul"], "seoul") as liar,
    ):
        await honest.join()
        await liar.join()
        for name, (lie, told) in LIES.items():
            await liar.report(**lie)
            await _heard(liar)
            assert any(told in each for each in await _warnings(centre)), name
            job = await centre.submit(clusters=["busan"])
            desired = await honest.wanted()
            await honest.ended(desired.key, Outcome.SUCCEEDED)
            await centre.phase(job, JobPhase.SUCCEEDED)
            await honest.until(lambda me: not me.desired)
        assert len(await _warnings(centre)) <= len(LIES) * (MOST_WARNINGS + 1)


@asynchronous
async def test_nothing_that_a_member_says_of_another_cluster_s_job_changes_it(
    tmp_path: Path,
) -> None:
    async with (
        world(_sqlite(tmp_path), "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["busan"], "busan") as honest,
        linked(centre.port, centre.secrets["seoul"], "seoul") as liar,
    ):
        await honest.join()
        await liar.join()
        job = await centre.submit(clusters=["busan"])
        key = (await honest.wanted()).key
        await honest.status(key, RunPhase.RUNNING)
        await centre.phase(job, JobPhase.RUNNING)
        await _heard(honest)
        before = await centre.job(job), await centre.attempts(job)
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
            await liar.ended(key, outcome)
        # Made up: an attempt to come, a job that is none.
        await liar.ended(AttemptKey(WorkloadId(job), key.attempt + 1), Outcome.SUCCEEDED)
        await liar.ended(AttemptKey(WorkloadId("nobody"), 1), Outcome.SUCCEEDED)
        await liar.report(
            usage=(Usage(key, MOST, 0, MOST, MOST, 1e300),),
            loads=(ServiceLoad(key.job, 1e300, 1000, 1.0),),
        )
        await _heard(liar)
        assert (await centre.job(job), await centre.attempts(job)) == before
        async with centre.store.reading() as tx:
            charges, meters = await tx.charges.all(), await tx.meters.all()
            reported = [each for each in await tx.events.since(0, 10_000) if "loads" in each.data]
        assert (charges, meters) == ((), ())
        assert not any(each.data["loads"] or each.data["usage"] for each in reported)
        await honest.ended(key, Outcome.SUCCEEDED)
        await centre.phase(job, JobPhase.SUCCEEDED)


@asynchronous
async def test_of_what_it_was_not_sent_a_member_has_nothing_to_say(tmp_path: Path) -> None:
    async with (
        world(_sqlite(tmp_path), "seoul", "busan") as centre,
        linked(centre.port, centre.secrets["busan"], "busan") as first,
        linked(centre.port, centre.secrets["seoul"], "seoul") as liar,
    ):
        await first.join()
        await liar.join()
        job = await centre.submit(clusters=["busan"])
        key = (await first.wanted()).key
        await first.status(key, RunPhase.RUNNING)
        await centre.phase(job, JobPhase.RUNNING)
        moved = Attempt(job, key.attempt + 1, "seoul", 1, 0)
        async with centre.store.transaction() as tx:
            await tx.attempts.add_all([moved])
        early = AttemptKey(WorkloadId(job), moved.attempt)
        await liar.ended(early, Outcome.SUCCEEDED)
        await liar.say(PlanAnswer(*liar.known, True, accepted=(early,)))
        await liar.report()
        await _heard(liar)
        assert (await centre.job(job)).phase is JobPhase.RUNNING
        states = {each.attempt: each.state for each in await centre.attempts(job)}
        assert states == {
            key.attempt: AttemptState.RUNNING,
            moved.attempt: AttemptState.RESERVED,
        }


@asynchronous
async def test_a_use_that_cannot_be_is_not_charged(tmp_path: Path) -> None:
    async with (
        world(_sqlite(tmp_path)) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await centre.submit()
        key = (await member.wanted()).key
        await member.status(key, RunPhase.RUNNING, usage=(Usage(key, MOST, 0, MOST, MOST, 1e300),))
        await _heard(member)
        async with centre.store.reading() as tx:
            charges = await tx.charges.all()
        device_s = sum(each.device_us for each in charges) / 1e6
        assert 0 < device_s < 2 * 3600 * GPUS.count * GPUS.devices
        earliest_ns = (await centre.attempts(key.job))[0].reserved_ns - 3600 * 10**9
        assert all(each.from_ns >= earliest_ns for each in charges)


@asynchronous
async def test_an_answer_to_a_plan_that_nobody_made_is_refused_and_spoils_nothing(
    tmp_path: Path,
) -> None:
    async with world(_sqlite(tmp_path)) as centre:
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as liar:
            await liar.join()
            await liar.say(PlanAnswer(MOST, MOST, True))
            code, why = await liar.refusal()
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert "which nobody made" in why
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            await member.join()
            job = await centre.submit()
            await member.ended((await member.wanted()).key, Outcome.SUCCEEDED)
            await centre.phase(job, JobPhase.SUCCEEDED)


def test_what_a_program_wrote_steers_no_terminal() -> None:
    key = AttemptKey(WorkloadId("job"), 1)
    words = "\x1b]0;title\x07\nline\u2028 two\x9b31m " + "x" * 5000
    status = AttemptStatus(key, RunPhase.GONE, Outcome.FAILED, words)
    (told,) = credible(Report(1, 1, False, attempts=(status,)), "seoul").attempts
    assert told.why.startswith("?]0;title? line two?31m xxx")
    assert len(told.why) == 1000


def test_an_honest_report_stays_as_it_is() -> None:
    report = Report(1, 1, True, sites=(summary("seoul", 3),), inventory=inventory(GPUS))
    assert credible(report, "seoul") == report
    other = replace(summary("seoul", 3), site=Site(ClusterId("busan"), "gpus"))
    assert credible(replace(report, sites=(other,)), "seoul").sites == ()
