"""Slices by claims: a driver on paper, Kubernetes' own allocator, and exactly the slots chosen."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired
from dure.domain.fleet.slices import ShareMode, SliceTemplate, masks
from dure.domain.ids import WorkloadId
from dure.kube.client import KubeClient
from dure.kube.paper_devices import DRIVER, device_slices
from dure.kube.requests import Scope
from dure.kube.resources import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Object
from dure.member.kube.claims import allocated, read_offers
from dure.member.kube.spots import NodeSpot
from dure.member.ports import Life, Start
from dure.stores.ids import new_id
from tests.contracts.carriers import Eyes, desired, run, watching
from tests.kube.cluster import KubeCluster
from tests.kube.things import MANAGER, client_of, eventually, pod
from tests.member.kube.beds import KubeBed, make_bed

H100 = device_profile("h100")
MIG = [template for template in H100.slices if template.mode is ShareMode.MIG]
GPUS = 8


# What needs no cluster


def test_offers_are_found_by_gpu_and_slots_whatever_they_are_called() -> None:
    offers = read_offers(device_slices("n", H100, 12))["n"]
    assert (offers.devices().count, offers.devices().mode) == (12, ShareMode.MIG)
    assert offers.devices().profile is H100
    (one,) = offers.chosen(NodeSpot("n", (10,), (0b1111_0000,), "3g.40gb"))
    assert one.name == "gpu-10-mig-3g40gb-4"
    assert '"GPU-n-10"' in one.selector
    two = offers.chosen(NodeSpot("n", (2, 3), (1, 1), "whole"))
    assert [each.name for each in two] == ["gpu-2", "gpu-3"]
    with pytest.raises(DureError, match="offers 3g"):
        offers.chosen(NodeSpot("n", (0,), (0b1111_000,), "3g.40gb"))


def test_every_device_has_a_selector_of_its_own() -> None:
    offers = read_offers(device_slices("n", H100, 8))["n"].offers
    assert len({offer.selector for offer in offers}) == len(offers) == 8 * 19


def test_devices_without_attributes_of_their_own_are_refused() -> None:
    slices = device_slices("n", H100, 1)
    for thing in slices:
        for device in thing["spec"].get("devices", ()):
            device["attributes"].pop("placementStart", None)
    offers = read_offers(slices)["n"]
    with pytest.raises(DureError, match="no attributes of its own"):
        offers.chosen(NodeSpot("n", (0,), (1,), "1g.10gb"))


def test_old_generations_of_a_pool_do_not_count() -> None:
    old, new = device_slices("n", H100, 2), device_slices("n", H100, 1)
    for thing in new:
        thing["spec"]["pool"] = {**thing["spec"]["pool"], "generation": 2}
    assert read_offers([*old, *new])["n"].devices().count == 1


# On a real scheduler


@pytest.fixture
def mig_bed(kube: KubeCluster) -> Iterator[KubeBed]:
    """Two nodes whose eight H100 each can be cut as claims ask."""
    bed = make_bed(kube, nodes=0)
    tag = bed.namespace.removeprefix("team-")
    bed.nodes = tuple(f"mig-{tag}-{number}" for number in range(2))
    bed.add_nodes(*bed.nodes, resources={})
    bed.settings = replace(bed.settings, device_class=f"dure-{tag}")
    device_class = {"metadata": {"name": bed.settings.device_class}, "spec": {}}
    kube.request("POST", DEVICE_CLASSES.path(), {**_kind(DEVICE_CLASSES), **device_class})
    for node in bed.nodes:
        for thing in device_slices(node, H100, GPUS):
            kube.request("POST", RESOURCE_SLICES.path(), {**_kind(RESOURCE_SLICES), **thing})
    yield bed
    for node in bed.nodes:
        for number in range(len(device_slices(node, H100, GPUS))):
            kube.request("DELETE", RESOURCE_SLICES.path("", f"{node}-{DRIVER}-{number}"))
    kube.request("DELETE", DEVICE_CLASSES.path("", bed.settings.device_class))
    bed.close()


def _kind(resource: object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind}  # type: ignore[attr-defined]


@dataclass
class Slots:
    """What is free, as a local stage would know."""

    chance: random.Random
    nodes: tuple[str, ...]
    used: dict[tuple[str, int], int] = field(default_factory=dict)

    def choose(self) -> tuple[str, int, SliceTemplate, int] | None:
        """A random slice that fits somewhere, at a random place where it does."""
        for template in self.chance.sample(MIG, len(MIG)):
            free = [
                (node, device, template, mask)
                for node in self.nodes
                for device in range(GPUS)
                for mask in masks(template)
                if not self.used.get((node, device), 0) & mask
            ]
            if free:
                return self.chance.choice(free)
        return None


def placed(eyes: Eyes, node: str, device: int, template: str, mask: int) -> Placement:
    whole = eyes.placement(node, device)
    return Placement(whole.node, whole.devices, (mask,), template)


def mig_start(eyes: Eyes, wanted: Desired, place: tuple[str, int, str, int]) -> Start:
    instance = InstanceId(wanted.key.job, wanted.key.attempt, 0)
    return Start(instance, wanted, placed(eyes, *place), place[0], (place[1],))


def slots_of(name: str) -> tuple[str, int]:
    """GPU and slots of a device by the driver's name for it."""
    parts = name.split("-")
    gpu = f"{parts[0]}-{parts[1]}"
    if len(parts) == 2:
        return gpu, 0xFF
    template = parts[3].replace("g", "g.", 1)
    start = int(parts[4])
    slots = H100.slice(template).slots
    return gpu, ((1 << slots) - 1) << start


