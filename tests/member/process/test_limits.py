"""Programs are held to their memory where the kernel lets us, and to a bounded output always."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.workloads import Demand
from dure.domain.units import MIB
from dure.member.ports import InventoryChanged, Life
from dure.member.process import folders
from dure.member.process.limits import NO_LIMITS, Limits, Place, find_limits
from tests.member.core.factories import a_job
from tests.member.process.beds import eyes_on, python, shell, start
from tests.member.process.test_carrier import logs

HERE = find_limits()


def needing(memory_bytes: int) -> Desired:
    each = a_job("greedy")
    workload = each.order.workload
    demand = replace(workload.demand, host_memory_bytes=memory_bytes)
    return replace(each, order=replace(each.order, workload=replace(workload, demand=demand)))


def test_an_inventory_says_what_is_limited(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            (told,) = [each for each in eyes.sights if isinstance(each, InventoryChanged)]
            assert told.inventory.features == HERE.features | {"logs"}

    asyncio.run(scenario())


@pytest.mark.skipif(
    "memory" not in HERE.places, reason="this user may make no control groups of memory"
)
def test_a_program_that_takes_more_memory_than_it_asked_for_is_ended(folder: Path) -> None:
    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            greedy = start(
                "greedy",
                python(f"kept = bytearray({256 * MIB}); print('not reached')"),
                desired=needing(64 * MIB),
            )
            await eyes.carrier.start([greedy])
            ended = await eyes.until_life(greedy.instance, Life.FAILED)
            assert ended.exit_code == 137
            assert "not reached" not in await logs(eyes, greedy)
            group = HERE.places["memory"].folder / "dure-greedy.1.0"
            await eyes.carrier.forget(greedy.instance)
            assert not group.exists()

    asyncio.run(scenario())


def test_without_groups_nothing_is_limited_and_that_is_said(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/x\n0::/\n", encoding="utf-8")
    found = find_limits(tmp_path / "nowhere", own)
    assert found.features == {NO_LIMITS}
    assert found.groups("a", Demand(1, host_memory_bytes=MIB, cpu_milli=500)) == {}


def test_groups_of_version_2_take_memory_and_a_weight(tmp_path: Path) -> None:
    places = {
        "memory": Place(tmp_path, "memory.max"),
        "cpu": Place(tmp_path, "cpu.weight"),
    }
    made = Limits(places).groups("a", Demand(1, host_memory_bytes=MIB, cpu_milli=1000))
    assert made == {str(tmp_path / "dure-a"): {"memory.max": str(MIB), "cpu.weight": "39"}}


def test_of_too_much_output_the_end_is_kept_and_the_loss_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most_bytes = 256 * 1024
    monkeypatch.setattr(folders, "MOST_OUTPUT_BYTES", most_bytes)
    lines = 40_000

    async def scenario() -> None:
        async with eyes_on(folder) as eyes:
            code = f"for i in range({lines}): print('line', i, 'x' * 40)"
            wordy = start("wordy", shell(f'python3 -c "{code}"; sleep 1'))
            await eyes.carrier.start([wordy])
            await eyes.until_life(wordy.instance, Life.SUCCEEDED)
            (file,) = folder.rglob("output.log")
            assert file.stat().st_blocks * 512 <= most_bytes
            said = (await logs(eyes, wordy)).splitlines()
            assert "bytes were too much to keep" in said[0]
            assert said[1].startswith("line ")
            assert said[-1].startswith(f"line {lines - 1} ")
            numbers = [int(line.split()[1]) for line in said[1:]]
            assert numbers == list(range(numbers[0], lines))
            assert len(numbers) > 1000
            tail = (await logs(eyes, wordy, tail=2)).splitlines()
            assert tail == said[-2:]
            assert (await logs(eyes, wordy, tail=lines)).splitlines() == said[1:]

    asyncio.run(scenario())
