"""The door at work: follows AcceleratorJobs, tells the centre of them, shows what it answers.

A deleted object is let go as soon as its end is written down in the member's memory, whether or not
there is a centre. The removal of the kind itself is not the end of anybody's job: objects that go
with it are let go without a word.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Protocol

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.wishes import Standing, Wish, Wishes, WishRefusal
from dure.kube.client import KubeClient
from dure.kube.errors import KubeConflictError, KubeInvalidError, KubeNotFoundError
from dure.kube.informer import Broken, Change, ChangeKind, Informer, without_managed_fields
from dure.kube.resources import Object, uid_of
from dure.member.door.book import DoorBook, Entry
from dure.member.door.kinds import FINALIZER, JOBS, definition_of, look
from dure.member.door.wording import seconds
from dure.wire.codec import check
from dure.wire.kinds import WireError
from dure.wire.plain import pack, unpack

_log = logging.getLogger("dure.member")

TOMBSTONE = "tombstone/"
"""Prefix of entries in the member's memory."""
LOOK_S = 10.0
"""How often it is looked whether the kinds are installed."""
_TICK_S = 1.0
_AGAIN_S = 1.0
"""Before something that failed is tried again."""
_HANDS = 16
"""Requests at a time."""
_BATCH = 200
"""Objects that are looked at together."""
_MOST_WISHES = 100
"""In one message."""
_TRIES = 5


class Keeper(Protocol):
    """The member's memory."""

    async def recall(self, prefix: str) -> Mapping[str, Any]:
        """What was kept under names that begin so."""

    async def keep(self, changed: Mapping[str, Any], removed: Sequence[str] = ()) -> None:
        """Keep entries; they are safe when it returns."""


class Closed(Exception):  # noqa: N818 - an end, not an error
    """The kind is not served any more."""