def overlaps(claims: list[Object]) -> list[str]:
    """Devices given to two at once."""
    used: dict[tuple[str, str], int] = {}
    found = []
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            gpu, mask = slots_of(result["device"])
            if used.get((result["pool"], gpu), 0) & mask:
                found.append(result["device"])
            used[result["pool"], gpu] = used.get((result["pool"], gpu), 0) | mask
    return found


@pytest.mark.kube
def test_200_random_claims_get_the_slots_that_were_chosen_and_none_overlap(
    mig_bed: KubeBed,
) -> None:
    async def test() -> None:
        slots = Slots(random.Random(6), mig_bed.nodes)
        done = 0
        async with (
            mig_bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(mig_bed.cluster) as client,
        ):
            while done < 200:
                slots.used.clear()
                wave: list[tuple[Start, str, int]] = []
                while done + len(wave) < 200 and (found := slots.choose()):
                    node, device, template, mask = found
                    slots.used[node, device] = slots.used.get((node, device), 0) | mask
                    wanted = desired(mig_bed, mig_bed.program(), job=new_id())
                    start = mig_start(eyes, wanted, (node, device, template.name, mask))
                    wave.append((start, f"gpu-{device}", mask))
                assert wave
                await carrier._hands.all_of(partial(carrier.start, [start]) for start, _, _ in wave)
                for start, gpu, mask in wave:
                    running = await eyes.comes_to(start.instance, Life.READY)
                    assert running.node == start.node
                    claim = await claim_of(client, mig_bed, running.name)
                    assert [slots_of(name) for name in allocated(claim)] == [(gpu, mask)]
                claims = await client.list(RESOURCE_CLAIMS, Scope(mig_bed.namespace))
                assert overlaps(claims) == []
                done += len(wave)
                for start, _, _ in wave:
                    await carrier.stop(start.instance, 1.0)
                for start, _, _ in wave:
                    await eyes.comes_to(start.instance, Life.GONE)
            await eventually("all claims went with their Pods", lambda: no_claims(client, mig_bed))

    run(test)


async def claim_of(client: KubeClient, bed: KubeBed, name: str) -> Object:
    made = await client.get(PODS, name, bed.namespace)
    claim = made["spec"]["resourceClaims"][0]["resourceClaimName"]
    return await client.get(RESOURCE_CLAIMS, claim, bed.namespace)


async def no_claims(client: KubeClient, bed: KubeBed) -> bool:
    return not await client.list(RESOURCE_CLAIMS, Scope(bed.namespace))


