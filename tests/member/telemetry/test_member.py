"""What a member shows of its cluster and of itself, and the part of a job's trace it tells."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Plan
from dure.domain.metrics.catalogue import ALL
from dure.member.clock import FleetClock
from dure.member.core.desk import Desk
from dure.member.link.servers import Trust, server_of
from dure.member.link.session import Centre
from dure.member.main import serve
from dure.member.options import MemberOptions, ProcessOptions
from dure.member.process.carrier import ProcessCarrier
from dure.member.process.memory import FileMemory
from dure.member.runtime import Member
from dure.member.telemetry.readings import read_member
from tests.kube.ports import free_port
from tests.member.core.factories import CLUSTER, a_job, surroundings
from tests.member.process.beds import NODES, nodes_in

LIMIT_S = 60.0
KNOWN = {name for metric in ALL for name in metric.series}


def options(folder: Path, port: int) -> MemberOptions:
    nodes = folder / "nodes.yaml"
    nodes.write_text(NODES, encoding="utf-8")
    centre = Centre([server_of("http://127.0.0.1:1", Trust())], "secret")
    made = ProcessOptions(nodes, folder / "state")
    return MemberOptions(CLUSTER, centre, made, ("127.0.0.1", port))


async def until(holds: Any) -> Any:
    end = asyncio.get_running_loop().time() + LIMIT_S
    while not (found := await holds()):
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.05)
    return found


def test_a_member_without_a_centre_shows_its_cluster(tmp_path: Path) -> None:
    port = free_port()

    async def look() -> str:
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient() as http:
                text = (await http.get(f"http://127.0.0.1:{port}/metrics")).text
                return text if 'dure_member_synced{cluster="seoul"} 1.0' in text else ""
        return ""

    async def play() -> str:
        serving = asyncio.create_task(serve(options(tmp_path, port)))
        try:
            return str(await until(look))
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    text = asyncio.run(play())
    assert 'dure_member_acts{cluster="seoul"} 1.0' in text
    assert 'dure_member_instances{cluster="seoul",life="running"} 0.0' in text
    named = {line.partition("{")[0] for line in text.splitlines() if line.startswith("dure_")}
    assert named <= KNOWN
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/metrics")


def test_an_address_that_is_taken_is_refused_with_a_remedy(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="use another address"):
            asyncio.run(serve(options(tmp_path, port)))


def test_a_member_that_does_not_act_says_nothing_else() -> None:
    found = list(read_member(CLUSTER, None))
    assert [(each.metric.name, each.value) for each in found] == [("dure_member_acts", 0.0)]


class Noted:
    """A tracer that notes what it is told."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []

    def whole(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        raise AssertionError("the centre tells the whole")

    def part(self, thing: str, name: str, span: tuple[int, int], **about: str) -> None:
        assert span[0] <= span[1]
        assert about["dure.cluster"] == "seoul"
        self.parts.append((thing, name))

    def close(self) -> None:
        pass


def test_a_member_tells_its_part_of_a_jobs_way_by_the_jobs_id(tmp_path: Path) -> None:
    async def play() -> tuple[Noted, list[Any]]:
        noted = Noted()
        state = tmp_path / "state"
        state.mkdir()
        carrier = ProcessCarrier(CLUSTER, nodes_in(tmp_path), state)
        memory = FileMemory(state)
        member = Member(Desk(CLUSTER), carrier, memory, FleetClock(), None, noted)
        running = asyncio.create_task(member.run())
        try:
            await asyncio.wait_for(member.ready(), LIMIT_S)
            wanted = replace(a_job("one"), program=Program(command=("/bin/sleep", "1")))
            await member.plan(Plan(1, 1, desired=(wanted,), surroundings=surroundings()))

            async def started() -> bool:
                return ("one", "cluster.start") in noted.parts

            await until(started)
            return noted, list(read_member(CLUSTER, member))
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await carrier.close()
            memory.close()

    noted, found = asyncio.run(play())
    assert noted.parts[0] == ("one", "cluster.plan")
    values = {(each.metric.name, *each.labels[1:]): each.value for each in found}
    assert values["dure_member_attempts",] == 1.0
