"""What the centre has for this cluster, and what is carried out here, as objects for readers.

Accelerators and pools come from what the centre says surrounds the cluster, placements from the
member's own books. Whoever changes one of these objects changes nothing: it is put right again.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from dure.api.accelerators import accelerator_document
from dure.api.cluster_views import GRAMS_PER_HOUR
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.protocol.desired import Surroundings
from dure.domain.fleet.tenancy import VNodePool
from dure.domain.fleet.virtual import SpacePhase, SpaceStatus, VirtualCluster, VirtualTier
from dure.fleet.hourly import WHOLE, devices_of, hour_of, slices_of, spoken
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError, KubeNotFoundError
from dure.kube.requests import Preconditions, Scope
from dure.kube.resources import Object, Resource, key_of, uid_of
from dure.member.clock import FleetClock
from dure.member.core.desk import Desk
from dure.member.core.held import Held
from dure.member.door.kinds import PLACEMENTS, POOLS, PROFILES, VIRTUAL_CLUSTERS
from dure.member.door.wording import priced
from dure.member.kube import names

_log = logging.getLogger("dure.member")

_LOOK_S = 2.0
LIST_S = 60.0
"""How often it is looked whether somebody else changed them."""
_HANDS = 8
"""Requests at a time."""
_DIGITS = 4
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Place(NamedTuple):
    """Which object it is."""

    resource: Resource
    namespace: str
    name: str


Shown = tuple[dict[str, Any], dict[str, Any]]
"""Spec and status."""


class Mirrors:
    """Keeps the objects as they shall be."""

    def __init__(self, client: KubeClient, desk: Desk, clock: FleetClock) -> None:
        self._client = client
        self._desk = desk
        self._clock = clock
        self._there: dict[Place, Object] = {}
        self._listed_s = 0.0
        self._hands = asyncio.Semaphore(_HANDS)

    async def run(self) -> None:
        """Until cancelled."""
        self._listed_s = 0.0
        while True:
            try:
                await self._show()
            except KubeError as error:
                _log.warning("what is for readers alone is out of date: %s", error)
                self._listed_s = 0.0
            await asyncio.sleep(_LOOK_S)

    async def _show(self) -> None:
        if time.monotonic() - self._listed_s >= LIST_S or not self._listed_s:
            await self._list()
        wanted = dict(self._wanted())
        puts = [
            self._put(place, shown)
            for place, shown in wanted.items()
            if not _same(self._there.get(place), shown)
        ]
        drops = [self._drop(place) for place in self._there if place not in wanted]
        await asyncio.gather(*puts, *drops)

    async def _list(self) -> None:
        ours = Scope(labels=names.OURS)
        self._there = {
            Place(resource, *key_of(thing)): thing
            for resource in (PLACEMENTS, PROFILES, POOLS, VIRTUAL_CLUSTERS)
            for thing in await self._client.list(resource, ours)
        }
        self._listed_s = time.monotonic()

    async def _put(self, place: Place, shown: Shown) -> None:
        spec, status = shown
        metadata = {
            "name": place.name,
            "labels": {names.MANAGED_BY: names.MANAGER},
            **({"namespace": place.namespace} if place.namespace else {}),
        }
        async with self._hands:
            try:
                for subresource, part in (("", {"spec": spec}), ("status", {"status": status})):
                    self._there[place] = await self._client.apply(
                        place.resource,
                        {"metadata": metadata, **part},
                        manager=names.MANAGER,
                        force=True,
                        subresource=subresource,
                    )
            except KubeNotFoundError as error:  # its namespace is gone
                _log.debug("%s cannot be shown: %s", place.name, error)

    async def _drop(self, place: Place) -> None:
        uid = uid_of(self._there[place])
        async with self._hands:
            with suppress(KubeNotFoundError):
                await self._client.delete(
                    place.resource,
                    place.name,
                    namespace=place.namespace,
                    only=Preconditions(uid=uid),
                )
        self._there.pop(place, None)

    # What shall be there

    def _wanted(self) -> Iterator[tuple[Place, Shown]]:
        around, now_ns = self._desk.stage.surroundings, self._clock.now_ns()
        if around is None:
            return
        yield from _profiles(around.cluster, now_ns)
        yield from _pools(around)
        for virtual in around.virtual:
            yield _virtual(virtual, self._desk.teller.spaces.of(virtual.name))
        for held in self._desk.books.attempts.values():
            if held.wanted and held.desired is not None and held.desired.namespace:
                name = names.attempt_name(held.key)
                place = Place(PLACEMENTS, held.desired.namespace, name)
                before = (self._there.get(place) or {}).get("status") or {}
                yield place, _placement(held, around.cluster, before, now_ns)


def _same(there: Object | None, shown: Shown) -> bool:
    return there is not None and (there.get("spec"), there.get("status") or {}) == shown


def _profiles(cluster: Cluster, now_ns: int) -> Iterator[tuple[Place, Shown]]:
    for name in sorted({group.profile for group in cluster.groups}):
        profile = device_profile(name)
        groups = [group for group in cluster.groups if group.profile == name]
        spec = accelerator_document(profile).model_dump(mode="json")
        del spec["name"]
        money, grams = hour_of(cluster, groups[0].name, 1.0, now_ns)
        status = {
            "nodes": sum(group.count for group in groups),
            "devices": sum(group.count * group.devices for group in groups),
            **_prices(cluster, money, grams),
        }
        yield Place(PROFILES, "", object_name(profile.name)), (_plain(spec), _plain(status))


def _pools(around: Surroundings) -> Iterator[tuple[Place, Shown]]:
    leases = {each.pool: each for each in around.allotments}
    for pool in around.pools:
        lease = leases.get(pool.id)
        status = {
            "name": str(pool.id),
            "units": 0 if lease is None else lease.units,
            "lent": 0 if lease is None else lease.lent,
            "revision": 0 if lease is None else lease.revision,
        }
        yield Place(POOLS, "", object_name(pool.id)), (_pool_spec(pool), _plain(status))


def _virtual(virtual: VirtualCluster, status: SpaceStatus | None) -> tuple[Place, Shown]:
    spec = {
        "tenant": virtual.tenant,
        "tier": virtual.tier.value,
        "pools": [str(pool) for pool in virtual.pools] or None,
    }
    phase = SpacePhase.ASKED if status is None else status.phase
    if virtual.tier is VirtualTier.DEDICATED:
        phase = SpacePhase.READY  # All it has here are its pools.
    shown = {
        "phase": phase.value.capitalize(),
        "namespace": virtual.namespace or None,
        "message": (status.why or None) if status is not None else None,
    }
    return Place(VIRTUAL_CLUSTERS, "", object_name(virtual.name)), (_plain(spec), _plain(shown))


def _pool_spec(pool: VNodePool) -> dict[str, Any]:
    return _plain(
        {
            "tenant": pool.tenant,
            "profile": pool.profile,
            "slice": pool.template or None,
            "clusters": None if pool.clusters is None else sorted(pool.clusters),
            "guaranteed": pool.guaranteed,
            "lendable": pool.lendable,
            "maximum": pool.maximum,
            "dedicated": pool.dedicated,
        }
    )


def _placement(held: Held, cluster: Cluster, before: Mapping[str, Any], now_ns: int) -> Shown:
    assert held.desired is not None
    status, order = held.status(), held.desired.order
    hands = [hand for hand in held.hands.values() if hand.asked and hand.placement is not None]
    instances = [
        {
            "index": hand.id.index,
            "node": hand.node,
            "object": hand.name,
            "slice": (hand.placement.template if hand.placement else "") or WHOLE,
            "devices": list(hand.devices),
            "ready": hand.alive and hand.warm,
        }
        for hand in hands
    ]
    spec = {
        "job": held.key.job,
        "attempt": held.key.attempt,
        "tenant": order.workload.tenant,
        "kind": order.workload.kind.value,
        "cluster": cluster.id,
    }
    lives = Counter(slices_of(status.instances))
    holds = devices_of(status.instances) if any(held.alive()) else 0.0
    prices = _prices(cluster, *hour_of(cluster, order.site.group, holds, now_ns))
    first = instances[0] if instances else None
    shown = {
        "state": status.phase.value,
        "outcome": None if status.outcome is None else status.outcome.value,
        "message": status.why or None,
        "node": None if first is None else first["node"],
        "slice": spoken(lives) or None,
        "device": None if first is None else ",".join(str(each) for each in hands[0].devices),
        "instances": instances or None,
        **priced(prices, before, now_ns / 1e9),
    }
    return _plain(spec), _plain(shown)


def _prices(cluster: Cluster, money: float, grams: float) -> dict[str, Any]:
    return {
        "costPerHour": round(money, _DIGITS),
        "currency": cluster.tariff.currency,
        GRAMS_PER_HOUR: round(grams, _DIGITS),
    }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in values.items() if value is not None}


def object_name(name: str) -> str:
    """What the object of something is called whose name may be none in Kubernetes."""
    if _NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^a-z0-9.-]", "-", name.lower()).strip(".-")
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