class Door:
    """One for each member of a Kubernetes cluster."""

    def __init__(
        self,
        client: KubeClient,
        keeper: Keeper,
        warn: Callable[[str], None],
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.book = DoorBook()
        self._client = client
        self._keeper = keeper
        self._warn = warn
        self._beside = beside
        """What else is to be done while it is open."""
        self._dirty: set[str] = set()
        self._stirred = asyncio.Event()
        self._news = asyncio.Event()
        self._forgotten: set[str] = set()
        self._lost: dict[str, Entry] = {}
        """Objects that went without us, and whose end is not written down yet."""
        self._hands = asyncio.Semaphore(_HANDS)

    async def run(self) -> None:
        """Open it whenever the kinds are installed; until cancelled."""
        self._recall(await self._keeper.recall(TOMBSTONE))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._forget())
            tasks.create_task(self._keep_open())

    def _recall(self, kept: Mapping[str, Any]) -> None:
        for name, each in kept.items():
            try:
                self.book.bury([unpack(Wish, each)])
            except WireError as error:
                _log.error("%s cannot be read and is left alone: %s", name, error)
        self._news.set()

    async def _keep_open(self) -> None:
        said = ""
        while True:
            try:
                found = await look(self._client)
                why = found.why
                if found.open:
                    said = ""
                    _log.info("the door for kubectl is open")
                    await self._serve()
            except Closed as closed:
                why = str(closed)
            except DureError as error:
                _log.warning("whether there is a door for kubectl cannot be seen: %s", error)
                why = said
            if why and why != said:
                said = why
                _log.warning("the door for kubectl stays closed: %s", why)
                self._warn(f"the door for kubectl stays closed: {why}")
            await asyncio.sleep(LOOK_S)

    async def _serve(self) -> None:
        """Until the kind goes; raises `Closed`."""
        works = [self._follow(), self._tend_all(), self._tick()]
        if self._beside is not None:
            works.append(self._beside())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.book.entries.clear()
            self._dirty.clear()

    # What the link asks for

    def linked(self) -> None:
        """A new link to the centre."""
        self.book.linked()
        self._news.set()

    async def wishes(self) -> Wishes:
        """What is to be said next; waits until there is something."""
        while True:
            found = [
                wish
                for wish in self.book.wishes(time.time(), _MOST_WISHES)
                if self._is_sayable(wish)
            ]
            if found:
                return Wishes(tuple(found))
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._news.wait()
            self._news.clear()

    def _is_sayable(self, wish: Wish) -> bool:
        try:
            check(wish)
        except WireError as error:
            refusal = WishRefusal("TooLarge", f"spec {error.field}", error.what, "simplify it")
            self.hear([Standing(wish.uid, wish.generation, refusal=refusal)])
            return False
        return True

    def hear(self, standings: Iterable[Standing]) -> None:
        """What the centre answers."""
        heard = list(standings)
        self._forgotten.update(self.book.known_gone(heard))
        for standing in heard:
            if self.book.hear(standing) is not None:
                self._stir(standing.uid)
        self._news.set()

    async def _forget(self) -> None:
        """Tombstones that the centre knows need not be kept."""
        while True:
            await asyncio.sleep(_TICK_S)
            if not self._forgotten:
                continue
            uids, self._forgotten = self._forgotten, set()
            try:
                await self._keeper.keep({}, [f"{TOMBSTONE}{uid}" for uid in sorted(uids)])
            except DureError as error:
                _log.warning("tombstones are not removed yet: %s", error)
                self._forgotten |= uids

    # What the cluster shows

    def _stir(self, uid: str) -> None:
        self._dirty.add(uid)
        self._stirred.set()

    async def _follow(self) -> None:
        informer = Informer(self._client, JOBS)
        async with aclosing(informer.happenings()) as happenings:
            async for happening in happenings:
                match happening:
                    case Change(ChangeKind.DELETED, thing):
                        self._vanished(thing)
                    case Change(_, thing):
                        self.book.put(thing, time.time())
                        self._stir(uid_of(thing))
                        self._news.set()
                    case Broken(error) if isinstance(error, KubeNotFoundError):
                        raise Closed("AcceleratorJob was removed; jobs of it go on at the centre")
                    case Broken(error):
                        _log.info("acceleratorjobs cannot be followed: %s", error)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now_s = time.time()
            for uid, entry in self.book.entries.items():
                if self.book.shown(entry, now_s):
                    self._stir(uid)

    def _vanished(self, thing: Object) -> None:
        """An object went; where somebody else let it go, its end is yet to be written down."""
        uid = uid_of(thing)
        entry = self.book.gone(uid)
        if entry is None or not entry.held or entry.over or uid in self.book.tombstones:
            return
        self._lost[uid] = entry
        self._stir(uid)

    # What is done about it

    async def _tend_all(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            while self._dirty:
                uids = [self._dirty.pop() for _ in range(min(_BATCH, len(self._dirty)))]
                entries = [self.book.entries[uid] for uid in uids if uid in self.book.entries]
                if not await self._write_ends(entries):
                    entries = [entry for entry in entries if not entry.deleting]
                await asyncio.gather(*(self._tend_safely(entry) for entry in entries))

    async def _write_ends(self, entries: Iterable[Entry]) -> bool:
        """Write down the ends of those that were deleted; else tried again later."""
        ends = [entry for entry in entries if entry.deleting and entry.held and not entry.over]
        lost = list(self._lost.values())
        try:
            await self._bury([*ends, *lost])
        except DureError as error:
            _log.warning("ends of jobs are not written down yet: %s", error)
            self._later([*ends, *lost])
            return False
        for entry in lost:
            self._lost.pop(uid_of(entry.thing), None)
        return True

    async def _bury(self, entries: Sequence[Entry]) -> None:
        """Write ends down, but for those of objects that go only because their kind does."""
        if not entries:
            return
        removed_s = await self._kind_removed_s()
        ends = [entry.tombstone() for entry in entries if not _goes_with(entry, removed_s)]
        if ends:
            await self._keeper.keep({f"{TOMBSTONE}{each.uid}": pack(each) for each in ends})
            self.book.bury(ends)
            self._news.set()

    async def _kind_removed_s(self) -> float | None:
        """When somebody removed the kind; None: nobody did."""
        try:
            found = await definition_of(self._client, JOBS.plural)
        except KubeNotFoundError:
            return 0.0
        removed = found["metadata"].get("deletionTimestamp")
        return None if removed is None else seconds(removed)

    async def _tend_safely(self, entry: Entry) -> None:
        try:
            async with self._hands:
                await self._tend(entry)
        except (KubeNotFoundError, KubeConflictError):
            pass  # It is gone, or was changed: the watch brings what it is now.
        except KubeInvalidError as error:
            _log.error("the status of %s cannot be written: %s", entry.key, error)
        except DureError as error:
            _log.warning("%s is not tended yet: %s", entry.key, error)
            self._later([entry])

    def _later(self, entries: Iterable[Entry]) -> None:
        loop = asyncio.get_running_loop()
        for entry in entries:
            loop.call_later(_AGAIN_S, self._stir, uid_of(entry.thing))

    async def _tend(self, entry: Entry) -> None:
        if entry.held and (entry.deleting or entry.over):
            await self._let_go(entry)
        elif not entry.held and not entry.deleting and not entry.over:
            await self._hold(entry)
        changes = self.book.shown(entry, time.time())
        if changes:
            await self._change(entry, {"status": changes}, "status")
            if entry.over and entry.held:
                await self._let_go(entry)

    async def _hold(self, entry: Entry) -> None:
        metadata = entry.thing["metadata"]
        finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
        version = metadata["resourceVersion"]
        await self._change(
            entry, {"metadata": {"finalizers": finalizers, "resourceVersion": version}}
        )
        self._news.set()

    async def _let_go(self, entry: Entry) -> None:
        """Take our finalizer away, whoever else changes the object meanwhile."""
        for left in reversed(range(_TRIES)):
            metadata = entry.thing["metadata"]
            rest = [each for each in metadata.get("finalizers") or () if each != FINALIZER]
            version = metadata["resourceVersion"]
            try:
                await self._change(
                    entry, {"metadata": {"finalizers": rest, "resourceVersion": version}}
                )
                return
            except KubeConflictError:
                if not left:
                    raise
                namespace, name = entry.key
                thing = without_managed_fields(await self._client.get(JOBS, name, namespace))
                if uid_of(thing) != uid_of(entry.thing):
                    return
                entry.thing = thing

    async def _change(self, entry: Entry, changes: Object, subresource: str = "") -> None:
        """Change an object, if it is still the same one."""
        namespace, name = entry.key
        metadata = {**changes.get("metadata", {}), "uid": uid_of(entry.thing)}
        changed = await self._client.patch(
            JOBS,
            name,
            {**changes, "metadata": metadata},
            namespace=namespace,
            subresource=subresource,
        )
        entry.thing = without_managed_fields(changed)


def _goes_with(entry: Entry, removed_s: float | None) -> bool:
    """Whether an object goes because its kind was removed, not because somebody deleted it."""
    if removed_s is None:
        return False
    deleted = entry.thing["metadata"].get("deletionTimestamp")
    return deleted is None or seconds(deleted) >= removed_s
