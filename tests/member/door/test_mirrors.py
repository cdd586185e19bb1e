"""What kubectl shows of accelerators, pools and placements of a cluster."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dure.member.door.mirrors import object_name
from dure.stores.rows import NewEvent, Pool
from tests.member.door.beds import World, whole
from tests.member.kube.beds import KubeBed


def test_names_that_kubernetes_would_refuse_get_others_that_stay_apart() -> None:
    assert object_name("gold-1") == "gold-1"
    made = {object_name(name) for name in ("Gold_1", "gold_1", "GOLD-1", "gold-1")}
    assert len(made) == 4
    assert all(name.startswith("gold-1") for name in made)


@pytest.mark.kube
def test_readers_see_what_the_cluster_has_and_what_is_carried_out_there(
    bed: KubeBed, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with whole(bed, tmp_path) as world:
            async with world.store.transaction() as tx:
                spec = {"tenant": "acme", "profile": "h100", "guaranteed": 2}
                await tx.pools.add(Pool("Gold_1", "acme", spec))
                tx.events.add(NewEvent("pool.changed", "Gold_1"))
            await world.apply("train")
            running = await world.phase("train", "Running")
            (placement,) = await world.until(
                "a placement",
                lambda: running_placements(world),
            )
            assert placement["spec"] == {
                "job": running["jobId"],
                "attempt": 1,
                "tenant": "acme",
                "kind": "batch",
                "cluster": "here",
            }
            status = placement["status"]
            assert (status["slice"], status["costPerHour"], status["currency"]) == (
                "whole",
                2.5,
                "USD",
            )
            assert status["node"] in bed.nodes
            assert "ownerReferences" not in placement["metadata"]
            (profile,) = await world.items("aprofile")
            assert profile["metadata"]["name"] == "h100"
            assert profile["status"]["devices"] == 16
            (pool,) = await world.until("a pool", lambda: world.items("vnp"))
            assert pool["status"]["name"] == "Gold_1"
            assert pool["spec"]["guaranteed"] == 2
            # Whoever changes one changes nothing.
            patch = '{"spec":{"guaranteed":99}}'
            name = pool["metadata"]["name"]
            await world.kubectl_async("patch", "vnp", name, "--type=merge", "-p", patch)

            async def put_right() -> bool:
                (pool,) = await world.items("vnp")
                return bool(pool["spec"]["guaranteed"] == 2)

            await world.until("it is put right", put_right)
            await world.kubectl_async("delete", "ajob", "train", "-n", bed.namespace)

            async def gone() -> bool:
                return not await world.items("placements")

            await world.until("no placement", gone)

    asyncio.run(scenario())


async def running_placements(world: World) -> list[Any]:
    found = await world.items("placements")
    return [each for each in found if (each.get("status") or {}).get("state") == "running"]
