"""People with kubectl: what they apply becomes jobs, and shows what became of these."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from dure.domain.fleet.lifecycle import JobPhase
from tests.member.door.beds import CRDS, World, declared, install, whole
from tests.member.kube.beds import KubeBed

pytestmark = pytest.mark.kube


def test_what_is_applied_is_placed_like_any_other_job_and_shows_where_and_what_it_costs(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            await world.apply("train", runs="8s")
            running = await world.phase("train", "Running")
            assert running["cluster"] == "here"
            assert running["slice"] == "whole"
            assert (running["costPerHour"], running["currency"]) == (2.5, "USD")
            assert running["gCO2PerHour"] > 0
            columns = await world.kubectl_async("get", "ajob", "-n", bed.namespace)
            head, line = columns.splitlines()
            names = ["NAME", "CLUSTER", "SLICE", "COST/H", "GCO2/H", "PHASE", "AGE"]
            assert head.split() == names
            assert line.split()[:4] == ["train", "here", "whole", "2.5"]
            (job,) = await world.jobs()
            assert (job.id, job.tenant, job.name) == (running["jobId"], "acme", "train")
            done = await world.phase("train", "Succeeded")
            assert done["conditions"][0]["status"] == "True"
            (job,) = await world.jobs()
            assert job.phase is JobPhase.SUCCEEDED

    asyncio.run(scenario())


def test_a_namespace_that_nobody_bound_is_told_so_and_works_once_it_is(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with declared(bed, tmp_path) as world:
            await world.bind({})
            async with world.centre(), world.member():
                await world.apply("train")
                refused = await world.phase("train", "Refused")
                (condition,) = refused["conditions"]
                assert (condition["status"], condition["reason"]) == ("False", "NamespaceNotBound")
                assert "administrator binds it" in condition["message"]
                assert not await world.jobs()
                await world.bind({"acme": bed.namespace})
                await world.phase("train", "Running")

    asyncio.run(scenario())


def test_what_the_centre_refuses_shows_field_reason_and_remedy(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            await world.apply("train", resources={"memory": "1GiB", "profiles": ["h1000"]})
            refused = await world.phase("train", "Refused")
            assert "resources.profiles[0]: 'h1000' is not a known accelerator" in refused["message"]
            assert "h100" in refused["message"]
            await world.kubectl_async("delete", "ajob", "train", "-n", bed.namespace)
            assert not await world.jobs()

    asyncio.run(scenario())


def test_priority_and_suspend_travel_up_and_nothing_else_can_be_edited(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            await world.apply("train")
            await world.phase("train", "Running")
            where = ("ajob", "train", "-n", bed.namespace, "--type=merge")
            refused = await world.kubectl_async(
                "patch", *where, "-p", '{"spec":{"image":"other"}}', good=False
            )
            assert "spec.image" in refused
            assert "cannot be changed; delete the job and apply it anew" in refused
            await world.kubectl_async("patch", *where, "-p", '{"spec":{"suspend":true}}')
            suspended = await world.phase("train", "Suspended")
            assert "costPerHour" not in suspended
            edit = '{"spec":{"suspend":false,"priority":9}}'
            await world.kubectl_async("patch", *where, "-p", edit)
            again = await world.phase("train", "Running")
            assert again["attempt"] == 2
            (job,) = await world.jobs()
            assert (job.priority, job.suspended, job.spec["image"]) == (9, False, "paper")

    asyncio.run(scenario())


def test_what_is_deleted_is_cancelled_and_its_pods_go(bed: KubeBed, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            await world.apply("train")
            await world.phase("train", "Running")
            (pod,) = pods(bed)
            assert not pod["metadata"].get("ownerReferences")
            await world.kubectl_async("delete", "ajob", "train", "-n", bed.namespace)
            await world.until("no Pods", lambda: nothing(pods(bed)))
            (job,) = await world.jobs()
            await world.until("its end", lambda: ended(world, job.id, JobPhase.CANCELLED))

    asyncio.run(scenario())


def test_without_a_centre_deletes_return_at_once_and_what_it_never_heard_of_never_starts(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with declared(bed, tmp_path) as world:
            async with world.centre(), world.member():
                await world.apply("known")
                await world.phase("known", "Running")
            async with world.member():  # and no centre
                await world.apply("unheard")
                await world.apply("kept")
                pending = await world.phase("unheard", "Pending")
                assert "not answered" in pending["message"]
                began_s = time.monotonic()
                names = ("known", "unheard")
                await world.kubectl_async("delete", "ajob", *names, "-n", bed.namespace)
                assert time.monotonic() - began_s < 20.0
                assert await objects(world) == {"kept"}
            # The member died, too: what it wrote down is told by the next one.
            async with world.centre(), world.member():
                await world.phase("kept", "Running")
                (known,) = [job for job in await world.jobs() if job.name == "known"]
                await world.until("its end", lambda: ended(world, known.id, JobPhase.CANCELLED))
                assert {job.name for job in await world.jobs()} == {"known", "kept"}
                async with world.store.reading() as tx:
                    origins = await tx.origins.all(cluster="here")
                withdrawn = {each.name for each in origins if each.withdrawn_ns is not None}
                assert withdrawn == {"known", "unheard"}

    asyncio.run(scenario())


def test_removing_the_kinds_ends_nobodys_job(bed: KubeBed, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            await world.apply("train")
            await world.phase("train", "Running")
            before = {pod["metadata"]["uid"] for pod in pods(bed)}
            await world.kubectl_async("delete", "-f", str(CRDS), "--timeout=60s")
            await asyncio.sleep(3.0)
            assert {pod["metadata"]["uid"] for pod in pods(bed)} == before
            (job,) = await world.jobs()
            assert job.phase is JobPhase.RUNNING
            await asyncio.to_thread(install, bed.cluster)
            await world.apply("another", runs="1s")
            await world.phase("another", "Succeeded")
            assert len(await world.jobs()) == 2

    asyncio.run(scenario())


def pods(bed: KubeBed) -> list[Any]:
    return list(bed.cluster.request("GET", f"/api/v1/namespaces/{bed.namespace}/pods")["items"])


async def nothing(found: list[Any]) -> bool:
    return not found


async def ended(world: World, job_id: str, phase: JobPhase) -> bool:
    return any(job.id == job_id and job.phase is phase for job in await world.jobs())


async def objects(world: World) -> set[str]:
    found = json.loads(
        await world.kubectl_async("get", "ajob", "-n", world.bed.namespace, "-o", "json")
    )
    return {thing["metadata"]["name"] for thing in found["items"]}
