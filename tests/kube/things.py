"""Objects that tests put into clusters, and waits for what becomes of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.informer import Broken, Change, ChangeKind, Happening, Informer, Synced
from dure.kube.resources import CONFIG_MAPS, Object
from dure.kube.transport import Patience
from tests.kube.cluster import KubeCluster

WAIT_S = 180.0
"""For what takes seconds on an idle machine."""
MANAGER = "dure-test"


@asynccontextmanager
async def client_of(
    cluster: KubeCluster, *, url: str = "", patience: Patience | None = None
) -> AsyncIterator[KubeClient]:
    """A client as the administrator, through another address where one is given."""
    access = load_access(cluster.kubeconfig)
    chosen = patience or Patience(retry_for_s=WAIT_S)
    async with KubeClient(replace(access, url=url or access.url), chosen) as client:
        yield client


def config_map(namespace: str, name: str, **data: str) -> Object:
    """The simplest object there is."""
    return {"metadata": {"namespace": namespace, "name": name}, "data": data}


def pod(namespace: str, name: str, **annotations: str) -> Object:
    """A Pod of one container; annotations by the words after `paper.dure.test/`."""
    noted = {f"paper.dure.test/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {
        "metadata": {"namespace": namespace, "name": name, "annotations": noted},
        "spec": {"containers": [{"name": "main", "image": "paper"}], "restartPolicy": "Never"},
    }


async def eventually(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until it holds; fails past the limit."""
    until = time.monotonic() + WAIT_S
    while not await holds():
        assert time.monotonic() < until, f"after {WAIT_S:.0f} s still not: {what}"
        await asyncio.sleep(0.05)


async def put(client: KubeClient, namespace: str, name: str, **data: str) -> Object:
    """Apply a ConfigMap."""
    return await client.apply(CONFIG_MAPS, config_map(namespace, name, **data), manager=MANAGER)


class Watcher:
    """Takes an informer's happenings while a test does something else."""

    def __init__(self, informer: Informer) -> None:
        self.informer = informer
        self.seen: list[Happening] = []
        self._task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        async with aclosing(self.informer.happenings()) as happenings:
            async for happening in happenings:
                self.seen.append(happening)

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until what was seen makes it hold."""

        async def look() -> bool:
            if self._task.done():
                self._task.result()
            return holds()

        await eventually(what, look)

    async def synced(self, times: int = 1) -> None:
        """Wait until everything was listed so often."""
        await self.until(f"synced {times} times", lambda: self.count(Synced) >= times)

    async def broken(self) -> None:
        """Wait until the loss of contact was told once more."""
        before = self.count(Broken)
        await self.until("the loss of contact is told", lambda: self.count(Broken) > before)

    async def shows(self, name: str, **data: str) -> None:
        """Wait until a ConfigMap of that name was told to hold this."""
        wanted = (name, data)
        await self.until(
            f"{name} holds {data}", lambda: wanted in [change[1:] for change in self.changes()]
        )

    def count(self, kind: type[Synced | Broken | Change]) -> int:
        """How many of a kind were seen."""
        return sum(isinstance(one, kind) for one in self.seen)

    def changes(self, own: str = "") -> list[tuple[ChangeKind, str, Any]]:
        """Kind, name and data of each change, of the names that begin so."""
        return [
            (one.kind, one.object["metadata"]["name"], one.object.get("data"))
            for one in self.seen
            if isinstance(one, Change) and one.object["metadata"]["name"].startswith(own)
        ]

    async def stop(self) -> None:
        """Take no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def watching(informer: Informer) -> AsyncIterator[Watcher]:
    """Follow from its first whole picture on."""
    watcher = Watcher(informer)
    try:
        await watcher.synced()
        yield watcher
    finally:
        await watcher.stop()
