"""ClusterProfiles: publishes price, carbon and headroom of clusters, reads those of others.

Published as properties of `status`, each applied as the field manager `dure` when it changes: what
others write there stays theirs. Of clusters that have no member, properties of the same names are
read, whoever wrote them: their accelerators are ranked as guests, and carbon and price of power go
to feeds where the settings say so.
"""

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

from dure.api.base import moment_text
from dure.api.clusters import ClusterDocument, TariffSpec
from dure.api.evaluations import GuestCluster, GuestGroup
from dure.api.money import Point, Points
from dure.beside import kinds
from dure.beside.asking import Ranker
from dure.beside.settings import KueueSettings
from dure.client.fleet import AsyncFleetClient, calls
from dure.domain.errors import DureError
from dure.domain.fleet.catalogue import CATALOGUE
from dure.domain.units import NS_PER_S
from dure.kube import labels
from dure.kube.client import KubeClient
from dure.kube.errors import KubeNotFoundError
from dure.kube.informer import Broken, Informer, Synced
from dure.kube.requests import Scope
from dure.kube.resources import Object, key_of

_log = logging.getLogger(__name__)

MANAGER = "dure"
PRICE = f"{labels.PREFIX}price."
"""And an accelerator: what a device of it costs by the hour."""
CURRENCY = f"{labels.PREFIX}currency"
CARBON = f"{labels.PREFIX}carbon-g-per-kwh"
ELECTRICITY = f"{labels.PREFIX}electricity-per-mwh"
DEVICES = f"{labels.PREFIX}devices."
"""And an accelerator: how many of it there are."""
HEADROOM = f"{labels.PREFIX}headroom."
"""And an accelerator: how many of it are free."""
NODE_DEVICES = f"{labels.PREFIX}node-devices."
"""And an accelerator: how many of it a node has; 1 where nobody says."""
_PERIOD_S = 15.0
_RECENT = timedelta(days=2)


def properties_of(cluster: ClusterDocument, carbon: float, electricity: float) -> dict[str, str]:
    """What is published of a cluster, by name."""
    tariff = cluster.spec.tariff
    found = {CURRENCY: tariff.currency, CARBON: _number(carbon), ELECTRICITY: _number(electricity)}
    for name, price in tariff.device_hour.items():
        found[f"{PRICE}{name}"] = _number(price)
    for name, count in cluster.accelerators.items():
        found[f"{DEVICES}{name}"] = str(count.devices)
        found[f"{HEADROOM}{name}"] = str(count.free_devices)
    return found


