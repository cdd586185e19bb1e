"""Informers against a real API server: nothing is missed, whatever dies or is cut in between."""

import asyncio
from collections.abc import Sequence

import pytest

from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.errors import KubeExpiredError, KubeForbiddenError, KubeNotFoundError
from dure.kube.informer import Broken, ChangeKind, Following, Informer, Resumed, Synced
from dure.kube.requests import Scope
from dure.kube.resources import CONFIG_MAPS, Object, ObjectKey, Resource, version_of
from dure.kube.transport import Patience
from tests.kube.cluster import KubeCluster
from tests.kube.relay import Relay
from tests.kube.things import WAIT_S, client_of, put, watching

pytestmark = pytest.mark.kube

ADDED, CHANGED, DELETED = ChangeKind.ADDED, ChangeKind.CHANGED, ChangeKind.DELETED
EAGER = Patience(retry_for_s=0)
"""An informer repeats by itself."""


def own(namespace: str) -> Scope:
    return Scope(namespace, fields="metadata.name!=kube-root-ca.crt")


def test_an_informer_sees_objects_come_change_and_go(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "before", a="1")
            informer = Informer(client, CONFIG_MAPS, own(namespace))
            async with watching(informer) as watcher:
                assert watcher.changes() == [(ADDED, "before", {"a": "1"})]
                assert watcher.seen[-1] == Synced(_last(watcher.seen), 1)
                await put(client, namespace, "new", a="1")
                await put(client, namespace, "new", a="2")
                await client.delete(CONFIG_MAPS, "before", namespace=namespace)
                await watcher.until("all is seen", lambda: len(watcher.changes()) >= 4)
                assert watcher.changes()[1:] == [
                    (ADDED, "new", {"a": "1"}),
                    (CHANGED, "new", {"a": "2"}),
                    (DELETED, "before", {"a": "1"}),
                ]
                assert set(informer.objects) == {ObjectKey(namespace, "new")}
                assert (
                    "managedFields" not in informer.objects[ObjectKey(namespace, "new")]["metadata"]
                )
                assert informer.lists == 1

    asyncio.run(run())


def _last(seen: Sequence[object]) -> str:
    return next(one.resource_version for one in reversed(seen) if isinstance(one, Synced))


