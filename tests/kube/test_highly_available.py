"""Three etcd members, two API servers behind haproxy: one of each dies, nothing above notices."""

import asyncio
import secrets

import pytest

from dure.kube.client import KubeClient
from dure.kube.informer import ChangeKind, Informer
from dure.kube.requests import Scope
from dure.kube.resources import CONFIG_MAPS, NAMESPACES, PODS
from dure.kube.transport import Patience
from tests.kube.cluster import KubeCluster
from tests.kube.things import MANAGER, client_of, eventually, pod, put, watching

pytestmark = pytest.mark.kube


async def write(client: KubeClient, namespace: str, stop: asyncio.Event) -> int:
    """One new object after the other; each must be taken."""
    number = 0
    while not stop.is_set():
        await put(client, namespace, f"own-{number}", n=str(number))
        number += 1
        await asyncio.sleep(0.02)
    return number


def test_one_of_each_dies_and_nothing_above_notices(kube_ha: KubeCluster) -> None:
    name = f"ha-{secrets.token_hex(4)}"

    async def run() -> None:
        plain = Patience(retry_for_s=30)
        async with client_of(kube_ha, patience=plain) as client, client_of(kube_ha) as other:
            await client.apply(NAMESPACES, {"metadata": {"name": name}}, manager=MANAGER)
            informer = Informer(other, CONFIG_MAPS, Scope(name))
            async with watching(informer) as watcher:
                stop = asyncio.Event()
                writing = asyncio.create_task(write(client, name, stop))
                pairs = zip(kube_ha.etcd, [*kube_ha.api_servers, None], strict=True)
                for member, server in pairs:
                    killed = [part for part in (member, server) if part is not None]
                    for part in killed:
                        part.kill()
                    await asyncio.sleep(3)
                    assert not writing.done()
                    kube_ha.start()
                stop.set()
                count = await writing

                def seen() -> bool:
                    return len([key for key in informer.objects if key.name[:4] == "own-"]) == count

                await watcher.until("every write is seen", seen)
                added = [
                    what for kind, what, _ in watcher.changes("own-") if kind is ChangeKind.ADDED
                ]
                assert sorted(added) == sorted(f"own-{number}" for number in range(count))
                assert count > 30

    asyncio.run(run())


def test_pods_still_start_with_one_of_each_dead(kube_ha: KubeCluster) -> None:
    name = f"ha-{secrets.token_hex(4)}"

    async def run() -> None:
        async with client_of(kube_ha) as client:
            await client.apply(NAMESPACES, {"metadata": {"name": name}}, manager=MANAGER)
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            kube_ha.etcd[0].kill()
            kube_ha.api_servers[0].kill()

            async def has_account() -> bool:
                return kube_ha.has(account)

            await eventually("the namespace is ready", has_account)
            await client.create(PODS, pod(name, "one"))

            async def runs() -> bool:
                found = await client.get(PODS, "one", name)
                return bool(found["status"]["phase"] == "Running")

            await eventually("the Pod runs", runs)

    asyncio.run(run())


def test_a_server_that_hangs_is_left_for_the_other(kube_ha: KubeCluster) -> None:
    name = f"ha-{secrets.token_hex(4)}"

    async def run() -> None:
        async with client_of(kube_ha) as client, client_of(kube_ha) as other:
            await client.apply(NAMESPACES, {"metadata": {"name": name}}, manager=MANAGER)
            informer = Informer(other, CONFIG_MAPS, Scope(name, fields="metadata.name=one"))
            async with watching(informer) as watcher:
                for number, server in enumerate(kube_ha.api_servers):
                    server.freeze()
                    try:
                        await put(client, name, "one", n=str(number))
                        await watcher.shows("one", n=str(number))
                    finally:
                        server.thaw()
                    kube_ha.start()

    asyncio.run(run())
