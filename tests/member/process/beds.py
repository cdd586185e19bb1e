"""A cluster of real processes in a folder, driven from tests."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.programs import Program
from dure.domain.fleet.protocol.desired import Desired
from dure.member.ports import Life, Loaded, Progressed, Seen, Sight, Start, Synced
from dure.member.process.carrier import ProcessCarrier
from dure.member.process.nodes import Nodes, read_nodes
from tests.member.core.factories import CLUSTER, a_job

LIMIT_S = 60.0
"""Generous: the machine may be slow and busy."""
NODES = """
nodes:
  - {name: a, group: gpu, profile: a100, devices: 4, cpu: 8, memory: 32GiB}
  - {name: b, group: gpu, profile: a100, devices: 4, cpu: 8, memory: 32GiB}
"""


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def shell(line: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", line)


def nodes_in(folder: Path, text: str = NODES) -> Nodes:
    file = folder / "nodes.yaml"
    file.write_text(text, encoding="utf-8")
    return read_nodes(file)


def start(name: str, command: tuple[str, ...], index: int = 0, **rest: object) -> Start:
    given: dict[str, Any] = {key: rest.pop(key) for key in ("port", "env") if key in rest}
    program = Program(command=command, grace_s=5.0, **given)
    base = rest.pop("desired", None) or a_job(name)
    assert isinstance(base, Desired)
    desired = replace(base, program=program)
    key = desired.key
    return Start(
        instance=InstanceId(key.job, key.attempt, index),
        desired=desired,
        placement=Placement(0, (index,)),
        node="a",
        devices=(index,),
        **rest,  # type: ignore[arg-type]
    )


class Eyes:
    """Follows what a carrier shows."""

    def __init__(self, carrier: ProcessCarrier) -> None:
        self.carrier = carrier
        self.sights: list[Sight] = []
        self.seen: dict[InstanceId, Seen] = {}
        self._new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def _follow(self) -> None:
        async for sight in self.carrier.watch():
            self.sights.append(sight)
            if isinstance(sight, Seen):
                self.seen[sight.instance] = sight
            self._new.set()

    def heard(self) -> set[Sight]:
        """What programs said of themselves."""
        return {each for each in self.sights if isinstance(each, Progressed | Loaded)}

    async def until(self, what: str, check: Callable[[], bool]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S):
                while not check():
                    assert self._task is not None
                    if self._task.done():
                        self._task.result()
                    self._new.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await self._new.wait()
                return
        raise AssertionError(f"{what} did not happen; seen: {self.seen}")

    async def until_life(self, instance: InstanceId, life: Life) -> Seen:
        def check() -> bool:
            return instance in self.seen and self.seen[instance].life is life

        await self.until(f"{instance} to be {life}", check)
        return self.seen[instance]

    async def begin(self) -> None:
        self._task = asyncio.create_task(self._follow())
        await self.until("a first look", lambda: Synced() in self.sights)

    async def end(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.carrier.close()


@contextlib.asynccontextmanager
async def eyes_on(folder: Path) -> AsyncIterator[Eyes]:
    """A carrier over a folder; ending it is a member's death: programs run on."""
    eyes = Eyes(ProcessCarrier(CLUSTER, nodes_in(folder), folder / "state"))
    await eyes.begin()
    try:
        yield eyes
    finally:
        await eyes.end()


def end_all(folder: Path) -> None:
    """Kill what a failed test has left behind."""
    for begun in (folder / "state" / "instances").glob("*/begun"):
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(begun.read_text().partition(" ")[0]), signal.SIGKILL)