def guest_of(name: str, said: Mapping[str, str]) -> GuestCluster | None:
    """A cluster as its properties describe it; None: they do not say what it has."""
    groups = []
    for accelerator in sorted(CATALOGUE):
        devices = int(_float(said.get(f"{DEVICES}{accelerator}")) or 0)
        if devices <= 0:
            continue
        each = max(1, int(_float(said.get(f"{NODE_DEVICES}{accelerator}")) or 1))
        nodes = -(-devices // each)
        free = int(_float(said.get(f"{HEADROOM}{accelerator}")) or 0)
        groups.append(
            GuestGroup(
                name=accelerator,
                profile=accelerator,
                devices=each,
                nodes=nodes,
                free_devices=max(0, min(free, nodes * each)),
            )
        )
    if not groups:
        return None
    prices = {
        key.removeprefix(PRICE): price
        for key, value in said.items()
        if key.startswith(PRICE) and (price := _float(value)) is not None
    }
    return GuestCluster(
        name=name,
        tariff=TariffSpec(currency=said.get(CURRENCY, "USD"), device_hour=prices),
        carbon=_float(said.get(CARBON)) or 0.0,
        electricity=_float(said.get(ELECTRICITY)) or 0.0,
        groups=groups,
    )


def _number(value: float) -> str:
    return f"{value:.6g}"


def _float(text: str | None) -> float | None:
    try:
        value = None if text is None else float(text)
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


class Profiles:
    """Keeps the ClusterProfiles of one cluster and the fleet in step."""

    def __init__(
        self,
        client: KubeClient,
        ranker: Ranker,
        fleet: AsyncFleetClient,
        settings: KueueSettings,
    ) -> None:
        self._client = client
        self._ranker = ranker
        self._fleet = fleet
        self._settings = settings
        self._joined: frozenset[str] | None = None
        """None: not known yet."""
        self._told: dict[str, str] = {}
        """Values last given to feeds."""
        self._synced = asyncio.Event()
        self.ready = asyncio.Event()
        """Set once it was tried to read all there is."""
        scope = Scope(namespace=settings.profile_namespace)
        self._informer = Informer(client, kinds.CLUSTER_PROFILES, scope)

    async def run(self) -> None:
        """Publish and read until cancelled; does nothing where there are no ClusterProfiles."""
        try:
            await self._client.list(kinds.CLUSTER_PROFILES, Scope())
        except KubeNotFoundError:
            _log.info("this cluster has no ClusterProfiles; none are published or read")
            self.ready.set()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._keep())

    async def _follow(self) -> None:
        async with aclosing(self._informer.happenings()) as happenings:
            async for happening in happenings:
                match happening:
                    case Synced():
                        self._synced.set()
                    case Broken(error=error):
                        _log.warning("ClusterProfiles cannot be followed: %s", error)

    async def _keep(self) -> None:
        await self._synced.wait()
        while True:
            try:
                await self.once()
            except DureError as error:
                _log.warning("ClusterProfiles are not up to date: %s", error)
            self.ready.set()
            await asyncio.sleep(_PERIOD_S)

    async def once(self) -> None:
        """Publish what has changed, and hand on what others say."""
        clusters = {each.name: each for each in await self._ranker.clusters()}
        self._joined = frozenset(clusters)
        for profile in list(self._informer.objects.values()):
            name = self._ours(profile)
            if name in clusters and clusters[name].accelerators:
                await self._publish(profile, clusters[name])
            else:
                await self._feed(name, said_in(profile))

    def guests(self) -> Sequence[GuestCluster]:
        """Clusters that have not joined, of which a ClusterProfile says what they have."""
        found = []
        for profile in self._informer.objects.values():
            name = self._ours(profile)
            if self._joined is None or name in self._joined:
                continue
            try:
                guest = guest_of(name, said_in(profile))
            except ValueError as error:
                _log.warning("ClusterProfile %s cannot be understood: %s", name, error)
                continue
            if guest is not None:
                found.append(guest)
        return found

    def _ours(self, profile: Object) -> str:
        name = key_of(profile).name
        return self._settings.clusters.get(name, name)

    async def _publish(self, profile: Object, cluster: ClusterDocument) -> None:
        wanted = properties_of(
            cluster,
            await self._hourly(cluster.spec.carbon.constant, cluster.spec.carbon.feed),
            await self._hourly(cluster.spec.electricity.constant, cluster.spec.electricity.feed),
        )
        said = said_in(profile)
        if all(said.get(name) == value for name, value in wanted.items()):
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        key = key_of(profile)
        properties = [
            {"name": name, "value": value, "lastObservedTime": now}
            for name, value in sorted(wanted.items())
        ]
        await self._client.apply(
            kinds.CLUSTER_PROFILES,
            {
                "metadata": {"name": key.name, "namespace": key.namespace},
                "status": {"properties": properties},
            },
            manager=MANAGER,
            force=True,
            subresource="status",
        )

    async def _hourly(self, constant: float | None, feed: str | None) -> float:
        """A number, or the latest of a feed."""
        if feed is None:
            return constant or 0.0
        now = datetime.now(UTC)
        points = await self._fleet.do(calls.list_points(feed, _text(now - _RECENT), _text(now)))
        return points.points[-1].value if points.points else 0.0

    async def _feed(self, name: str, said: Mapping[str, str]) -> None:
        """Hand price of power and carbon of a cluster on to the feeds that the settings name."""
        wanted = self._settings.profile_feeds.get(name)
        if wanted is None:
            return
        for feed, key in ((wanted.carbon, CARBON), (wanted.electricity, ELECTRICITY)):
            value = _float(said.get(key))
            if feed is None or value is None or self._told.get(feed) == said[key]:
                continue
            point = Point(at=_text(datetime.now(UTC)), value=value)
            await self._fleet.do(calls.add_points(feed, Points(points=[point])))
            self._told[feed] = said[key]


def said_in(profile: Object) -> dict[str, str]:
    """The properties of a ClusterProfile."""
    status = profile.get("status") or {}
    return {each["name"]: each["value"] for each in status.get("properties") or ()}


def _text(moment: datetime) -> str:
    return moment_text(int(moment.timestamp()) * NS_PER_S)
