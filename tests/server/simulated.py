"""Clusters whose programs are timers, under the real member and its real link to a real server."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Partition
from dure.domain.ids import ClusterId
from dure.member.clock import FleetClock
from dure.member.core.desk import Desk
from dure.member.link.servers import Server
from dure.member.link.session import Centre, Session
from dure.member.ports import InventoryChanged, Life, Seen, Sight, Start, Synced
from dure.member.runtime import Member
from tests.server.members import inventory

Changed = asyncio.Queue[Sight]
NODES = 48
"""Of eight devices each."""


@dataclass
class TimedCluster:
    """Instances run as long as their command says, and end whether a member looks or not; the first
    run until the test says so."""

    name: str
    objects: dict[InstanceId, Seen] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    """What its members must not forget."""
    used_milli_ns: dict[AttemptKey, int] = field(default_factory=dict)
    """By its own stamps: thousandths of devices for nanoseconds, of what is over."""
    watchers: list[Changed] = field(default_factory=list)
    held: list[InstanceId] = field(default_factory=list)
    to_hold: int = 0

    def show(self, seen: Seen) -> None:
        self.objects[seen.instance] = seen
        for each in self.watchers:
            each.put_nowait(seen)

    def begin(self, start: Start) -> None:
        if start.instance in self.objects:
            return
        self.show(
            Seen(
                start.instance,
                Life.RUNNING,
                start.node,
                f"{start.instance.workload}-{start.instance.index}",
                placement=start.placement,
                desired=start.desired,
                started_ns=time.time_ns(),
                devices=start.devices,
            )
        )
        if self.to_hold:
            self.to_hold -= 1
            self.held.append(start.instance)
            return
        lasts_s = float(start.desired.program.command[-1])
        asyncio.get_running_loop().call_later(lasts_s, self.end, start.instance, Life.SUCCEEDED)

    def end_held(self, count: int) -> None:
        """Let some of those end that wait for it."""
        for _ in range(count):
            self.end(self.held.pop(), Life.SUCCEEDED)

    def end(self, instance: InstanceId, life: Life) -> None:
        seen = self.objects.get(instance)
        if seen is None or seen.life.over:
            return
        ended = replace(seen, life=life, ended_ns=time.time_ns())
        assert ended.placement is not None
        assert ended.started_ns is not None
        assert ended.ended_ns is not None
        milli = len(ended.devices or ()) * ended.placement.compute_milli
        key = AttemptKey(instance.workload, instance.attempt)
        used = milli * (ended.ended_ns - ended.started_ns)
        self.used_milli_ns[key] = self.used_milli_ns.get(key, 0) + used
        self.show(ended)


class TimedCarrier:
    """Hands and eyes of one member in such a cluster."""

    kind = "process"

    def __init__(self, cluster: TimedCluster) -> None:
        self._cluster = cluster

    async def watch(self) -> AsyncIterator[Sight]:
        changed = Changed()
        self._cluster.watchers.append(changed)
        try:
            yield InventoryChanged(inventory(NODES))
            for seen in list(self._cluster.objects.values()):
                yield seen
            yield Synced()
            while True:
                yield await changed.get()
        finally:
            self._cluster.watchers.remove(changed)

    async def refusal(self, desired: Desired) -> str:
        return ""

    async def start(self, starts: Sequence[Start]) -> None:
        for start in starts:
            self._cluster.begin(start)

    async def stop(self, instance: InstanceId, grace_s: float) -> None:
        self._cluster.end(instance, Life.GONE)
        self._cluster.objects.pop(instance, None)

    async def request(self, instance: InstanceId, number: int) -> None:
        """Nobody there saves anything."""

    async def forget(self, instance: InstanceId) -> None:
        self._cluster.objects.pop(instance, None)

    async def resize(self, instance: InstanceId, placement: Placement) -> None:
        raise AssertionError("no slice of it grows")

    async def repartition(self, partition: Partition) -> str:
        raise AssertionError("nobody asks for it")

    async def logs(
        self, instance: InstanceId, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        yield b""

    async def close(self) -> None:
        pass


class EntryMemory:
    """Keeps entries with their cluster, as JSON, as the real ones do."""

    def __init__(self, cluster: TimedCluster) -> None:
        self._entries = cluster.entries

    async def load(self) -> Mapping[str, Any]:
        return {name: json.loads(text) for name, text in self._entries.items()}

    async def save(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        self._entries |= {name: json.dumps(value) for name, value in changed.items()}
        for name in removed:
            self._entries.pop(name, None)


@asynccontextmanager
async def member_of(cluster: TimedCluster, port: int, secret: str) -> AsyncIterator[Member]:
    """A member, until it dies without a word; what runs in its cluster runs on."""
    desk, carrier = Desk(ClusterId(cluster.name)), TimedCarrier(cluster)
    member = Member(desk, carrier, EntryMemory(cluster), FleetClock())
    session = Session(member, Centre([Server("127.0.0.1", port, secure=False)], secret))
    tasks = [asyncio.create_task(member.run()), asyncio.create_task(session.run())]
    try:
        yield member
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