def test_a_killed_and_restarted_server_costs_no_change(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client, client_of(kube, patience=EAGER) as eager:
            await put(client, namespace, "one", a="1")
            informer = Informer(eager, CONFIG_MAPS, own(namespace))
            async with watching(informer) as watcher:
                for life in range(2):
                    kube.api_servers[0].kill()
                    await watcher.broken()
                    kube.api_servers[0].start()
                    await put(client, namespace, "one", a=f"life {life}")
                    await put(client, namespace, f"new-{life}")
                await watcher.until("all is seen", lambda: len(informer.objects) == 3)
                assert informer.objects[ObjectKey(namespace, "one")]["data"] == {"a": "life 1"}
                assert [change for change in watcher.changes() if change[0] is DELETED] == []
                assert watcher.changes().count((ADDED, "new-1", None)) == 1

    asyncio.run(run())


def test_what_happened_behind_a_cut_is_found_by_comparing(
    kube: KubeCluster, namespace: str
) -> None:
    """A restarted server remembers nothing from before, and answers 410 to a watch from then."""

    async def run() -> None:
        relay = Relay(kube.url)
        await relay.mend()
        async with client_of(kube) as client, client_of(kube, url=relay.url, patience=EAGER) as far:
            for name in ("kept", "changed", "gone", "again"):
                await put(client, namespace, name, a="1")
            informer = Informer(far, CONFIG_MAPS, own(namespace))
            async with watching(informer) as watcher:
                await relay.cut()
                await watcher.broken()
                before = len(watcher.changes())
                await put(client, namespace, "changed", a="2")
                await client.delete(CONFIG_MAPS, "gone", namespace=namespace)
                await client.delete(CONFIG_MAPS, "again", namespace=namespace)
                await put(client, namespace, "again", a="2")
                await put(client, namespace, "new", a="1")
                kube.api_servers[0].kill()
                kube.start()
                await relay.mend()
                await watcher.synced(2)
                assert watcher.changes()[before:] == [
                    (DELETED, "gone", {"a": "1"}),
                    (DELETED, "again", {"a": "1"}),
                    (ADDED, "again", {"a": "2"}),
                    (CHANGED, "changed", {"a": "2"}),
                    (ADDED, "new", {"a": "1"}),
                ]
                reasons = [one.error for one in watcher.seen if isinstance(one, Broken)]
                assert any(isinstance(reason, KubeExpiredError) for reason in reasons)
        await relay.cut()

    asyncio.run(run())


def test_a_short_cut_goes_on_where_it_left_off(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        relay = Relay(kube.url)
        await relay.mend()
        async with client_of(kube) as client, client_of(kube, url=relay.url, patience=EAGER) as far:
            informer = Informer(far, CONFIG_MAPS, own(namespace))
            async with watching(informer) as watcher:
                await relay.cut()
                await watcher.broken()
                await put(client, namespace, "new", a="1")
                await put(client, namespace, "new", a="2")
                await client.delete(CONFIG_MAPS, "new", namespace=namespace)
                await relay.mend()
                await watcher.until("all is seen", lambda: len(watcher.changes()) == 3)
                assert [kind for kind, _, _ in watcher.changes()] == [ADDED, CHANGED, DELETED]
                assert informer.lists == 1
                kinds = [type(one) for one in watcher.seen]
                assert kinds.count(Resumed) == 1, "the end of the cut is told once"
                assert Broken not in kinds[kinds.index(Resumed) :]
        await relay.cut()

    asyncio.run(run())


def test_bookmarks_carry_on_where_nothing_happens(kube: KubeCluster, namespace: str) -> None:
    """Changes elsewhere grow the version; a bookmark lets a quiet watch keep up."""

    async def run() -> tuple[Object, list[Object]]:
        async with client_of(kube) as client:
            begun = await put(client, namespace, "quiet")
            scope = Scope(namespace, fields="metadata.name=quiet")
            seen: list[Object] = []
            async with client.watch(CONFIG_MAPS, scope, version_of(begun), 5) as events:
                loud = await put(client, namespace, "loud")
                async for event in events:
                    assert event.kind == "BOOKMARK"
                    seen.append(event.object)
            return loud, seen

    loud, bookmarks = asyncio.run(run())
    assert int(version_of(bookmarks[-1])) >= int(version_of(loud))


def test_a_watch_that_ends_in_time_is_opened_anew_without_a_list(
    kube: KubeCluster, namespace: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            brief = Following(watch_s=1.0)
            informer = Informer(client, CONFIG_MAPS, own(namespace), following=brief)
            async with watching(informer) as watcher:
                for number in range(8):
                    await put(client, namespace, f"new-{number}")
                    await asyncio.sleep(0.5)
                await watcher.until("all is seen", lambda: len(informer.objects) == 8)
                assert len(watcher.changes()) == 8
                assert watcher.count(Broken) == 0
                assert informer.lists == 1

    asyncio.run(run())


def test_everything_is_compared_again_from_time_to_time(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "one")
            often = Following(resync_s=1.0, page_size=1)
            informer = Informer(client, CONFIG_MAPS, own(namespace), following=often)
            async with watching(informer) as watcher:
                await watcher.synced(3)
                assert len(watcher.changes()) == 1

    asyncio.run(run())


def test_a_list_whose_moment_is_forgotten_is_begun_anew(kube: KubeCluster, namespace: str) -> None:
    seen = 0

    def forget_once(thing: Object) -> Object:
        nonlocal seen
        seen += 1
        if seen == 1:
            kube.request(
                "POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "late"}}
            )
            kube.forget_history()
        return thing

    async def run() -> None:
        async with client_of(kube) as client:
            for name in ("one", "three", "two"):
                await put(client, namespace, name)
            paged = Following(page_size=1)
            informer = Informer(
                client, CONFIG_MAPS, own(namespace), following=paged, trim=forget_once
            )
            async with watching(informer) as watcher:
                names = [name for _, name, _ in watcher.changes()]
                assert names == ["late", "one", "three", "two"]
                assert watcher.count(Broken) == 0
                assert seen == 5

    asyncio.run(run())


def test_a_kind_that_is_not_there_is_waited_for(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        unknown = Resource("none.dure.dev", "v1", "None", "nones")
        async with client_of(kube) as client:
            informer = Informer(client, unknown, Scope(namespace))
            async with asyncio.timeout(WAIT_S):
                async for happening in informer.happenings():
                    assert isinstance(happening, Broken)
                    assert isinstance(happening.error, KubeNotFoundError)
                    break

    asyncio.run(run())


def test_what_may_not_be_read_is_said(kube: KubeCluster) -> None:
    async def run() -> None:
        nobody = load_access(kube.credentials.kubeconfig(kube.url, "nobody"))
        async with KubeClient(nobody) as client, asyncio.timeout(WAIT_S):
            async for happening in Informer(client, CONFIG_MAPS).happenings():
                assert isinstance(happening, Broken)
                assert isinstance(happening.error, KubeForbiddenError)
                break

    asyncio.run(run())
