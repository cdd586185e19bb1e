"""Composition of the two processes beside other schedulers: the dispatcher and the shadow."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dure.beside.asking import CentreRanker
from dure.beside.dispatcher import Dispatcher, api_version
from dure.beside.profiles import Profiles
from dure.beside.settings import KueueSettings
from dure.beside.shadow.log import MOST_PODS, ShadowLog
from dure.beside.shadow.watching import Watcher
from dure.client.fleet import AsyncFleetClient
from dure.client.fleet.config import Context
from dure.kube.access import load_access
from dure.kube.client import KubeClient

_log = logging.getLogger("dure.beside")
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


@dataclass(frozen=True)
class KueueOptions:
    """What `dure kueue` was told."""

    centre: Context
    kubeconfig: Path | None = None
    kube_context: str = ""
    settings: KueueSettings = field(default_factory=KueueSettings)


@dataclass(frozen=True)
class ShadowOptions:
    """What `dure shadow` was told."""

    clusters: dict[str, tuple[Path | None, str]]
    """Kubeconfig and context by the name that the report gives a cluster."""
    log: Path
    most_pods: int = MOST_PODS
    for_s: float | None = None
    """None: until it is told to end."""


def run_kueue(options: KueueOptions) -> None:
    """Dispatch until SIGTERM or SIGINT."""
    _run(_dispatch(options))


def run_shadow(options: ShadowOptions) -> None:
    """Watch until SIGTERM or SIGINT, or as long as was wanted."""
    _run(_watch(options))


async def _dispatch(options: KueueOptions) -> None:
    access = load_access(options.kubeconfig, options.kube_context)
    async with KubeClient(access) as client, AsyncFleetClient(options.centre) as fleet:
        version = await api_version(client)
        _log.info("dispatches Workloads of %s (Kueue's API %s)", access.url, version)
        ranker = CentreRanker(fleet)
        dispatcher = Dispatcher(client, ranker, options.settings, version)
        profiles = Profiles(client, ranker, fleet, options.settings)
        dispatcher.guests = profiles.guests
        async with asyncio.TaskGroup() as group:
            group.create_task(profiles.run())
            await profiles.ready.wait()
            group.create_task(dispatcher.run())


async def _watch(options: ShadowOptions) -> None:
    async with AsyncExitStack() as stack:
        log = stack.enter_context(ShadowLog(options.log, most_pods=options.most_pods))
        clients = {}
        for name, (kubeconfig, context) in options.clusters.items():
            client = KubeClient(load_access(kubeconfig, context))
            clients[name] = await stack.enter_async_context(client)
            _log.info("watches %s at %s", name, client.access.url)
        with suppress(TimeoutError):
            async with asyncio.timeout(options.for_s):
                await Watcher(log).run(clients)


def _run(work: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(_until_told(work))


async def _until_told(work: Coroutine[Any, Any, None]) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        waiting.cancel()
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
