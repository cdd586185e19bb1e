"""Programs as instances: they start, end, are stopped and found again; nothing runs twice."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.programs import Mount, Program, Thing
from dure.member.ports import InventoryChanged, Life, Loaded, Progressed, Start
from dure.member.process.carrier import ProcessCarrier
from tests.member.core.factories import CLUSTER, a_job, a_service
from tests.member.process.beds import LIMIT_S, Eyes, eyes_on, nodes_in, python, shell, start


async def collect(chunks: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        return b"".join([chunk async for chunk in chunks])


async def logs(eyes: Eyes, begun: Start, **rest: object) -> str:
    options = {"follow": False, "tail": None} | rest
    return (await collect(eyes.carrier.logs(begun.instance, **options))).decode()  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def until_dead(pid: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while alive(pid):
            await asyncio.sleep(0.05)


def test_a_program_runs_with_what_it_should_know_and_its_end_and_words_are_kept(
    folder: Path,
) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            line = "echo $DURE_JOB $DURE_ATTEMPT $DURE_RANK $DURE_WORLD_SIZE $DURE_CLUSTER $MINE"
            good = start("good", shell(line), env={"MINE": "x"})
            bad = start("bad", shell("echo oops >&2; exit 3"), index=1)
            await eyes.carrier.start([good])
            await eyes.carrier.start([bad])
            ended = await eyes.until_life(good.instance, Life.SUCCEEDED)
            assert (ended.exit_code, ended.node) == (0, "a")
            assert ended.started_ns is not None
            failed = await eyes.until_life(bad.instance, Life.FAILED)
            assert failed.exit_code == 3
            assert await logs(eyes, good) == f"good 1 0 1 {CLUSTER} x\n"
            assert await logs(eyes, bad) == "oops\n"
            await eyes.carrier.forget(good.instance)
            with pytest.raises(DureError):
                eyes.carrier.logs(good.instance, follow=False, tail=None)

    asyncio.run(scenario())


def test_what_is_started_twice_runs_once(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            mark = folder / "mark"
            each = start("a", shell(f"echo x >> {mark}; sleep 0.2"))
            await asyncio.gather(*(eyes.carrier.start([each]) for _ in range(3)))
            await eyes.until_life(each.instance, Life.SUCCEEDED)
            await eyes.carrier.start([each])
            await asyncio.sleep(0.5)
            assert mark.read_text() == "x\n"

    asyncio.run(scenario())


def test_a_program_outlives_its_member_and_is_found_again(folder: Path) -> None:
    runs = start("runs", shell("echo $$; exec sleep 600"))
    wait = f"while ! test -e {folder}/go; do sleep 0.05; done; exit 7"
    ends = start("ends", shell(wait), index=1)

    async def first() -> int:
        async with eyes_on(folder) as eyes:
            await eyes.carrier.start([runs])
            await eyes.carrier.start([ends])
            await eyes.until_life(runs.instance, Life.READY)
            await eyes.until_life(ends.instance, Life.READY)
            async with asyncio.timeout(LIMIT_S):
                while not (said := await logs(eyes, runs)):
                    await asyncio.sleep(0.05)
            return int(said)

    async def second(pid: int) -> None:
        async with eyes_on(folder) as eyes:
            seen = eyes.seen[runs.instance]
            assert (seen.life, seen.desired, seen.placement) == (
                Life.READY,
                runs.desired,
                runs.placement,
            )
            assert seen.devices == runs.devices
            ended = await eyes.until_life(ends.instance, Life.FAILED)
            assert ended.exit_code == 7
            await eyes.carrier.start([runs])
            assert alive(pid)
            await eyes.carrier.stop(runs.instance, 5.0)
            await eyes.until_life(runs.instance, Life.GONE)
            assert not alive(pid)

    pid = asyncio.run(first())
    assert alive(pid)
    (folder / "go").touch()
    asyncio.run(second(pid))
    assert list((folder / "state" / "instances").glob("runs*")) == []


def test_a_stop_is_gentle_first_and_hard_when_its_grace_is_over(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            mark = folder / "mark"
            line = f"trap 'echo bye > {mark}; exit 0' TERM; echo up; while :; do sleep 0.05; done"
            gentle = start("gentle", shell(line))
            deaf = start("deaf", shell("trap '' TERM; echo up; while :; do sleep 0.05; done"), 1)
            for each in (gentle, deaf):
                await eyes.carrier.start([each])
            for each in (gentle, deaf):
                async with asyncio.timeout(LIMIT_S):
                    while "up" not in await logs(eyes, each):
                        await asyncio.sleep(0.05)
                await eyes.carrier.stop(each.instance, 1.0)
            await eyes.until_life(gentle.instance, Life.GONE)
            assert mark.read_text() == "bye\n"
            await eyes.until_life(deaf.instance, Life.GONE)

    asyncio.run(scenario())


def test_nothing_is_left_of_a_program_that_is_over(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            line = "setsid sleep 600 & echo $!; sleep 600 & echo $!"
            each = start("a", shell(line))
            await eyes.carrier.start([each])
            await eyes.until_life(each.instance, Life.SUCCEEDED)
            for pid in (await logs(eyes, each)).split():
                assert not alive(int(pid))

    asyncio.run(scenario())


def test_what_is_stopped_before_it_began_never_runs(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            mark = folder / "mark"
            for index in range(4):
                each = start(f"j{index}", shell(f"sleep 0.3; echo x >> {mark}"), index)
                await eyes.carrier.start([each])
                await eyes.carrier.stop(each.instance, 5.0)
                await eyes.until_life(each.instance, Life.GONE)
            await asyncio.sleep(0.6)
            assert not mark.exists()

    asyncio.run(scenario())


def test_the_ranks_of_a_gang_start_only_when_all_are_there(folder: Path) -> None:
    gang = a_job("g", workers=2)
    line = "echo $DURE_RANK/$DURE_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"
    ranks = [start("g", shell(line), n, desired=gang, rank=n, world_size=2) for n in (0, 1)]

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            await eyes.carrier.start(ranks)
            for each in ranks:
                await eyes.until_life(each.instance, Life.SUCCEEDED)
            first, second = [await logs(eyes, each) for each in ranks]
            assert first.startswith("0/2 ")
            assert second.startswith("1/2 ")
            assert first.split()[1] == second.split()[1]

    asyncio.run(scenario())


def test_half_a_gang_never_runs(folder: Path) -> None:
    gang = a_job("g", workers=2)
    mark = folder / "mark"
    ranks = [
        start("g", shell(f"echo x >> {mark}"), n, desired=gang, rank=n, world_size=2)
        for n in (0, 1)
    ]

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            made = await asyncio.to_thread(eyes.carrier._start, ranks)
            await asyncio.to_thread(made[1].folder.ask_to_stop, 1.0)
            eyes.carrier._watched[ranks[0].instance] = made[0]
            await asyncio.sleep(1.0)
            assert not mark.exists()
            await eyes.carrier.stop(ranks[0].instance, 1.0)
            await eyes.until_life(ranks[0].instance, Life.GONE)
            assert not mark.exists()

    asyncio.run(scenario())


def test_a_killed_supervisor_takes_its_program_with_it_and_it_counts_as_lost(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            each = start("a", shell("sleep 600 & echo $!; wait"))
            await eyes.carrier.start([each])
            async with asyncio.timeout(LIMIT_S):
                while not (said := await logs(eyes, each)):
                    await asyncio.sleep(0.05)
            (begun,) = (folder / "state" / "instances").glob("*/begun")
            os.kill(int(begun.read_text().partition(" ")[0]), signal.SIGKILL)
            await eyes.until_life(each.instance, Life.GONE)
            await until_dead(int(said))

    asyncio.run(scenario())


def test_a_service_is_ready_when_somebody_can_connect(folder: Path) -> None:
    code = (
        "import os, socket, time; time.sleep(0.7);"
        "s = socket.create_server(('127.0.0.1', int(os.environ['DURE_PORT'])));"
        "time.sleep(600)"
    )

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            each = start("s", python(code), desired=a_service("s"), port=18080)
            other = start("s", python(code), 1, desired=a_service("s"), port=18080)
            await eyes.carrier.start([each])
            await eyes.until_life(each.instance, Life.RUNNING)
            await eyes.until_life(each.instance, Life.READY)
            await eyes.carrier.start([other])
            await eyes.until_life(other.instance, Life.READY)
            for one in (each, other):
                await eyes.carrier.stop(one.instance, 1.0)
                await eyes.until_life(one.instance, Life.GONE)

    asyncio.run(scenario())


def test_progress_and_load_are_seen(folder: Path) -> None:
    write = "echo '{}' > $DURE_PROGRESS_FILE; sleep 600"
    job_says = write.replace("{}", '{"done": 0.5, "saved": 0.25}')
    service_says = write.replace("{}", '{"requests_per_s": 3, "queue_length": 1, "latency_ms": 20}')

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            job = start("j", shell(job_says))
            service = start("s", shell(service_says), 1, desired=a_service("s"))
            for each in (job, service):
                await eyes.carrier.start([each])
            progress = Progressed(job.instance, 0.5, 0.25)
            load = Loaded(service.instance, 3.0, 1.0, 20.0)
            await eyes.until("both to be heard", lambda: {progress, load} <= eyes.heard())
            for each in (job, service):
                await eyes.carrier.stop(each.instance, 0.2)
                await eyes.until_life(each.instance, Life.GONE)

    asyncio.run(scenario())


def test_a_log_is_followed_to_its_end_and_its_tail_can_be_had_alone(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            each = start("a", shell("for i in 1 2 3 4 5 6; do echo line $i; sleep 0.1; done"))
            await eyes.carrier.start([each])
            followed = await logs(eyes, each, follow=True)
            assert followed == "".join(f"line {n}\n" for n in range(1, 7))
            assert await logs(eyes, each, tail=2) == "line 5\nline 6\n"
            assert await logs(eyes, each, tail=0) == ""
            assert await logs(eyes, each, tail=100) == followed

    asyncio.run(scenario())


def test_what_a_host_cannot_run_is_refused(tmp_path: Path) -> None:
    carrier = ProcessCarrier(CLUSTER, nodes_in(tmp_path), tmp_path)
    thing = Thing("secret", "s")
    programs = {
        "images": Program(image="busybox"),
        "no command": Program(),
        "secrets": Program(command=("true",), mounts=(Mount(thing, "/x"),)),
        "Pods": Program(command=("true",), pod={"x": 1}),
        "no program": Program(command=("no-such-program",)),
        "no folder": Program(command=("true",), working_dir="/no/such"),
        "": Program(command=("sh", "-c", "true")),
    }

    async def scenario() -> None:
        for words, program in programs.items():
            desired = start("a", ()).desired
            said = await carrier.refusal(type(desired)(desired.order, program, "ns"))
            assert (words in said) if words else not said

    asyncio.run(scenario())


def test_the_inventory_is_what_the_file_says(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            first = eyes.sights[0]
            assert isinstance(first, InventoryChanged)
            assert [node.name for node in first.inventory.nodes] == ["a", "b"]
            (group,) = first.inventory.groups
            assert (group.count, group.devices, group.cpu_milli) == (2, 4, 8000)

    asyncio.run(scenario())
