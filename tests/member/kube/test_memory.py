"""What a member remembers in Secrets, and who of several leads by a Lease."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dure.domain.errors import DureError, InputError
from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.errors import KubeConflictError
from dure.kube.requests import Scope
from dure.kube.resources import LEASES, SECRETS
from dure.kube.transport import Patience
from dure.member.kube.election import LeaseElection, LeaseTimes
from dure.member.kube.memory import SHARDS, SecretMemory
from tests.contracts.carriers import WAIT_S, run
from tests.kube.cluster import KubeCluster
from tests.kube.fixtures import namespace
from tests.kube.relay import Relay

__all__ = ["namespace"]

TIMES = LeaseTimes(lasts_s=3.0, renew_within_s=2.0, again_s=0.2)


@asynccontextmanager
async def client_in(
    cluster: KubeCluster, space: str, *, url: str = "", retry_for_s: float = WAIT_S
) -> AsyncIterator[KubeClient]:
    access = replace(load_access(cluster.kubeconfig), namespace=space)
    access = replace(access, url=url or access.url)
    async with KubeClient(access, Patience(retry_for_s=retry_for_s, answer_s=5.0)) as client:
        yield client


@pytest.mark.kube
def test_what_was_saved_is_there_after_any_death(kube: KubeCluster, namespace: str) -> None:
    async def test() -> None:
        chance = random.Random(3)
        expected: dict[str, object] = {}
        async with client_in(kube, namespace) as client:
            memory = SecretMemory(client, "memory")
            assert await memory.load() == {}
            for _ in range(20):
                changed = {
                    f"key-{chance.randrange(300)}": {"n": chance.random()} for _ in range(30)
                }
                removed = [f"key-{chance.randrange(300)}" for _ in range(5)]
                removed = [key for key in removed if key not in changed]
                await memory.save(changed, removed)
                expected |= changed
                for key in removed:
                    expected.pop(key, None)
                other = SecretMemory(client, "memory")
                assert await other.load() == expected
            assert len(await client.list(SECRETS, Scope(namespace))) <= SHARDS

    run(test)


@pytest.mark.kube
def test_a_second_writer_is_found_out_and_loses_nothing(kube: KubeCluster, namespace: str) -> None:
    async def test() -> None:
        async with client_in(kube, namespace) as client:
            one, other = SecretMemory(client, "memory"), SecretMemory(client, "memory")
            await one.load()
            await one.save({"a": 1})
            await other.load()
            await one.save({"a": 2})
            with pytest.raises(KubeConflictError):
                await other.save({"a": 3})
            assert await SecretMemory(client, "memory").load() == {"a": 2}
            assert await other.load() == {"a": 2}
            await other.save({"a": 3})
            assert await SecretMemory(client, "memory").load() == {"a": 3}

    run(test)


@pytest.mark.kube
def test_a_save_that_nobody_waits_for_any_more_is_no_second_writer(
    kube: KubeCluster, namespace: str
) -> None:
    async def test() -> None:
        async with client_in(kube, namespace) as client:
            memory = SecretMemory(client, "memory")
            await memory.load()
            await memory.save({"key": 0})
            for number in range(1, 20):
                saving = asyncio.create_task(memory.save({"key": number}))
                await asyncio.sleep(number * 0.001)
                saving.cancel()
                await asyncio.gather(saving, return_exceptions=True)
            await memory.save({"key": "last"})
            assert await SecretMemory(client, "memory").load() == {"key": "last"}

    run(test)


@pytest.mark.kube
def test_a_save_survives_the_death_of_the_api_server(kube: KubeCluster, namespace: str) -> None:
    async def test() -> None:
        async with client_in(kube, namespace) as client:
            memory = SecretMemory(client, "memory")
            await memory.load()
            await memory.save({f"key-{number}": number for number in range(100)})
            kube.api_servers[0].kill()
            saving = asyncio.create_task(
                memory.save({f"key-{number}": -number for number in range(100)})
            )
            await asyncio.sleep(0.5)
            kube.start()
            await saving
            found = await SecretMemory(client, "memory").load()
            assert found == {f"key-{number}": -number for number in range(100)}

    run(test)


@pytest.mark.kube
def test_what_does_not_fit_is_refused_and_the_rest_stays(kube: KubeCluster, namespace: str) -> None:
    async def test() -> None:
        noise = random.Random(1).randbytes(1_200_000).hex()
        async with client_in(kube, namespace) as client:
            memory = SecretMemory(client, "memory")
            await memory.load()
            await memory.save({"small": 1})
            with pytest.raises(DureError, match="more than fit"):
                await memory.save({"large": noise})
            await memory.save({"small": 2})
            assert await SecretMemory(client, "memory").load() == {"small": 2}

    run(test)


def test_lease_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(InputError):
        LeaseTimes(lasts_s=10.0, renew_within_s=10.0)


@pytest.mark.kube
def test_one_of_several_leads_and_the_next_follows_when_it_dies(
    kube: KubeCluster, namespace: str
) -> None:
    async def test() -> None:
        leading: list[str] = []

        async def stand(client: KubeClient, name: str) -> None:
            await LeaseElection(client, "member", name, TIMES).lead()
            leading.append(name)

        async with client_in(kube, namespace) as one, client_in(kube, namespace) as two:
            first = LeaseElection(one, "member", "a", TIMES)
            await first.lead()
            waiting = asyncio.create_task(stand(two, "b"))
            await asyncio.sleep(2 * TIMES.lasts_s)
            assert not leading, "a holder that renews is not overtaken"
            assert first._renewing is not None
            first._renewing.cancel()  # as a death would
            await waiting
            lease = await one.get(LEASES, "member")
            assert lease["spec"]["holderIdentity"] == "b"
            assert lease["spec"]["leaseTransitions"] == 2

    run(test)


@pytest.mark.kube
def test_a_leader_that_is_cut_off_stops_before_another_can_lead(
    kube: KubeCluster, namespace: str
) -> None:
    async def test() -> None:
        relay = Relay(kube.url)
        await relay.mend()
        async with (
            client_in(kube, namespace, url=relay.url, retry_for_s=1.0) as cut_off,
            client_in(kube, namespace) as free,
        ):
            first = LeaseElection(cut_off, "member", "a", TIMES)
            second = LeaseElection(free, "member", "b", TIMES)
            await first.lead()
            waiting = asyncio.create_task(second.lead())
            await asyncio.sleep(1.0)
            await relay.cut()
            await first.lost()
            assert not waiting.done()
            assert (await free.get(LEASES, "member"))["spec"]["holderIdentity"] == "a"
            await waiting
            await second.resign()

    run(test)


@pytest.mark.kube
def test_who_resigns_need_not_be_waited_for(kube: KubeCluster, namespace: str) -> None:
    async def test() -> None:
        async with client_in(kube, namespace) as client:
            slow = LeaseTimes(lasts_s=600.0, renew_within_s=300.0, again_s=0.2)
            first = LeaseElection(client, "member", "a", slow)
            await first.lead()
            await first.resign()
            second = LeaseElection(client, "member", "b", slow)
            async with asyncio.timeout(WAIT_S):
                await second.lead()
            await second.resign()

    run(test)
