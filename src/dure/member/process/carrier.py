"""Carries instances out as processes of this host, and finds them again after its own death."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired, Partition
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.ids import ClusterId
from dure.kit.files import FileProblem
from dure.member.ports import (
    Checkpointed,
    InventoryChanged,
    Life,
    Loaded,
    PartitionRefusedError,
    Progressed,
    Seen,
    Sight,
    Start,
    Synced,
)
from dure.member.process import commands, folders
from dure.member.process.agents import ensure_agents
from dure.member.process.folders import Facts, Folder
from dure.member.process.limits import Limits, find_limits
from dure.member.process.nodes import Nodes
from dure.member.process.output import read_output
from dure.member.process.resizing import resize

_log = logging.getLogger("dure.member.process")

_LOOK_S = 0.25
"""How often what cannot be waited for is looked at: beginnings, ports, progress."""
_CONNECT_S = 1.0
_SETTLED_LOOKS = 4
"""Looks after which an instance whose supervisor has not begun gets another."""


@dataclass(slots=True)
class _Watched:
    """An instance with a folder."""

    folder: Folder
    life: Life = Life.PENDING
    looks: int = 0
    progress_ns: int = -1
    """When its progress file was last changed."""
    checkpointed: int = 0
    """The last checkpoint that its program said to have saved."""
    handle: int | None = None
    """Becomes readable when its supervisor ends."""
    child: int | None = None
    """Its supervisor's process id, where this very process started it and has to bury it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ProcessCarrier:
    """A cluster of local processes."""

    kind = "process"

    def __init__(self, cluster: ClusterId, nodes: Nodes, state: Path) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._root = state / "instances"
        self._limits = Limits({})
        self._watched: dict[InstanceId, _Watched] = {}
        self._sights: asyncio.Queue[Sight] = asyncio.Queue()
        self._starting = asyncio.Lock()
        self._ending: set[int] = set()
        """Supervisors of instances that are gone, until they are buried."""

    # Eyes

    async def watch(self) -> AsyncIterator[Sight]:
        """All that is there, `Synced`, then every change."""
        await asyncio.to_thread(self._open)
        yield InventoryChanged(self._nodes.inventory(self._limits.features))
        for watched in list(self._watched.values()):
            async with watched.lock:
                await self._look(watched, tell=True)
        while not self._sights.empty():
            yield self._sights.get_nowait()
        yield Synced()
        looking = asyncio.create_task(self._look_on())
        try:
            while True:
                sight = asyncio.ensure_future(self._sights.get())
                done, _ = await asyncio.wait({sight, looking}, return_when=asyncio.FIRST_COMPLETED)
                if looking in done:
                    sight.cancel()
                    looking.result()
                yield await sight
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    def _open(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        ensure_agents(self._nodes)
        self._limits = find_limits()
        for folder in folders.found(self._root):
            self._watched.setdefault(folder.spec.instance, _Watched(folder))

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for watched in list(self._watched.values()):
                async with watched.lock:
                    await self._look(watched)
            self._ending = {pid for pid in self._ending if not _bury(pid)}

    async def _look(self, watched: _Watched, *, tell: bool = False) -> None:
        """See how an instance is, and tell it where that is new."""
        spec = watched.folder.spec
        if self._watched.get(spec.instance) is not watched or (watched.life.over and not tell):
            return
        facts = await asyncio.to_thread(watched.folder.facts)
        life = await self._life(watched, facts)
        if life is Life.GONE:
            await self._removed(watched)
            return
        if life is Life.PENDING:
            await self._help_along(watched, facts)
        elif not life.over:
            await self._progress(watched)
            await self._checkpoint(watched)
            self._wait_for_end(watched)
        if life.over and watched.child is not None:
            self._ending.add(watched.child)
            watched.child = None
        if life is Life.READY and watched.life is not Life.READY:
            await asyncio.to_thread(watched.folder.hurry)
        if life is not watched.life or tell:
            watched.life = life
            self._tell(watched, facts)

    async def _life(self, watched: _Watched, facts: Facts) -> Life:
        if facts.exit is not None:
            return _end_of(facts)
        if facts.begun and not facts.supervised:
            return await self._unsupervised(watched)
        if facts.stopping:
            return Life.ENDING
        if facts.running is None:
            return Life.PENDING
        spec = watched.folder.spec
        if spec.port is None or watched.life is Life.READY or await _answers(spec.port):
            return Life.READY
        return Life.RUNNING

    async def _unsupervised(self, watched: _Watched) -> Life:
        """Its supervisor is dead without a last word: the host went down, or somebody killed it."""
        folder = watched.folder
        facts = await asyncio.to_thread(folder.facts)
        if facts.exit is not None or facts.supervised:
            return watched.life
        await asyncio.to_thread(folder.kill_left_over)
        return Life.GONE

    async def _help_along(self, watched: _Watched, facts: Facts) -> None:
        """Open the barrier of a gang that is whole; start what a dead member did not get to."""
        spec = watched.folder.spec
        watched.looks += 1
        if not facts.begun:
            if watched.looks % _SETTLED_LOOKS == 0 and watched.child is None:
                watched.child = await asyncio.to_thread(watched.folder.spawn)
            return
        if len(spec.gang) > 1:
            await asyncio.to_thread(self._open_barrier, spec.instance, spec.gang)

    def _open_barrier(self, one: InstanceId, gang: Sequence[int]) -> None:
        names = [InstanceId(one.workload, one.attempt, index) for index in gang]
        ranks = [self._watched.get(name) for name in names]
        begun = [rank for rank in ranks if rank is not None and rank.folder.facts().begun]
        if len(begun) == len(gang):
            for rank in begun:
                rank.folder.let_go()

    async def _progress(self, watched: _Watched) -> None:
        """Read what the program says of itself, where that is new."""
        spec = watched.folder.spec
        try:
            changed_ns = watched.folder.progress.stat().st_mtime_ns
            if changed_ns == watched.progress_ns:
                return
            watched.progress_ns = changed_ns
            text = await asyncio.to_thread(watched.folder.progress.read_text)
            said: dict[str, Any] = json.loads(text)
            if spec.desired.order.workload.kind is WorkloadKind.SERVING:
                sight: Sight = Loaded(
                    spec.instance,
                    float(said["requests_per_s"]),
                    float(said["queue_length"]),
                    float(said["latency_ms"]),
                )
            else:
                done = min(max(float(said["done"]), 0.0), 1.0)
                saved = min(max(float(said.get("saved", 0.0)), 0.0), 1.0)
                sight = Progressed(spec.instance, done, saved)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("the progress of %s cannot be read: %s", spec.instance, error)
            return
        self._sights.put_nowait(sight)

    async def _checkpoint(self, watched: _Watched) -> None:
        """See whether a checkpoint that was asked for is there."""
        number = await asyncio.to_thread(watched.folder.checkpointed)
        if number > watched.checkpointed:
            watched.checkpointed = number
            self._sights.put_nowait(Checkpointed(watched.folder.spec.instance, number))

    def _wait_for_end(self, watched: _Watched) -> None:
        """Look at once when the supervisor ends."""
        if watched.handle is not None:
            return
        pid = watched.folder.supervisor_pid()
        if pid is None:
            return
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            watched.handle = handle
            loop = asyncio.get_running_loop()
            loop.add_reader(handle, self._ended, watched)

    def _ended(self, watched: _Watched) -> None:
        self._drop_handle(watched)
        asyncio.ensure_future(self._look_locked(watched))  # noqa: RUF006, looks come round anyway

    async def _look_locked(self, watched: _Watched) -> None:
        async with watched.lock:
            await self._look(watched)

    def _drop_handle(self, watched: _Watched) -> None:
        if watched.handle is not None:
            asyncio.get_running_loop().remove_reader(watched.handle)
            os.close(watched.handle)
            watched.handle = None

    async def _removed(self, watched: _Watched, *, tell: bool = True) -> None:
        self._drop_handle(watched)
        if watched.child is not None:
            self._ending.add(watched.child)
        await asyncio.to_thread(watched.folder.remove)
        spec = watched.folder.spec
        del self._watched[spec.instance]
        if tell:
            name = watched.folder.path.name
            self._sights.put_nowait(Seen(spec.instance, Life.GONE, spec.node, name))

    def _tell(self, watched: _Watched, facts: Facts) -> None:
        spec = watched.folder.spec
        code = facts.exit["code"] if facts.exit is not None else None
        why = f"it ended with exit code {code}" if code else ""
        self._sights.put_nowait(
            Seen(
                instance=spec.instance,
                life=watched.life,
                node=spec.node,
                name=watched.folder.path.name,
                placement=spec.placement,
                desired=spec.desired,
                why="its gang did not come together" if watched.life is Life.UNBOUND else why,
                exit_code=code,
                started_ns=facts.running["started_ns"] if facts.running is not None else None,
                ended_ns=facts.exit["ended_ns"] if facts.exit is not None else None,
                devices=spec.devices,
                address=self._address(spec),
            )
        )

    def _address(self, spec: folders.Spec) -> str:
        node = self._nodes.node(spec.node)
        return "" if spec.port is None or node is None else f"{node.address}:{spec.port}"

    # Hands

    async def refusal(self, desired: Desired) -> str:
        """Why it can never run here."""
        return await asyncio.to_thread(commands.refusal, desired)

    async def start(self, starts: Sequence[Start]) -> None:
        """Begin instances; a gang's programs start when all its supervisors are there."""
        starts = [self._placed(start) for start in starts]
        async with self._starting:
            await self._until_gone([start.instance for start in starts])
            try:
                made = await asyncio.to_thread(self._start, starts)
            except (FileProblem, OSError) as error:
                raise DureError(f"it cannot be started ({error})") from error
            for watched in made:
                self._watched.setdefault(watched.folder.spec.instance, watched)
        for watched in made:
            known = self._watched.get(watched.folder.spec.instance, watched)
            async with known.lock:
                await self._look(known, tell=True)

    def _placed(self, start: Start) -> Start:
        """With the name of its node, which must be there."""
        nodes = self._nodes.nodes
        number = start.placement.node
        name = start.node or (nodes[number].name if number < len(nodes) else "")
        if self._nodes.node(name) is None:
            raise DureError(
                f"there is no node {start.node or number} here", "name it in the file of nodes"
            )
        return replace(start, node=name)

    async def _until_gone(self, instances: Sequence[InstanceId]) -> None:
        """Wait for former selves that are on their way out."""
        for instance in instances:
            while (watched := self._watched.get(instance)) is not None:
                facts = await asyncio.to_thread(watched.folder.facts)
                # One whose folder is just being removed says nothing of itself any more.
                if not facts.stopping and watched.folder.path.exists():
                    break
                await asyncio.sleep(_LOOK_S)

    def _start(self, starts: Sequence[Start]) -> list[_Watched]:
        serving = starts[0].desired.order.workload.kind is WorkloadKind.SERVING
        together = tuple(start.instance.index for start in starts)
        meeting_port = commands.free_port()
        made: list[_Watched] = []
        for start in starts:
            gang = (start.instance.index,) if serving else together
            others = (*self._watched.values(), *made)
            taken = {port for each in others if (port := each.folder.spec.port) is not None}
            line = commands.command_line(
                self._cluster, self._nodes, self._root, start, meeting_port, taken
            )
            name = folders.folder_of(self._root, start.instance).path.name
            groups = self._limits.groups(name, start.desired.order.workload.demand)
            line = replace(line, groups=groups)
            made.append(_Watched(folders.make(self._root, folders.Spec.of(start, gang, line))))
        for watched in made:
            if watched.folder.spec.instance not in self._watched:
                watched.child = watched.folder.spawn()
        return made

    async def stop(self, instance: InstanceId, grace_s: float) -> None:
        """End an instance; it is seen as gone once nothing of it runs."""
        watched = self._watched.get(instance)
        if watched is None:
            self._sights.put_nowait(Seen(instance, Life.GONE, "", ""))
            return
        async with watched.lock:
            if not await asyncio.to_thread(watched.folder.ask_to_stop, grace_s):
                await asyncio.to_thread(watched.folder.kill_left_over)
                if self._watched.get(instance) is watched:
                    await self._removed(watched)
            else:
                await self._look(watched)

    async def request(self, instance: InstanceId, number: int) -> None:
        """Ask its program for a checkpoint; 0: not any more."""
        watched = self._watched.get(instance)
        if watched is None:
            return
        async with watched.lock:
            if self._watched.get(instance) is not watched:
                return  # its folder is gone, and must not be made again by what is written there
            try:
                await asyncio.to_thread(watched.folder.request, number)
            except (FileProblem, OSError) as error:
                raise DureError(f"{instance} cannot be asked for a checkpoint ({error})") from error

    async def forget(self, instance: InstanceId) -> None:
        """Remove what is left of an instance that is over."""
        watched = self._watched.get(instance)
        if watched is None:
            return
        async with watched.lock:
            if watched.life.over and self._watched.get(instance) is watched:
                await self._removed(watched, tell=False)

    async def resize(self, instance: InstanceId, placement: Placement) -> None:
        """Have the agent of its node change its limits; a later member finds it so."""
        watched = self._watched.get(instance)
        if watched is None:
            return
        async with watched.lock:
            await asyncio.to_thread(resize, self._nodes, watched.folder, placement)
            if self._watched.get(instance) is watched and not watched.life.over:
                await self._look(watched, tell=True)

    async def repartition(self, partition: Partition) -> str:
        """Refused: what its file of nodes says is what they are."""
        raise PartitionRefusedError(
            "a cluster of processes cannot divide devices anew",
            "change its file of nodes and start its member again",
        )

    def logs(self, instance: InstanceId, *, follow: bool, tail: int | None) -> AsyncIterator[bytes]:
        """What it wrote."""
        watched = self._watched.get(instance)
        if watched is None:
            raise DureError(f"nothing is left of instance {instance.index}", "ask for another one")

        def over() -> bool:
            return watched.life.over or self._watched.get(instance) is not watched

        return read_output(watched.folder.output, over if follow else None, tail)

    async def close(self) -> None:
        """Let go; programs run on."""
        for watched in self._watched.values():
            self._drop_handle(watched)


def _bury(pid: int) -> bool:
    """Take note of a child's end; False while it lives."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _end_of(facts: Facts) -> Life:
    assert facts.exit is not None
    if facts.stopping or facts.exit.get("fenced"):
        return Life.GONE
    code = facts.exit["code"]
    if code is None:
        return Life.UNBOUND
    return Life.SUCCEEDED if code == 0 else Life.FAILED


async def _answers(port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
