"""A REST server for tests: the real application under uvicorn on loopback, with a real store."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx
import uvicorn
from fastapi import FastAPI

from dure.domain.fleet.accounts import Role, TenantKind
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.services import LoadSignal
from dure.domain.ids import ClusterId
from dure.server.ports import NotLinkedHere
from dure.server.rest.app import build_app
from dure.server.services import Services
from dure.server.settings import ServerSettings
from dure.stores.bus.local import LocalBus
from dure.stores.repos.access import Grant
from dure.stores.rows import Cluster, Tenant
from dure.stores.store import Store
from dure.stores.transaction import Transaction

LIMIT_S = 60.0
ResultT = TypeVar("ResultT")


@dataclass
class TestLogs:
    """Logs by cluster; a cluster that is not named is linked nowhere, or at another server."""

    __test__ = False
    chunks: dict[str, list[bytes]] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)

    async def logs(
        self, cluster: ClusterId, key: AttemptKey, index: int, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """What was put there."""
        if cluster not in self.chunks:
            raise NotLinkedHere(cluster, self.elsewhere.get(cluster, ""))
        for chunk in self.chunks[cluster]:
            yield chunk


@dataclass
class TestSignals:
    """What clusters are told of loads; those that are not linked here may be at another server."""

    __test__ = False
    linked: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)
    heard: list[tuple[str, LoadSignal]] = field(default_factory=list)

    async def signal(self, cluster: ClusterId, signal: LoadSignal) -> None:
        """Note it."""
        if cluster not in self.linked:
            raise NotLinkedHere(cluster, self.elsewhere.get(cluster, ""))
        self.heard.append((cluster, signal))


class Centre:
    """Runs in a thread of its own, with its own event loop; `url` is where it listens."""

    def __init__(self, address: str, *, settings: ServerSettings | None = None) -> None:
        self.address = address
        self.settings = settings or ServerSettings()
        self.logs = TestLogs()
        self.signals = TestSignals()
        self.secrets: dict[str, str] = {}
        self.url = ""
        self.app: FastAPI
        self.store: Store
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event
        self._up: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Centre":
        self._thread.start()
        self._up.result(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(LIMIT_S)

    def client(self, who: str = "admin", **more: Any) -> httpx.Client:
        """An HTTP client with the token of somebody; an unknown name is the token itself."""
        secret = self.secrets.get(who, who)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return httpx.Client(
            base_url=self.url, headers=headers, timeout=LIMIT_S, verify=False, **more
        )

    def do(self, work: Callable[[Transaction], Awaitable[ResultT]]) -> ResultT:
        """Do a transaction in the store behind the server."""

        async def whole() -> ResultT:
            async with self.store.transaction() as tx:
                return await work(tx)

        return asyncio.run_coroutine_threadsafe(whole(), self._loop).result(LIMIT_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if self._up.done():
                raise
            self._up.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with Store.open(self.address) as self.store:
            await self.store.migrate()
            await self._populate()
            bus = LocalBus()
            services = Services(self.store, bus, self.logs, self.settings, signals=self.signals)
            self.app = build_app(services)
            config = uvicorn.Config(
                self.app,
                host="127.0.0.1",
                port=0,
                log_level="error",
                ws="none",
                timeout_graceful_shutdown=1,
            )
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:
                assert not serving.done(), "the server ended before it listened"
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            self._up.set_result(None)
            await self._stop.wait()
            server.should_exit = True
            await serving
            await bus.close()

    async def _populate(self) -> None:
        async with self.store.transaction() as tx:
            if await tx.tenants.find("acme") is not None:
                return
            for path, kind, parent in (
                ("acme", TenantKind.TENANT, None),
                ("acme/vision", TenantKind.TEAM, "acme"),
                ("acme/vision/ocr", TenantKind.SERVICE, "acme/vision"),
                ("acme/speech", TenantKind.TEAM, "acme"),
                ("globex", TenantKind.TENANT, None),
            ):
                await tx.tenants.add(Tenant(path, kind, parent))
            await tx.clusters.add(Cluster("seoul", "kubernetes"))
            await tx.clusters.add(Cluster("busan", "process", {"kind": "process"}))
            for name, grant in GRANTS.items():
                _, self.secrets[name] = await tx.tokens.issue(replace(grant, name=name))


GRANTS = {
    "admin": Grant(Role.ADMIN),
    "acme": Grant(Role.TENANT, tenant="acme"),
    "vision": Grant(Role.TENANT, tenant="acme/vision"),
    "globex": Grant(Role.TENANT, tenant="globex"),
    "viewer": Grant(Role.VIEWER),
    "acme-viewer": Grant(Role.VIEWER, tenant="acme"),
    "member": Grant(Role.MEMBER, cluster="seoul"),
}
"""Tokens that every test centre has, by name."""


def job(name: str = "train", **more: Any) -> dict[str, Any]:
    """A job as a body of a submission."""
    return {"name": name, "kind": "training", "image": "trainer:1", "work": "2h"} | more
