"""Follows all objects of a kind: list, watch, and after any loss of contact list again and compare.

Whoever iterates `Informer.happenings` sees every object that comes, changes or goes, however often
the API server dies in between; several changes of one object in a row may show as one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from dure.kit.backoff import Backoff
from dure.kube.client import PAGE_SIZE, KubeClient
from dure.kube.errors import KubeError, KubeExpiredError
from dure.kube.requests import Scope, WatchEvent
from dure.kube.resources import Object, ObjectKey, Resource, key_of, uid_of, version_of

_LIST_ATTEMPTS = 3
"""How often a list whose pages expired is begun anew, the last time in one page."""


class ChangeKind(Enum):
    """What happened to an object."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change:
    """One object came, changed or went."""

    kind: ChangeKind
    object: Object
    """As it is now, or was last known to be."""
    previous: Object | None = None
    """As it was before it changed."""


@dataclass(frozen=True, slots=True)
class Synced:
    """All objects were listed and compared: from here on the picture is whole."""

    resource_version: str
    count: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The cluster cannot be followed at the moment; what is known may be out of date."""

    error: KubeError
    retry_s: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """The watch goes on where it broke off; what happened meanwhile follows."""


Happening = Change | Synced | Broken | Resumed


@dataclass(frozen=True)
class Following:
    """How an informer follows."""

    page_size: int = PAGE_SIZE
    watch_s: float = 300.0
    """After so long, and up to a half more, a watch is opened anew where it left off."""
    resync_s: float | None = 3600.0
    """After so long everything is listed again and compared, in case a watch missed something."""
    steady_s: float = 10.0
    """A watch that lasted so long, or brought anything, starts the next wait from the shortest."""
    backoff_limit_s: float = 10.0


def without_managed_fields(thing: Object) -> Object:
    """An object without the list of who owns which field: nobody decides by it, and it is long."""
    thing["metadata"].pop("managedFields", None)
    return thing


class Informer:
    """The objects of one kind in a scope, as far as known."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        scope: Scope | None = None,
        *,
        following: Following | None = None,
        trim: Callable[[Object], Object] = without_managed_fields,
    ) -> None:
        self.resource = resource
        self._client = client
        self._scope = scope or Scope()
        self._following = following or Following()
        self._trim = trim
        self._known: dict[ObjectKey, Object] = {}
        self._version = ""
        """Up to where the cluster's story is known; empty: list."""
        self._listed_at_s = 0.0
        self._fruitful = False
        self._cut = False
        """Whether the loss of contact was told and its end was not."""
        self.lists = 0
        """How often everything was listed."""

    @property
    def objects(self) -> Mapping[ObjectKey, Object]:
        """What is known, by name; a view that changes as happenings are taken."""
        return MappingProxyType(self._known)

    async def happenings(self) -> AsyncGenerator[Happening]:
        """What happens, without end; `objects` already shows each when it is handed out."""
        waits = Backoff(limit_s=self._following.backoff_limit_s, chance=self._client.chance)
        while True:
            began_s = time.monotonic()
            self._fruitful = False
            failure: KubeError | None = None
            try:
                if not self._version or self._resync_is_due():
                    for happening in await self._relist():
                        yield happening
                async with aclosing(self._watch()) as changes:
                    async for change in changes:
                        yield change
            except KubeExpiredError as error:
                self._version = ""
                failure = error
            except KubeError as error:
                failure = error
            if self._fruitful or time.monotonic() - began_s >= self._following.steady_s:
                waits.reset()
            if failure is None and self._fruitful:
                continue
            wait_s = waits.next_s()
            if failure is not None:
                self._cut = True
                yield Broken(failure, wait_s)
            await asyncio.sleep(wait_s)

    # Listing

    def _resync_is_due(self) -> bool:
        after_s = self._following.resync_s
        return after_s is not None and time.monotonic() - self._listed_at_s >= after_s

    async def _relist(self) -> list[Happening]:
        """List everything and tell how it differs from what was known."""
        found, version = await self._list()
        self._version = version
        self._listed_at_s = time.monotonic()
        self.lists += 1
        changes = list(differences(self._known, found))
        self._known.clear()
        self._known.update(found)
        self._cut = False
        return [*changes, Synced(version, len(found))]

    async def _list(self) -> tuple[dict[ObjectKey, Object], str]:
        for attempt in range(_LIST_ATTEMPTS):
            last = attempt == _LIST_ATTEMPTS - 1
            try:
                return await self._list_once(0 if last else self._following.page_size)
            except KubeExpiredError:
                if last:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _list_once(self, page_size: int) -> tuple[dict[ObjectKey, Object], str]:
        found: dict[ObjectKey, Object] = {}
        version = ""
        async for page in self._client.pages(self.resource, self._scope, page_size):
            found |= {key_of(item): self._trim(item) for item in page.items}
            version = page.resource_version
        return found, version

    # Watching

    def _watch_time_s(self) -> int:
        following = self._following
        for_s = following.watch_s * (1 + 0.5 * self._client.chance.random())
        if following.resync_s is not None:
            left_s = self._listed_at_s + following.resync_s - time.monotonic()
            for_s = min(for_s, left_s)
        return max(1, round(for_s))

    async def _watch(self) -> AsyncGenerator[Change | Resumed]:
        """What changes until the server ends the watch."""
        for_s = self._watch_time_s()
        async with self._client.watch(self.resource, self._scope, self._version, for_s) as events:
            if self._cut:
                self._cut = False
                yield Resumed()
            async for event in events:
                self._fruitful = True
                for change in self._take(event):
                    yield change

    def _take(self, event: WatchEvent) -> Iterator[Change]:
        thing = event.object
        self._version = version_of(thing)
        if event.kind == "BOOKMARK":
            return
        key = key_of(thing)
        before = self._known.get(key)
        thing = self._trim(thing)
        if event.kind == "DELETED":
            if before is not None:
                del self._known[key]
                yield Change(ChangeKind.DELETED, thing, before)
            return
        self._known[key] = thing
        yield from _difference(before, thing)


def differences(
    before: Mapping[ObjectKey, Object], now: Mapping[ObjectKey, Object]
) -> Iterator[Change]:
    """What must have happened between two lists; ends first, so that what they held is free."""
    for key, thing in before.items():
        if key not in now:
            yield Change(ChangeKind.DELETED, thing, thing)
    for key, thing in now.items():
        yield from _difference(before.get(key), thing)


def _difference(before: Object | None, now: Object) -> Iterator[Change]:
    if before is None:
        yield Change(ChangeKind.ADDED, now)
    elif uid_of(before) != uid_of(now):
        yield Change(ChangeKind.DELETED, before, before)
        yield Change(ChangeKind.ADDED, now)
    elif version_of(before) != version_of(now):
        yield Change(ChangeKind.CHANGED, now, before)
