"""Follows everything that matters in the cluster: informers, and what they bring to the board."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

from dure.domain.fleet.programs import ThingKind
from dure.domain.ids import TenantId
from dure.kube.client import KubeClient
from dure.kube.errors import KubeForbiddenError, KubeNotFoundError
from dure.kube.informer import Broken, Change, ChangeKind, Happening, Informer, Resumed, Synced
from dure.kube.requests import Scope
from dure.kube.resources import (
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    VOLUME_CLAIMS,
    Object,
)
from dure.member.kube import foreign, names
from dure.member.kube.board import Board
from dure.member.kube.settings import TENANT_PREFIX, KubeSettings
from dure.member.ports import Sight, Unreachable
from dure.member.ports import Synced as AllTold

log = logging.getLogger(__name__)

_WAITING_CHANGES = 1000
"""Changes that wait to be taken; beyond that the cluster is not asked for more."""
_THINGS = {
    ThingKind.SECRET.value: SECRETS,
    ThingKind.CONFIG_MAP.value: CONFIG_MAPS,
    ThingKind.VOLUME.value: VOLUME_CLAIMS,
}


@dataclass(eq=False)
class Source:
    """One kind of objects that is followed."""

    informer: Informer
    put: Callable[[Object, bool], None]
    needed: bool = True
    """Whether nothing is known without it; else its absence is a warning."""
    listed: Callable[[], None] = lambda: None
    """Called when all of them were told."""
    synced: bool = False
    trouble: str = ""
    """Why it cannot be followed now; empty: it can."""


@dataclass(eq=False)
class Follower:
    """All sources of one cluster, told to one board.

    `sights` runs until it is closed; whoever iterates it sees the board only between changes.
    """

    client: KubeClient
    board: Board
    _queue: asyncio.Queue[tuple[Source, Happening | Exception]] = field(init=False)
    _tasks: dict[Source, asyncio.Task[None]] = field(default_factory=dict)
    _ended: list[asyncio.Task[None]] = field(default_factory=list)
    """Of sources that are followed no more, until they have let go."""
    _things: dict[str, "_Watched"] = field(default_factory=dict)
    """By namespace."""
    _begun: bool = False
    """Whether anything was told."""
    _whole: bool = False
    """Whether `Synced` was told, and no loss of contact since."""

    def __post_init__(self) -> None:
        self._queue = asyncio.Queue(_WAITING_CHANGES)

    async def sights(self) -> AsyncGenerator[Sight]:
        """All there is, `Synced`, then what changes; `Unreachable` in between, then `Synced`."""
        self._follow_all()
        try:
            while True:
                self._take(*await self._queue.get())
                while not self._queue.empty():
                    self._take(*self._queue.get_nowait())
                if not self._settled():
                    continue
                for sight in self.board.news():
                    yield sight
                for sight in self._contact():
                    yield sight
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), *self._ended, return_exceptions=True)

    def _follow_all(self) -> None:
        board, client = self.board, self.client
        ours = Scope(labels=names.OURS)
        for source in (
            Source(Informer(client, NODES), lambda o, gone: board.put_node(o, gone=gone)),
            Source(
                Informer(client, PODS, trim=foreign.slim),
                lambda o, gone: board.put_pod(o, gone=gone),
            ),
            Source(
                Informer(client, JOBS, ours),
                lambda o, gone: board.instances.put_job(o, gone=gone),
            ),
            Source(
                Informer(client, RESOURCE_SLICES),
                lambda o, gone: board.put_slice(o, gone=gone),
                needed=False,
            ),
            Source(
                Informer(client, RESOURCE_CLAIMS),
                lambda o, gone: board.put_claim(o, gone=gone),
                needed=False,
            ),
            Source(Informer(client, NAMESPACES), self._put_namespace, needed=False),
        ):
            self._follow(source)

    def _follow(self, source: Source) -> None:
        self._tasks[source] = asyncio.create_task(self._pump(source))

    async def _pump(self, source: Source) -> None:
        try:
            async with aclosing(source.informer.happenings()) as happenings:
                async for happening in happenings:
                    await self._queue.put((source, happening))
        except Exception as error:
            await self._queue.put((source, error))
            raise

    # What comes

    def _take(self, source: Source, happening: Happening | Exception) -> None:
        if source not in self._tasks:
            return
        match happening:
            case Exception():
                raise happening
            case Change(kind, thing):
                source.put(thing, kind is ChangeKind.DELETED)
            case Synced():
                source.synced, source.trouble = True, ""
                source.listed()
            case Resumed():
                source.trouble = ""
            case Broken(error):
                source.trouble = str(error)
                self._broken(source, error)

    def _broken(self, source: Source, error: Exception) -> None:
        kind = source.informer.resource.plural
        log.info("%s cannot be followed: %s", kind, error)
        if isinstance(error, KubeForbiddenError):
            self.board.warn(f"the member may not watch {kind}: {error}")
        if not source.needed and isinstance(error, KubeForbiddenError | KubeNotFoundError):
            source.synced, source.trouble = True, ""  # it goes without

    def _settled(self) -> bool:
        """Whether all that is there was listed once, so that what is told is not half of it."""
        self._begun |= all(source.synced for source in self._tasks)
        return self._begun

    def _contact(self) -> Iterator[Sight]:
        """Whether what is known is the present; told when that changes."""
        troubles = [source.trouble for source in self._tasks if source.needed and source.trouble]
        if troubles and self._whole:
            yield Unreachable(troubles[0])
        if not troubles and not self._whole:
            yield AllTold()
        self._whole = not troubles

    # Namespaces of tenants, and the things in them

    def _put_namespace(self, namespace: Object, gone: bool) -> None:
        name = namespace["metadata"]["name"]
        ending = gone or "deletionTimestamp" in namespace["metadata"]
        (self.board.namespaces.discard if ending else self.board.namespaces.add)(name)
        tenant = None if gone else tenant_of(namespace, self.board.settings)
        self._ended = [task for task in self._ended if not task.done()]
        before = self._things.get(name)
        if before is not None and before.tenant != tenant:
            del self._things[name]
            for source in before.sources:
                task = self._tasks.pop(source)
                task.cancel()
                self._ended.append(task)
            for kind in _THINGS:
                self.board.put_things(before.tenant, kind, None)
        if tenant is not None and name not in self._things:
            sources = [self._things_of(tenant, name, kind) for kind in _THINGS]
            self._things[name] = _Watched(tenant, sources)

    def _things_of(self, tenant: TenantId, namespace: str, kind: str) -> Source:
        scope = Scope(namespace, names_only=True)
        informer = Informer(self.client, _THINGS[kind], scope)

        def told(_: Object | None = None, __: bool = False) -> None:
            if source.synced:
                found = frozenset(key.name for key in informer.objects)
                self.board.put_things(tenant, kind, found)

        source = Source(informer, told, needed=False, listed=told)
        self._follow(source)
        return source


@dataclass(frozen=True)
class _Watched:
    """A tenant's namespace that is followed."""

    tenant: TenantId
    sources: list[Source]


def tenant_of(namespace: Object, settings: KubeSettings) -> TenantId | None:
    """Whose namespace it is: by the settings, by its label, by its name; None: no tenant's."""
    metadata = namespace["metadata"]
    name, labels = metadata["name"], metadata.get("labels") or {}
    for tenant, stated in settings.namespaces.items():
        if stated == name:
            return tenant
    if names.TENANT in labels:
        return TenantId(labels[names.TENANT])
    if name.startswith(TENANT_PREFIX) and name != settings.namespace:
        return TenantId(name.removeprefix(TENANT_PREFIX))
    return None
