"""The client against a real API server: every verb, every refusal, and a server that dies."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.errors import (
    KubeConflictError,
    KubeExistsError,
    KubeExpiredError,
    KubeForbiddenError,
    KubeInvalidError,
    KubeNotFoundError,
    KubeUnreachableError,
)
from dure.kube.requests import LogOptions, Page, Preconditions, Scope
from dure.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    PODS,
    Object,
    Resource,
    uid_of,
    version_of,
)
from dure.kube.tokens import StatedToken
from dure.kube.transport import Patience
from tests.kube.cluster import KubeCluster
from tests.kube.programs import Program
from tests.kube.things import MANAGER, client_of, config_map, eventually, pod, put

pytestmark = pytest.mark.kube
GADGETS = Resource("test.dure.dev", "v1", "Gadget", "gadgets")


def test_the_server_is_the_kubernetes_that_is_asked_for(kube: KubeCluster) -> None:
    async def run() -> str:
        async with client_of(kube) as client:
            return await client.server_version()

    assert asyncio.run(run()).startswith("v1.36.")


def test_apply_owns_its_fields_and_leaves_others_alone(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "shared", a="1", b="2")
            theirs = config_map(namespace, "shared", c="3")
            await client.apply(CONFIG_MAPS, theirs, manager="other")
            after = await put(client, namespace, "shared", a="4")  # b is no longer wanted
            assert after["data"] == {"a": "4", "c": "3"}

    asyncio.run(run())


def test_a_field_of_another_owner_is_a_conflict_unless_forced(
    kube: KubeCluster, namespace: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "shared", a="1")
            theirs = config_map(namespace, "shared", a="2")
            with pytest.raises(KubeConflictError, match=MANAGER):
                await client.apply(CONFIG_MAPS, theirs, manager="other")
            taken = await client.apply(CONFIG_MAPS, theirs, manager="other", force=True)
            assert taken["data"] == {"a": "2"}

    asyncio.run(run())


def test_an_apply_that_changes_nothing_writes_nothing(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            first = await put(client, namespace, "same", a="1")
            again = await put(client, namespace, "same", a="1")
            assert version_of(first) == version_of(again)

    asyncio.run(run())


def test_lists_come_in_pages_of_one_moment(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            for number in range(7):
                await put(client, namespace, f"own-{number}")
            scope = Scope(namespace, fields="metadata.name!=kube-root-ca.crt")
            pages: list[Page] = []
            async for page in client.pages(CONFIG_MAPS, scope, page_size=3):
                if not pages:
                    await put(client, namespace, "own-late")
                pages.append(page)
            items = [item for page in pages for item in page.items]
            assert [item["metadata"]["name"] for item in items] == [f"own-{n}" for n in range(7)]
            assert all(item["kind"] == "ConfigMap" for item in items)
            assert len(pages) >= 3
            assert len({page.resource_version for page in pages}) == 1

    asyncio.run(run())


def test_names_alone_come_without_what_objects_hold(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "own", a="hush")
            scope = Scope(namespace, fields="metadata.name=own", names_only=True)
            (found,) = await client.list(CONFIG_MAPS, scope)
            assert found["metadata"]["name"] == "own"
            assert "data" not in found
            async with client.watch(CONFIG_MAPS, scope, version_of(found), 60) as events:
                await put(client, namespace, "own", a="louder")
                event = await anext(aiter(events))
                assert event.object["metadata"]["name"] == "own"
                assert "data" not in event.object

    asyncio.run(run())


def test_a_dry_run_is_judged_and_leaves_nothing(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await client.create(CONFIG_MAPS, config_map(namespace, "dry"), dry_run=True)
            with pytest.raises(KubeNotFoundError):
                await client.get(CONFIG_MAPS, "dry", namespace)
            with pytest.raises(KubeInvalidError):
                await client.create(CONFIG_MAPS, config_map(namespace, "Not A Name"), dry_run=True)

    asyncio.run(run())


def test_labels_choose(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            for name, tier in (("one", "a"), ("two", "b")):
                thing = config_map(namespace, name)
                thing["metadata"]["labels"] = {"tier": tier}
                await client.create(CONFIG_MAPS, thing)
            found = await client.list(CONFIG_MAPS, Scope(namespace, labels="tier=b"))
            assert [one["metadata"]["name"] for one in found] == ["two"]

    asyncio.run(run())


def test_a_deletion_meant_for_another_object_is_refused(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            first = await put(client, namespace, "one")
            await client.delete(
                CONFIG_MAPS, "one", namespace=namespace, only=Preconditions(uid_of(first))
            )
            second = await put(client, namespace, "one")
            for only in (
                Preconditions(uid_of(first)),
                Preconditions(uid_of(second), version_of(first)),
            ):
                with pytest.raises(KubeConflictError):
                    await client.delete(CONFIG_MAPS, "one", namespace=namespace, only=only)
            assert uid_of(await client.get(CONFIG_MAPS, "one", namespace)) == uid_of(second)

    asyncio.run(run())


def test_a_change_of_what_has_changed_meanwhile_is_refused(
    kube: KubeCluster, namespace: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            old = await put(client, namespace, "one", a="1")
            await put(client, namespace, "one", a="2")
            stale = {"metadata": {"resourceVersion": version_of(old)}, "data": {"a": "3"}}
            with pytest.raises(KubeConflictError):
                await client.patch(CONFIG_MAPS, "one", stale, namespace=namespace)
            with pytest.raises(KubeConflictError):
                await client.replace(CONFIG_MAPS, {**old, "data": {"a": "3"}})
            now = await client.get(CONFIG_MAPS, "one", namespace)
            assert now["data"] == {"a": "2"}
            changed = await client.replace(CONFIG_MAPS, {**now, "data": {"a": "4"}})
            patched = await client.patch(
                CONFIG_MAPS, "one", {"data": {"a": None, "b": "5"}}, namespace=namespace
            )
            assert version_of(changed) != version_of(patched)
            assert patched["data"] == {"b": "5"}

    asyncio.run(run())


def test_refusals_have_their_kind(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            with pytest.raises(KubeNotFoundError):
                await client.get(CONFIG_MAPS, "none", namespace)
            await client.create(CONFIG_MAPS, config_map(namespace, "one"))
            with pytest.raises(KubeExistsError):
                await client.create(CONFIG_MAPS, config_map(namespace, "one"))
            with pytest.raises(KubeInvalidError, match=r"metadata\.name"):
                await client.create(CONFIG_MAPS, config_map(namespace, "No_Name"))

    asyncio.run(run())


def test_a_list_whose_moment_is_forgotten_ends_with_a_refusal(
    kube: KubeCluster, namespace: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            for name in ("one", "two", "three"):
                await put(client, namespace, name)
            async with aclosing(client.pages(CONFIG_MAPS, Scope(namespace), 1)) as pages:
                await anext(pages)
                await put(client, namespace, "one", a="1")
                kube.forget_history()
                with pytest.raises(KubeExpiredError):
                    await anext(pages)

    asyncio.run(run())


def custom_definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"plural": GADGETS.plural, "singular": "gadget", "kind": GADGETS.kind}
    return {
        "metadata": {"name": f"{GADGETS.plural}.{GADGETS.group}"},
        "spec": {
            "group": GADGETS.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_custom_objects_have_a_status_of_their_own(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            definition = custom_definition()
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, manager=MANAGER)
            name = definition["metadata"]["name"]

            async def established() -> bool:
                found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
                conditions = found.get("status", {}).get("conditions") or ()
                states = {one["type"]: one["status"] for one in conditions}
                return states.get("Established") == "True"

            await eventually("the kind is there", established)
            gadget = {
                "metadata": {"namespace": namespace, "name": "one"},
                "spec": {"size": 1},
                "status": {"phase": "Ignored"},
            }

            async def served() -> bool:
                try:
                    await client.apply(GADGETS, gadget, manager=MANAGER)
                except KubeNotFoundError:
                    return False
                return True

            await eventually("the kind is served", served)
            status = {"status": {"phase": "Ready"}, "spec": {"size": 2}}
            after = await client.patch(
                GADGETS, "one", status, namespace=namespace, subresource="status"
            )
            assert (after["spec"], after["status"]) == ({"size": 1}, {"phase": "Ready"})
            applied = await client.apply(
                GADGETS,
                {"metadata": gadget["metadata"], "status": {"seen": True}},
                manager="other",
                subresource="status",
            )
            assert applied["status"] == {"phase": "Ready", "seen": True}

    asyncio.run(run())


def test_credentials_decide_what_is_allowed(kube: KubeCluster) -> None:
    async def run() -> None:
        nobody = load_access(kube.credentials.kubeconfig(kube.url, "nobody"))
        async with KubeClient(nobody) as client:
            with pytest.raises(KubeForbiddenError, match="nobody"):
                await client.list(PODS)
        async with KubeClient(replace(nobody, tokens=StatedToken("wrong"))) as client:
            with pytest.raises(KubeForbiddenError, match="renew"):
                await client.list(PODS)
        certified = load_access(kube.credentials.certificate_kubeconfig(kube.url))
        assert certified.tokens is None
        async with KubeClient(certified) as client:
            assert isinstance(await client.list(PODS), list)

    asyncio.run(run())


def test_a_server_that_cannot_be_trusted_is_not_spoken_to(
    kube: KubeCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        quick = Patience(retry_for_s=0)
        access = load_access(kube.kubeconfig)
        async with KubeClient(replace(access, authority=None), quick) as client:
            with pytest.raises(KubeUnreachableError, match="not to be trusted"):
                await client.list(PODS)
        elsewhere = replace(access, server_name="elsewhere.example")
        async with KubeClient(elsewhere, quick) as client:
            with pytest.raises(KubeUnreachableError, match="not to be trusted"):
                await client.list(PODS)
        async with KubeClient(replace(access, server_name="localhost"), quick) as client:
            await client.list(PODS)

    asyncio.run(run())


def log_line(kube: KubeCluster, text: str) -> None:
    with kube.pod_log_file.open("a", encoding="utf-8") as file:
        file.write(f"2026-01-01T00:00:00.000000000Z stdout F {text}\n")


def test_logs_are_read_and_followed(kube: KubeCluster, namespace: str) -> None:
    kube.pod_log_file.write_text("", encoding="utf-8")
    for text in ("first", "second \u2028 line", "third"):
        log_line(kube, text)

    async def run() -> None:
        async with client_of(kube) as client:
            await client.create(PODS, pod(namespace, "talker"))

            async def running() -> bool:
                found = await client.get(PODS, "talker", namespace)
                return bool(found["status"]["phase"] == "Running")

            await eventually("the Pod runs", running)
            whole = [line async for line in client.log_lines("talker", namespace)]
            assert whole == ["first", "second \u2028 line", "third"]
            tail = LogOptions(container="main", tail_lines=1)
            assert [line async for line in client.log_lines("talker", namespace, tail)] == ["third"]
            follow = LogOptions(follow=True, tail_lines=1)
            heard: list[str] = []
            lines = client.log_lines("talker", namespace, follow)
            try:
                async with asyncio.timeout(60):
                    async for line in lines:
                        heard.append(line)
                        if len(heard) == 3:
                            break
                        log_line(kube, f"new {len(heard)}")
            finally:
                await lines.aclose()
            assert heard == ["third", "new 1", "new 2"]
            with pytest.raises(KubeNotFoundError):
                _ = [line async for line in client.log_lines("nobody", namespace)]

    asyncio.run(run())


async def start_later(program: Program) -> None:
    await asyncio.sleep(1.0)
    program.start()


@pytest.mark.parametrize("verb", ["get", "apply", "create"])
def test_a_request_outlives_a_restart_of_the_server(
    kube: KubeCluster, namespace: str, verb: str
) -> None:
    async def run() -> None:
        async with client_of(kube) as client:
            await put(client, namespace, "one", a="1")
            kube.api_servers[0].kill()
            starting = asyncio.create_task(start_later(kube.api_servers[0]))
            if verb == "get":
                assert (await client.get(CONFIG_MAPS, "one", namespace))["data"] == {"a": "1"}
            elif verb == "apply":
                assert (await put(client, namespace, "one", a="2"))["data"] == {"a": "2"}
            else:  # no connection came about, so it cannot have been done
                created = await client.create(CONFIG_MAPS, config_map(namespace, "two"))
                assert created["metadata"]["name"] == "two"
            await starting

    asyncio.run(run())


def test_a_client_says_when_it_gives_up(kube: KubeCluster, namespace: str) -> None:
    async def run() -> None:
        async with client_of(kube, patience=Patience(retry_for_s=0.5)) as client:
            kube.api_servers[0].kill()
            with pytest.raises(KubeUnreachableError, match="no API server can be reached"):
                await client.get(CONFIG_MAPS, "one", namespace)

    asyncio.run(run())