@pytest.mark.kube
def test_slots_that_somebody_else_holds_are_not_given_and_what_holds_them_is_told(
    mig_bed: KubeBed,
) -> None:
    mig_bed.settings = replace(mig_bed.settings, bind_within_s=4.0)

    async def test() -> None:
        node = mig_bed.nodes[0]
        async with (
            mig_bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(mig_bed.cluster) as client,
        ):
            offer = read_offers(device_slices(node, H100, GPUS))[node].chosen(
                NodeSpot(node, (3,), (0b1111,), "4g.40gb")
            )[0]
            exactly = {
                "deviceClassName": mig_bed.settings.device_class,
                "selectors": [{"cel": {"expression": offer.selector}}],
            }
            spec = {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}
            metadata = {"name": "foreign", "namespace": mig_bed.namespace}
            await client.create(RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec})
            foreign = pod(mig_bed.namespace, "foreign")
            foreign["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": "foreign"}]
            foreign["spec"]["containers"][0]["resources"] = {"claims": [{"name": "d"}]}
            await client.create(PODS, foreign)
            await eyes.until("it is told", lambda: eyes.taken(node).devices == 1)
            wanted = desired(mig_bed, mig_bed.program())
            clash = mig_start(eyes, wanted, (node, 3, "1g.10gb", 0b100))
            await carrier.start([clash])
            ended = await eyes.comes_to(clash.instance, Life.UNBOUND)
            assert ended.why
            beside = mig_start(
                eyes, desired(mig_bed, mig_bed.program()), (node, 3, "3g.40gb", 0b1111_0000)
            )
            await carrier.start([beside])
            await eyes.comes_to(beside.instance, Life.READY)
            await carrier.stop(beside.instance, 1.0)

    run(test)


@pytest.mark.kube
def test_a_gang_by_claims_gets_the_devices_of_its_nodes(mig_bed: KubeBed) -> None:
    async def test() -> None:
        async with (
            mig_bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(mig_bed.cluster) as client,
        ):
            wanted = desired(mig_bed, mig_bed.program(), workers=3)
            places = [(mig_bed.nodes[0], 1), (mig_bed.nodes[0], 5), (mig_bed.nodes[1], 2)]
            gang = [
                Start(
                    InstanceId(WorkloadId(wanted.key.job), 1, index),
                    wanted,
                    eyes.placement(node, device),
                    node,
                    (device,),
                    index,
                    len(places),
                )
                for index, (node, device) in enumerate(places)
            ]
            await carrier.start(gang)
            for start in gang:
                assert (await eyes.comes_to(start.instance, Life.READY)).node == start.node
            claims = await client.list(RESOURCE_CLAIMS, Scope(mig_bed.namespace))
            given = {
                (result["pool"], result["device"])
                for claim in claims
                for result in claim["status"]["allocation"]["devices"]["results"]
            }
            assert given == {(node, f"gpu-{device}") for node, device in places}
            for start in gang:
                await carrier.stop(start.instance, 1.0)
            for start in gang:
                await eyes.comes_to(start.instance, Life.GONE)

    run(test)


@pytest.mark.kube
def test_a_claim_that_was_given_something_else_is_a_failure(mig_bed: KubeBed) -> None:
    async def test() -> None:
        node = mig_bed.nodes[0]
        async with (
            mig_bed.carrier() as carrier,
            watching(carrier) as eyes,
            client_of(mig_bed.cluster) as client,
        ):
            start = mig_start(eyes, desired(mig_bed, mig_bed.program()), (node, 0, "1g.10gb", 1))
            unit = carrier._unit(start)
            offers = read_offers(device_slices(node, H100, GPUS))[node]
            other = offers.chosen(NodeSpot(node, (6,), (2,), "1g.10gb"))
            exactly = {
                "deviceClassName": mig_bed.settings.device_class,
                "selectors": [{"cel": {"expression": other[0].selector}}],
            }
            labels = {"dure.io/managed-by": "dure"}
            metadata = {"name": unit.claim_name, "namespace": mig_bed.namespace, "labels": labels}
            spec = {"devices": {"requests": [{"name": "device-0", "exactly": exactly}]}}
            await client.apply(
                RESOURCE_CLAIMS, {"metadata": metadata, "spec": spec}, manager=MANAGER
            )
            await carrier.start([start])
            ended = await eyes.comes_to(start.instance, Life.FAILED)
            assert ended.why == "the driver gave gpu-6-mig-1g10gb-1, not gpu-0-mig-1g10gb-0"

    run(test)
